"""The server's first process: is it alive, is it ready, launching and signalling it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from substrate.errors import ServerUnavailable
from substrate.world.server.account import Account
from substrate.world.server.binaries import Binaries
from substrate.world.server.cluster import server_environment
from substrate.world.server.detached import launch
from substrate.world.server.folders import Place
from substrate.world.server.lock import Waiting, try_lock

State = Literal["stopped", "starting", "ready", "stopping"]
StopMode = Literal["smart", "fast", "immediate"]

SIGNALS: dict[StopMode, str] = {"smart": "TERM", "fast": "INT", "immediate": "QUIT"}
LARGEST_LOG = 10_000_000
#: How long the processes of a killed server may take to notice that it is gone.
LEFTOVERS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The server process of one data folder, whoever started it."""

    place: Place
    account: Account

    def pid(self) -> int | None:
        """Its process id, if it is alive."""
        lines = self._pid_file()
        if not lines or not lines[0].isdigit():
            return None
        pid = int(lines[0])
        # After a kill or a restart of the machine the number may be anybody's, and a zombie still has one.
        return pid if _is_running(pid, self.place.data, self.account) else None

    def state(self) -> State:
        if self.pid() is None:
            return "stopped"
        # Asking by connecting would put a FATAL line into the log for each poll of a long crash recovery.
        lines = self._pid_file()
        word = lines[7].strip() if len(lines) > 7 else "starting"
        return "ready" if word == "ready" else "stopping" if word == "stopping" else "starting"

    def launch(self, binaries: Binaries, waiting: Waiting) -> int:
        """Start the process, which stays when we are gone. Returns when it has signed its pid file: where its log began.

        The caller holds the start lock and has seen the end of every earlier process.
        """
        self._remove_stale_locks()
        if self.place.log.exists() and self.place.log.stat().st_size > LARGEST_LOG:
            self.place.log.replace(self.place.log.with_suffix(".log.1"))
        alive = os.open(self.place.alive, os.O_RDWR | os.O_CREAT, 0o600)
        log = os.open(self.place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            began = os.fstat(log).st_size
            try_lock(alive)
            pid = _spawn(binaries, self.place, self.account, alive, log)
        finally:
            os.close(alive)
            os.close(log)
        while not self._has_signed(pid):
            if not _is_running(pid, self.place.data, self.account):
                raise self.died(began)
            waiting("the server is starting")
        return began

    def died(self, began: int = 0) -> ServerUnavailable:
        """What to raise when the process is gone, with the last it said after byte `began` of the log."""
        try:
            said = self.place.log.read_bytes()[began:].decode(errors="replace").splitlines()[-15:]
        except OSError:
            said = []
        return ServerUnavailable("\n".join([f"the server ended while starting; {self.place.log} says:", *said]))

    def send_stop(self, pid: int, mode: StopMode, binaries: Binaries | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform != "win32":
                os.kill(pid, signal.Signals[f"SIG{SIGNALS[mode]}"])
            elif binaries is not None:
                subprocess.run([binaries.program("pg_ctl"), "kill", SIGNALS[mode], str(pid)], check=True)

    def await_end(self, waiting: Waiting) -> None:
        """Return when no process of the server is left, so that a new one may open the data.

        A killed postmaster leaves its children behind. Idle ones end at once; one in the middle of a long query ends
        when that is done, and until then a new server would find the old one's shared memory in use.
        It may also turn out that somebody launched a server and was killed the next moment: then that one is alive.
        """
        while self.pid() is not None:
            waiting("the server is stopping")
        deadline = waiting.seconds + LEFTOVERS_SECONDS
        while self._has_leftovers() and self.pid() is None:
            orphans = _orphans(self.place.data, self.account)
            for orphan in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGQUIT)  # what the postmaster would have sent; nothing committed is lost
            if waiting.seconds > deadline:
                raise ServerUnavailable(
                    f"processes of a killed server still use {self.place.data}"
                    f" ({', '.join(map(str, orphans)) or 'perhaps in another container'}): end them, then start again"
                )
            waiting("processes of a killed server are ending")

    def _has_leftovers(self) -> bool:
        # Every process of the server has inherited a descriptor of this file, with its lock. Unlike a process id, that
        # can neither be reused nor seen from one container only. Asked under the start lock, or two would ask at once.
        if sys.platform == "win32" or not self.place.alive.exists():
            return False
        descriptor = os.open(self.place.alive, os.O_RDWR)
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)

    def _remove_stale_locks(self) -> None:
        """What a killed server left. A number in there may be another process's by now, and PostgreSQL would give way."""
        (self.place.data / "postmaster.pid").unlink(missing_ok=True)
        if self.place.socket is not None:
            self.place.socket.joinpath(f"{self.place.socket_name}.lock").unlink(missing_ok=True)

    def _pid_file(self) -> list[str]:
        try:
            return (self.place.data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _has_signed(self, pid: int | None) -> bool:
        lines = self._pid_file()
        return bool(lines) and (pid is None or lines[0] == str(pid))


def _spawn(binaries: Binaries, place: Place, account: Account, alive: int, log: int) -> int | None:
    """Run `postgres` as nobody's child, in a session of its own, and return its process id."""
    command = [str(binaries.program("postgres")), "-D", str(place.data)]
    if sys.platform == "win32":
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=server_environment(),
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW,
        )
        return None
    return launch(
        command, log=log, folder=place.folder, environment=server_environment(), inherited=[alive], account=account
    )


def _is_running(pid: int | None, data: Path, account: Account) -> bool:
    """Is this process the postmaster of that data folder?"""
    if pid is None:
        return True
    if sys.platform == "win32":
        tasks = subprocess.run(["tasklist", "/FI", f"PID eq {pid}", "/NH"], capture_output=True, text=True, check=True)
        return "postgres.exe" in tasks.stdout
    process = Path("/proc") / str(pid)
    try:
        if Path("/proc/self/cmdline").exists():
            words = (process / "cmdline").read_bytes().split(b"\0")
            return os.fsencode(data) in words and process.stat().st_uid == account.uid
    except (FileNotFoundError, ProcessLookupError):
        return False
    shown = subprocess.run(
        ["ps", "-ww", "-o", "uid=", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    uid, _, command = shown.stdout.strip().partition(" ")
    return uid == str(account.uid) and command.rstrip().endswith(str(data))


def _orphans(data: Path, account: Account) -> list[int]:
    """Children of a killed postmaster, where /proc can tell: they work in the data folder under their own titles."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() != data or not (process / "cmdline").read_bytes().startswith(b"postgres:"):
                continue
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if not _is_running(parent, data, account):
                found.append(int(process.name))
    return found
