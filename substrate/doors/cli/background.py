"""The server that `substrate up` leaves running: is it alive, where does it listen; starting and stopping it.

<home>/serving/
    starting      locked while somebody starts or stops the server
    looking       locked for a moment by who takes or reads the next two, so that they are always of one server
    alive         locked by the server as long as it lives: a process id may be another's by now, a lock cannot
    server.json   what the server says of itself: who, since when, where, and at last that it ends
    server.log    what it and the libraries in it print, and before that server.log.1
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from substrate.errors import ServerUnavailable
from substrate.world.server.detached import launch
from substrate.world.server.folders import make_folder, write_private
from substrate.world.server.lock import Waiting, locked, try_lock

#: Seconds that a server has to answer after its start, and to end after it was asked to.
PATIENCE = 60.0
#: Seconds that a server has to say whether it is ready.
ANSWER_SECONDS = 5.0
#: The log and the one before it are at most about so large, each.
LARGEST_LOG = 5_000_000


State = Literal["stopped", "starting", "serving", "stopping", "crashed"]


@dataclass(frozen=True, slots=True)
class Serving:
    """What can be seen of the server without asking it. `crashed`: it ended without saying so."""

    state: State
    log: Path
    pid: int | None = None
    address: str | None = None
    since: datetime | None = None
    #: Of which version its program is.
    version: str | None = None

    @property
    def running(self) -> bool:
        """Its process is there, whatever it is at."""
        return self.state in ("starting", "serving", "stopping")


@dataclass(frozen=True, slots=True)
class Said:
    """What a server says of itself in `server.json`."""

    pid: int
    since: str
    #: Empty where it was not said: by an earlier version.
    version: str = ""
    address: str | None = None
    ends: bool = False

    def state(self, *, is_alive: bool) -> State:
        if not is_alive:
            return "stopped" if self.ends else "crashed"
        return "stopping" if self.ends else "serving" if self.address else "starting"


class Background:
    """The server of one home, whoever started it; there is one at most."""

    def __init__(self, home: Path) -> None:
        self._folder = home.expanduser().resolve() / "serving"
        self._file = self._folder / "server.json"
        self.log = self._folder / "server.log"

    # -------------------------------------------------------------- for who looks after it

    def status(self) -> Serving:
        """Look at it; starts and changes nothing."""
        if not self._folder.is_dir():
            return Serving("stopped", self.log)
        with self._looking() as is_alive:
            said = self._said()
        if said is None:
            return Serving("starting" if is_alive else "stopped", self.log)
        state = said.state(is_alive=is_alive)
        if state == "stopped":
            return Serving(state, self.log)
        return Serving(state, self.log, said.pid, said.address, datetime.fromisoformat(said.since), said.version)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], say: Callable[[str], None]
    ) -> tuple[Serving, bool]:
        """Start the server unless it runs, and wait until it listens; also whether it was this call that started it.

        Raises `ServerUnavailable` with the last it said, if it does not come to that.
        """
        self._make_folder()
        waiting = Waiting(say)
        with locked(self._folder / "starting", waiting):
            while (now := self.status()).state == "stopping":
                waiting("the server of before is ending")
            if now.running:
                return self._listening(waiting, None), False
            self._file.unlink(missing_ok=True)
            began = self._make_room()
            ended = self._launch(command, environment)
            try:
                return self._listening(waiting, ended, began), True
            finally:
                os.close(ended)

    @property
    def is_outdated(self) -> bool:
        """A server runs whose program is another than ours: it would not know what we make of the database."""
        seen = self.status()
        return seen.running and seen.version not in (None, program_version())

    def stop(self) -> bool:
        """Ask the server to end, and wait until it has; False if it was not running. Raises `ServerUnavailable`."""
        if not self._folder.is_dir():
            return False
        waiting = Waiting(None)
        with locked(self._folder / "starting", waiting):
            is_asked = False
            while (now := self.status()).running:
                if now.pid is not None and not is_asked:
                    is_asked = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(now.pid, signal.SIGTERM)
                if waiting.seconds > PATIENCE:
                    raise ServerUnavailable(f"process {now.pid} was asked to end and did not; end it, and repeat this")
                waiting("the server is ending")
            # What a crashed one left is of no more use.
            self._file.unlink(missing_ok=True)
            return is_asked

    def ailing(self, seen: Serving) -> str | None:
        """Why a server that listens does not serve as it should; asked of itself."""
        return None if seen.address is None or not seen.running else unready(seen.address)

    # -------------------------------------------------------------- for the server itself

    @contextmanager
    def being_the_server(self) -> Iterator[Callable[[str], None]]:
        """Be the server of this home until the end of the block; yields what to tell the address. Raises `ServerUnavailable`."""
        self._make_folder()
        # Never closed by us: the lock is there until the process is gone, and who waits for its end waits for that.
        alive = os.open(self._folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        said = Said(os.getpid(), datetime.now(UTC).isoformat(), program_version())
        with locked(self._folder / "looking", Waiting(None)):
            if not try_lock(alive):
                os.close(alive)
                raise self._taken()
            self._write(said)
        try:
            yield lambda address: self._write(replace(said, address=address))
        finally:
            self._write(replace(said, ends=True))

    def bound_log(self) -> None:
        """Keep the log from growing without end, where this process writes it."""
        with contextlib.suppress(FileNotFoundError):
            found = os.fstat(2)
            if found.st_size > LARGEST_LOG and os.path.samestat(found, self.log.stat()):
                # Copied and emptied instead of renamed: our descriptors stay, and all of them append.
                self.log.with_suffix(".log.1").write_bytes(self.log.read_bytes()[-LARGEST_LOG:])
                os.truncate(self.log, 0)

    # -------------------------------------------------------------- how

    def _make_folder(self) -> None:
        # As root the embedded server runs under another account, which must be able to pass through the home.
        make_folder(self._folder.parent, 0o711 if sys.platform != "win32" and os.geteuid() == 0 else 0o700)
        make_folder(self._folder)

    @contextmanager
    def _looking(self) -> Iterator[bool]:
        with locked(self._folder / "looking", Waiting(None)):
            descriptor = os.open(self._folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                yield not try_lock(descriptor)
            finally:
                os.close(descriptor)

    def _said(self) -> Said | None:
        try:
            said = json.loads(self._file.read_text(encoding="utf-8"))
            # A later version may say more.
            return Said(**{one.name: said[one.name] for one in fields(Said) if one.name in said})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise ServerUnavailable(f"{self._file} cannot be read; end the server if one runs, and remove it") from None

    def _write(self, said: Said) -> None:
        write_private(self._file, json.dumps(asdict(said)))

    def _make_room(self) -> int:
        """Begin a new log where the old one is full, and say at which byte the next server's words begin."""
        size = self.log.stat().st_size if self.log.exists() else 0
        if size > LARGEST_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))
            return 0
        return size

    def _launch(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Start it, and return what reads the end of a pipe when it is gone: it alone has the other end."""
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        ended, held = os.pipe()
        try:
            launch(command, log=log, folder=Path.cwd(), environment=environment, inherited=[held])
        finally:
            os.close(log)
            os.close(held)
        return ended

    def _listening(self, waiting: Waiting, ended: int | None, began: int = 0) -> Serving:
        while True:
            now = self.status()
            if now.state == "serving":
                return now
            # One that ended because another was faster is no loss.
            if ended is not None and not now.running and select.select([ended], [], [], 0)[0]:
                said = self.log.read_bytes()[began:].decode(errors="replace").splitlines()[-15:]
                raise ServerUnavailable("\n".join(["the server ended while starting; it said:", *said]))
            if ended is None and not now.running:
                raise ServerUnavailable("the server that was starting has ended; repeat this")
            if waiting.seconds > PATIENCE:
                raise ServerUnavailable(f"the server did not come to listen within {PATIENCE:g} s; see {self.log}")
            waiting("the server is starting")

    def _taken(self) -> ServerUnavailable:
        said = self._said()
        where = f" at {said.address}" if said is not None and said.address else ""
        return ServerUnavailable(f"a server of this home runs already{where}; `substrate down` stops it")


def program_version() -> str:
    """The version of this program, and the schema that it knows."""
    from importlib.metadata import version

    from substrate.world.migrate import known_revisions

    return f"{version('substrate-memory')}, schema {known_revisions()[-1]}"


def unready(address: str) -> str | None:
    """Why the server at this address is not ready to serve; None if it is."""
    found = urlsplit(address)
    connection: HTTPConnection = (
        # Whose certificate it shows does not matter: it is told nothing.
        HTTPSConnection(found.netloc, timeout=ANSWER_SECONDS, context=ssl._create_unverified_context())  # noqa: S323, SLF001
        if found.scheme == "https"
        else HTTPConnection(found.netloc, timeout=ANSWER_SECONDS)
    )
    try:
        connection.request("GET", "/health/ready")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"it does not answer: {str(error) or type(error).__name__}"
    finally:
        connection.close()
    return None if status == HTTPStatus.OK else f"it says that it is not ready ({status})"
