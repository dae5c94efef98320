"""Where the demo is played: a home and a database of its own. Nothing of the user's is touched, and nothing is left."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.database import Database
from substrate.world.migrate import upgrade
from substrate.world.server import EmbeddedServer


@dataclass(frozen=True)
class Stage:
    """An empty database, and runtimes on it whose files are below `home`."""

    home: Path
    settings: Settings

    def runtime(self, name: str) -> Runtime:
        """Open a runtime of this name; the caller closes it."""
        return Runtime.open(name, settings=self.settings)

    def files_with(self, text: str) -> list[Path]:
        """The files of all runtimes that hold these words in their bytes."""
        files = (path for path in (self.home / "runtimes").rglob("*") if path.is_file())
        return [path for path in files if text.encode() in path.read_bytes()]


@contextmanager
def stage(say: Callable[[str], None]) -> Iterator[Stage]:
    """Set it up, and take it down whatever happens on it."""
    # Not of mkdtemp: as root the server runs under another account, which could not enter that.
    home = Path(tempfile.gettempdir()).resolve() / f"substrate-demo-{secrets.token_hex(6)}"
    server = EmbeddedServer(home)
    try:
        say("setting up a PostgreSQL for this demo alone …")
        server.start(say)
        upgrade(server.owner_url, Database(server.app_url).role)
        yield Stage(home, _settings(home, server))
    finally:
        server.destroy()
        shutil.rmtree(home, ignore_errors=True)


def _settings(home: Path, server: EmbeddedServer) -> Settings:
    """Defaults, whatever the environment says: the demo shows the same everywhere."""
    return Settings.model_construct(
        **{name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
        | {"home": home, "database_url": SecretStr(server.app_url), "owner_url": SecretStr(server.owner_url)}
    )
