"""The Model Context Protocol: serve it to the client that started this process, and say how a client is told of it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import SYSTEM, app

Tools = Annotated[
    str | None,
    typer.Option("--tools", metavar="SETS", show_default="SUBSTRATE_TOOLS",
                 help="Sets of tools to show, with commas between: memory, keyed, provenance, files, mem0, graph."),
]  # fmt: skip


@command(app, panel=SYSTEM, examples=["substrate mcp --as kate", "substrate mcp --as kate --tools memory,graph"])
def mcp(here: Here, tools: Tools = None, runtime: o.Runtime = None) -> None:
    """Serve the Model Context Protocol on standard input and output, as one agent, until the input ends.

    A client starts this by itself, once it is told of it: claude mcp add substrate -- substrate mcp --as kate
    """
    from substrate.doors.mcp.stdio import serve_stdio

    sets = None if tools is None else tuple(name for name in (one.strip() for one in tools.split(",")) if name)
    if sys.stdin.isatty():
        here.say("this is for MCP clients, who start it by themselves: see `substrate mcp-config`; Ctrl-D ends it")
    here.serve(lambda opened, token: serve_stdio(opened, token, sets), runtime)


@command(app, "mcp-config", panel=SYSTEM, examples=["substrate mcp-config --as kate", "substrate mcp-config --http"])
def mcp_config(
    here: Here,
    *,
    http: Annotated[
        bool, typer.Option("--http", help="For the server of `substrate up`, instead of a process for the client.")
    ] = False,
) -> Answer:
    """Print what tells an MCP client of this server, as JSON for its configuration file. No secret is in it."""
    entry = _over_http(here) if http else _over_stdio(here)
    told = {"mcpServers": {"substrate": entry}}
    return Answer(told, json.dumps(told, indent=2))


def _over_stdio(here: Here) -> dict[str, Any]:
    arguments, variables = here.said_again()
    # Clients with windows do not have the PATH of a shell, so the program is named in full.
    program = shutil.which("substrate", path=str(Path(sys.executable).parent)) or "substrate"
    started = {"command": program, "args": ["mcp", *arguments]}
    return started | ({"env": {name: f"${{{name}}}" for name in variables}} if variables else {})


def _over_http(here: Here) -> dict[str, Any]:
    from substrate.doors.cli.background import Background

    settings = here.settings
    scheme = "http" if settings.http_tls_cert is None else "https"
    # Where it serves now, or else where it will if nobody has that port.
    address = Background(settings.home).status().address or f"{scheme}://{settings.http_host}:{settings.http_port}"
    return {"type": "http", "url": f"{address}/mcp", "headers": {"Authorization": "Bearer ${SUBSTRATE_TOKEN}"}}
