"""Serving HTTP and MCP: here until Ctrl-C, or in the background."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from substrate.doors.cli import database, output
from substrate.doors.cli.command import command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import SYSTEM, app
from substrate.errors import ServerUnavailable

if TYPE_CHECKING:
    from substrate.doors.cli.background import Serving
    from substrate.settings import Settings

Port = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, show_default="SUBSTRATE_HTTP_PORT, or else 8420 or any free one",
                 help="Port to serve HTTP and MCP on; 0 is any free one."),
]  # fmt: skip
#: How often the server looks at the size of its log.
LOOK_AT_LOG = timedelta(minutes=1)
#: What says who acts and how to answer is for the command that was typed, and not for a server of many.
NOT_FOR_THE_SERVER = ("TOKEN", "TOKEN_FILE", "AS", "JSON", "YES", "SESSION", "RUN", "HOUSE")


@command(app, panel=SYSTEM, examples=["substrate serve", "substrate serve --port 8500", "substrate serve --json"])
def serve(here: Here, port: Port = None) -> None:
    """Serve HTTP and MCP on one port, in the foreground, until Ctrl-C or SIGTERM.

    The database is started and brought up to date first, as by `substrate up`. Who comes in is said by the token of each
    request. The embedded PostgreSQL stays when the server ends.
    """
    in_foreground(here, port)


def in_foreground(here: Here, port: int | None) -> None:
    """Be the server of this home until a signal ends it. Raises `ServerUnavailable` if there is one already."""
    from substrate.doors.cli.background import Background
    from substrate.doors.http.serving import serve as serve_http
    from substrate.runtime.runtime import Runtime

    background = Background(here.settings.home)
    with _ended_by_sigterm(), background.being_the_server() as listening:
        database.prepare(here)
        settings = _settings(here, port)

        def ready(address: str) -> None:
            listening(address)
            _announce(here, address)

        with Runtime.open(settings=settings) as runtime:
            runtime.chores.add("log", LOOK_AT_LOG, background.bound_log)
            serve_http(runtime, settings, ready)


def in_background(here: Here, port: int | None) -> tuple[Serving, bool]:
    """Have a server running that answers; True if it had to be started. Raises `ServerUnavailable`."""
    from substrate.doors.cli.background import Background

    background = Background(here.settings.home)
    if not background.status().running:
        port = _port(here, port)  # decided here, where a note is heard
    found, is_new = background.start(_command(here, port), _environment(), here.say)
    if not is_new and port and urlsplit(found.address or "").port != port:
        here.say(f"note: the server runs already, at {found.address}; to move it, stop it first with `substrate down`")
    problem = background.ailing(found)
    if problem is not None:
        raise ServerUnavailable(f"the server at {found.address} is not well: {problem}; see {found.log}")
    return found, is_new


def stop_outdated(here: Here) -> None:
    """End a server whose program is of another version, before the database is brought up to date under it."""
    from substrate.doors.cli.background import Background

    background = Background(here.settings.home)
    if background.is_outdated:
        here.say("the server that runs is of another version, and is started anew …")
        background.stop()


def how_to_connect(here: Here, address: str) -> list[str]:
    """What to type to come in as who is in use here, or will be."""
    current = here.credentials.current
    who = "ana" if current is None else current.name
    return [
        "Connect:",
        f"  TOKEN=$(substrate token issue --as {who} --show-token)",
        f'  curl -H "Authorization: Bearer $TOKEN" {address}/v1/whoami',
        f'  MCP over HTTP: {address}/mcp, with the header "Authorization: Bearer $TOKEN"',
        f"  MCP over stdio: the command `{_program()} mcp --as {who}`; `substrate mcp-config` prints it for a client's file",
    ]


# ------------------------------------------------------------------ how


def _program() -> str:
    """This program as a client that starts it from elsewhere must call it."""
    beside = Path(sys.executable).with_name("substrate")
    return str(beside) if beside.exists() else "substrate"


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C, also before requests are answered and after that: all is closed on the way out."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def pass_on(_number: int, _frame: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    # A terminal that is closed ends it, too, and by the same way.
    handlers = {signal.SIGTERM: end} | ({signal.SIGHUP: pass_on} if sys.platform != "win32" else {})
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(here: Here, address: str) -> None:
    if here.as_json:
        output.write_json({"address": address, "pid": os.getpid()}, indent=None)
    else:
        output.write([f"serving HTTP and MCP at {address} until Ctrl-C", "", *how_to_connect(here, address)])


def _settings(here: Here, port: int | None) -> Settings:
    """As they are set, and with logs: a server says what happens."""
    settings = here.settings
    return settings.model_copy(update={"http_port": _port(here, port), "log": settings.log or "text"})


def _port(here: Here, given: int | None) -> int:
    """The one that is given or set; else ours, or where another program has that one, any."""
    settings = here.settings
    wanted = settings.http_port if given is None else given
    is_meant = given is not None or "http_port" in settings.model_fields_set
    if is_meant or not _is_taken(settings.http_host, wanted):
        return wanted
    here.say(f"note: port {wanted} is taken by another program, so any free one is used; SUBSTRATE_HTTP_PORT sets one")
    return 0


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            # Any other mistake in the address is told by who serves.
            return error.errno == errno.EADDRINUSE
    return False


def _command(here: Here, port: int | None) -> list[str]:
    # Without -P, a file of the current folder could take the place of a module.
    command = [sys.executable, "-P", "-m", "substrate", "serve", "--home", str(here.settings.home.resolve())]
    if here.configuration.file is not None:
        command += ["--config", str(here.configuration.file.resolve())]
    return command if port is None else [*command, "--port", str(port)]


def _environment() -> dict[str, str]:
    without = {f"SUBSTRATE_{name}" for name in NOT_FOR_THE_SERVER}
    return {name: value for name, value in os.environ.items() if name not in without}
