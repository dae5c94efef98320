"""The tree that commands hang on: the program, and the nouns below it."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="substrate",
    help="Shared, durable memory for agents: what do we know, and how do we know it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 an error, or an answer that is bad news; 2 wrong usage; 130 interrupted."
    " `substrate COMMAND --help` ends with examples, and every command takes --json.",
)

#: The headings under which `substrate --help` shows the commands, in the order of their first use.
SYSTEM, WHO, PLACES, LEARN, READ, WORK, LATER, SHARE, PROVENANCE, ERASE, OPERATE, INDEXES, OBSERVE = (
    "The system", "Who you are", "Houses, rooms and agents", "Learn and change", "Read", "Conversations and work",
    "Be told later", "Share with the house",
    "Where it comes from", "Be rid of text", "For who runs the system", "The local indexes",
    "What was done",
)  # fmt: skip


def _noun(name: str, about: str, panel: str) -> typer.Typer:
    noun = typer.Typer(name=name, help=about, no_args_is_help=True, pretty_exceptions_enable=False)
    app.add_typer(noun, rich_help_panel=panel)
    return noun


config = _noun("config", "The configuration: what holds here, where it comes from, and what is wrong with it.", SYSTEM)
house = _noun("house", "Found a house, and look at yours.", PLACES)
room = _noun("room", "Rooms: groups below a house.", PLACES)
agent = _noun("agent", "Agents, human or bot, and their first credential.", PLACES)
files = _noun("files", "File memory: texts under paths, and their folders on this machine.", READ)
token = _noun("token", "Tokens: the secrets that agents come in with.", WHO)
retention = _noun("retention", "How long memories stay, and the sweep that sees to it.", ERASE)
run = _noun("run", "Runs: what agents did, and how it went.", OBSERVE)
checkpoint = _noun("checkpoint", "Checkpoints: what you knew, in a git repository, and the way back.", PROVENANCE)
runtime = _noun("runtime", "Database logins for runtimes that are not trusted with the application's.", OPERATE)
reminder = _noun("reminder", "Reminders: once or again and again, through a deliverer.", LATER)
session = _noun("session", "Conversations: turn by turn, archived, and as context for a model.", WORK)
