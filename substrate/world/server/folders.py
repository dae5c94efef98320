"""Where the embedded server keeps its things, and who may enter there.

<home>/server/            ours
    passwords.json        ours alone
    place.json            where the following are
    lock                  held while somebody starts or stops the server
<home>/server/, or for root perhaps a folder below /var/lib/substrate
    data/  socket/        the server's account alone
    log/  alive           ours; `alive` is locked as long as any process of the server lives
    staging/              an unfinished initdb
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from substrate.errors import ServerUnavailable
from substrate.world.server.account import Account

#: Where root's servers live when their account cannot enter the home folder, and where it finds its programs then.
ELSEWHERE = Path("/var/lib/substrate")
#: sun_path is 108 bytes on Linux, 104 on macOS, and libpq refuses what does not fit.
LONGEST_SOCKET = 100
UNIX_PORT = 5432


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one server. `socket` is None where there are no Unix sockets: then `port` is on loopback."""

    folder: Path
    socket: Path | None
    port: int = UNIX_PORT

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def staging(self) -> Path:
        return self.folder / "staging"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "postgres.log"

    @property
    def alive(self) -> Path:
        return self.folder / "alive"

    @property
    def socket_name(self) -> str:
        return f".s.PGSQL.{self.port}"

    @property
    def is_initialised(self) -> bool:
        return (self.data / "PG_VERSION").exists()


def write_private(path: Path, text: str, owner: Account | None = None) -> None:
    """Replace a file in one step, readable by its owner alone; a crash leaves the old one or the new one."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if owner is not None:
                owner.own(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = 0o700, owner: Account | None = None) -> None:
    """Create a folder with exactly this mode; one that exists keeps the mode its owner gave it."""
    try:
        folder.mkdir(mode=mode, parents=True)
    except FileExistsError:
        return
    folder.chmod(mode)
    if owner is not None:
        owner.own(folder)


def recorded_place(base: Path) -> Place | None:
    """The place that was settled for this server, or None before its first start."""
    try:
        record = json.loads((base / "place.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except PermissionError:
        raise ServerUnavailable(
            f"the server of {base} is another user's: run this as that user, or set SUBSTRATE_HOME"
        ) from None
    # A folder inside the home is not recorded by path: a home may be moved while the server is down.
    folder = Path(record["folder"]) if record["folder"] else base
    inside = folder / "socket" if sys.platform != "win32" else None
    return Place(folder, Path(record["socket"]) if record["socket"] else inside, record["port"])


def settle(base: Path, account: Account) -> Place:
    """Decide where a stopped server's folders are, create what is missing, and record it."""
    earlier = recorded_place(base)
    folder = earlier.folder if earlier else _server_folder(base, account)
    make_folder(folder / "log")
    place = _with_socket(folder, earlier.socket if earlier else None, account)
    record = {
        "folder": str(folder) if folder != base else None,
        "socket": str(place.socket) if place.socket not in (None, folder / "socket") else None,
        "port": place.port,
    }
    write_private(base / "place.json", json.dumps(record, indent=2))
    return place


def _server_folder(base: Path, account: Account) -> Path:
    if account.can_enter(base):
        return base
    # Opening somebody's home to others is not ours to do, so the server's folders go where its account can follow.
    make_folder(ELSEWHERE, 0o711)
    # Never a folder that was there before: its passwords went with the home it belonged to.
    prefix = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=ELSEWHERE))
    folder.chmod(0o711)
    write_private(folder / "belongs-to", f"{base}\n")
    if not account.can_enter(folder):
        raise ServerUnavailable(
            f"the account {account.name} can enter neither {base} nor {folder}:"
            " run this as an ordinary user, or set SUBSTRATE_HOME to a folder it can enter"
        )
    return folder


def _with_socket(folder: Path, earlier: Path | None, account: Account) -> Place:
    if sys.platform == "win32":
        return Place(folder, None, _free_port())
    inside = folder / "socket"
    if _is_usable(inside):
        make_folder(inside, owner=account)
        return Place(folder, inside)
    if earlier is not None and _is_private(earlier, account):
        return Place(folder, earlier)
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 — mkdtemp makes a folder nobody else can enter
        short = Path(tempfile.mkdtemp(prefix="substrate-", dir=parent))
        account.own(short)
        if _is_usable(short) and account.can_enter(short):
            return Place(folder, short)
        short.rmdir()
    raise ServerUnavailable(f"no folder is short enough for a Unix socket: set SUBSTRATE_HOME to less than {folder}")


def _is_usable(folder: Path) -> bool:
    """libpq takes a comma for the end of a host, quoted or not."""
    return len(os.fsencode(folder / Place(folder, folder).socket_name)) < LONGEST_SOCKET and "," not in str(folder)


def _is_private(folder: Path, account: Account) -> bool:
    """A restart empties the temporary folder, and then anybody may have made one of that name."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return found.st_uid == account.uid and found.st_mode & 0o170777 == 0o040700


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
