"""How a command is made: a function of `Here` and its own options, that returns an `Answer`.

`command` adds to each what all have in common (`--json`, `--as`, …), so that no command can lack it, and prints the
answer: nothing else of a command writes to standard output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from substrate.doors.cli.completing import credential_names
from substrate.doors.cli.here import Here
from substrate.doors.cli.output import ReaderLeft

EVERYWHERE = "Everywhere"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found or did: `data` for machines, `shown` (text, or something rich can print) for people."""

    data: object
    shown: Any = None
    #: Other than 0 where the answer itself is bad news, as a house that does not verify.
    code: int = 0


#: Each has an environment twin: they say where and as whom, which a script or a container sets once.
COMMON: dict[str, Any] = {
    "as_json": Annotated[
        bool, typer.Option("--json", envvar="SUBSTRATE_JSON", help="Answer with one JSON document.",
                           rich_help_panel=EVERYWHERE)],
    "as_name": Annotated[
        str | None, typer.Option("--as", envvar="SUBSTRATE_AS", metavar="NAME", show_default=False,
                                 autocompletion=credential_names,
                                 help="Act with the credential saved under this name.", rich_help_panel=EVERYWHERE)],
    "token_file": Annotated[
        Path | None, typer.Option("--token-file", envvar="SUBSTRATE_TOKEN_FILE", show_default=False,
                                  help="Act with the token in this file (or set SUBSTRATE_TOKEN).",
                                  rich_help_panel=EVERYWHERE)],
    "home": Annotated[
        Path | None, typer.Option("--home", envvar="SUBSTRATE_HOME", show_default="~/.substrate",
                                  help="Folder of the embedded server and of saved credentials.",
                                  rich_help_panel=EVERYWHERE)],
    "config": Annotated[
        Path | None, typer.Option("--config", envvar="SUBSTRATE_CONFIG", metavar="FILE", show_default="memory.yaml",
                                  help="Configuration file; by default memory.yaml here, or else in the home.",
                                  rich_help_panel=EVERYWHERE)],
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {"as_json": False, "as_name": None, "token_file": None, "home": None, "config": None}


def command(
    app: typer.Typer, name: str | None = None, *, panel: str | None = None, examples: Sequence[str] = ()
) -> Callable[[F], F]:
    """Register a function as a command: its docstring is the help, its first parameter is `Here`.

    `examples` are command lines as one would type them; the help ends with them.
    """
    # Typer makes one line of what only single newlines part.
    epilog = "\n\n".join(["Examples:", *examples]) if examples else None

    def register(function: F) -> F:
        app.command(name, rich_help_panel=panel, epilog=epilog)(_with_common_options(function))
        return function

    return register


def _with_common_options(function: Callable[..., Answer | None]) -> Callable[..., None]:
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=annotation)
        for name, annotation in COMMON.items()
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + common

    def invoked(**given: Any) -> None:
        answer = None
        try:
            with Here(**{name: given.pop(name) for name in COMMON}) as here:
                answer = function(here, **given)
            if answer is not None:
                here.show(answer.data, answer.shown)
        except ReaderLeft:
            pass  # it has what it wanted; the exit code is that of the answer
        if answer is not None and answer.code:
            raise typer.Exit(answer.code)

    # Typer reads these to know the options.
    invoked.__name__, invoked.__doc__ = function.__name__, inspect.getdoc(function)
    invoked.__module__ = function.__module__
    invoked.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return invoked
