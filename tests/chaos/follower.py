"""A process that follows a house's stream into a folder until it is killed. Says each position it has come to."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

from substrate.world.credential import Credential
from substrate.world.world import World
from tests.hosts import indexes


def main() -> None:
    app_url, folder, house, principal = sys.argv[1:]
    with World.open(app_url=app_url) as world:
        made = indexes(world.database, UUID(house), Path(folder), Credential(UUID(principal), UUID(house), None))
        while True:
            position = made.step()
            if made.faults:
                made.heal()
            made.fill_vectors()
            print(position, flush=True)


if __name__ == "__main__":
    main()
