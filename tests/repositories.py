"""Looking at the repositories of checkpoints as somebody else would: with git itself, or by every byte of every object."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path

from dulwich.object_store import DiskObjectStore
from dulwich.objects import Commit, Tree

from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints.taking import Checkpoints
from tests.hosts import bytes_under

GIT = shutil.which("git")


def folder_of(agent: HostedAgent) -> Path:
    """Where an agent's repository is."""
    checkpoints: Checkpoints = agent._runtime.checkpoints
    known = checkpoints.registry.get(agent.id)
    assert known is not None
    return checkpoints.registry.workspace / known.folder


def git(folder: Path, *arguments: str) -> str:
    """What the system's git says; it must not fail, nor be led astray by anybody's own settings."""
    assert GIT is not None
    environment = {"HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", "PATH": str(Path(GIT).parent)}
    done = subprocess.run([GIT, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(folder: Path) -> None:
    """The repository is whole: by git itself where it is there, and by reading every object in any case."""
    store = DiskObjectStore(str(folder / ".git" / "objects"))
    for ident in store:
        found = store[ident]
        found.check()
        assert found.id == ident
        if isinstance(found, Commit):
            assert {found.tree, *found.parents} <= set(store)
        elif isinstance(found, Tree):
            assert {entry.sha for entry in found.iteritems()} <= set(store)
    store.close()
    if GIT is not None:
        git(folder, "fsck", "--full", "--strict")
        assert git(folder, "status", "--porcelain", "--untracked-files=no") == ""


def everything_in(folder: Path) -> bytes:
    """Every byte below a folder: of the files as they lie there, and of all git objects, unpacked."""
    found = [bytes_under(folder), *(str(path).encode() for path in folder.rglob("*"))]
    for objects in folder.rglob("objects"):
        store = DiskObjectStore(str(objects))
        found += [store[ident].as_raw_string() for ident in store]
        store.close()
        # Those too that no list names any more.
        loose = [path for path in objects.glob("[0-9a-f][0-9a-f]/*") if path.is_file()]
        found += [zlib.decompress(path.read_bytes()) for path in loose if len(path.name) == 38]
    return b"\0".join(found)
