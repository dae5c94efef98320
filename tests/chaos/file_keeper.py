"""A process that brings an agent's folder and the records together until it is killed. Says when it has done so."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

from substrate.runtime.runtime import Runtime
from substrate.settings import Settings


def main() -> None:
    app_url, home, house, agent = sys.argv[1:]
    settings = Settings(home=Path(home), embedder="none")
    with Runtime.open("keeper", app_url=app_url, settings=settings, follow=False) as runtime:
        runtime.trusted_agent(UUID(agent), UUID(house))
        runtime.file_folders.rest = 0
        while True:
            runtime.file_folders.sync()
            print("synced", flush=True)


if __name__ == "__main__":
    main()
