"""What a command stands on: which database, as whom, and how to speak to the person who typed it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from substrate.errors import InvalidInput, NotAuthenticated

if TYPE_CHECKING:
    from projections.house import HouseIndexes
    from substrate.configuration import Configuration
    from substrate.doors.cli.credentials import Credentials
    from substrate.doors.cli.naming import Names
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.runtime import Runtime
    from substrate.settings import Settings
    from substrate.world.operator import Operator
    from substrate.world.world import Agent, World

A = TypeVar("A")
TOKEN_VARIABLE = "SUBSTRATE_TOKEN"  # noqa: S105 - its name


class Here:
    """One invocation. Everything is opened when it is first needed, and closed at the end."""

    def __init__(
        self,
        *,
        as_json: bool,
        as_name: str | None,
        token_file: Path | None,
        home: Path | None,
        config: Path | None = None,
    ) -> None:
        self.as_json, self._as_name, self._token_file = as_json, as_name, token_file
        #: What the command line says of where settings come from: the file, and before it the home.
        self.config, self.home = config, None if home is None else home.expanduser()
        self._opened: World | None = None
        self._hosting: Runtime | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._hosting is not None:
            self._hosting.close()  # and its world
        elif self._opened is not None:
            self._opened.close()

    # -------------------------------------------------------------- where

    @cached_property
    def configuration(self) -> Configuration:
        from substrate.configuration import read

        found = read(self.config, home=self.home)
        if found.is_new:
            for note in found.notes:
                self.say(f"note: {note}")
        return found

    @cached_property
    def settings(self) -> Settings:
        return self.configuration.settings

    @cached_property
    def world(self) -> World:
        """The world, opened; the embedded server is started if it is needed and not running."""
        from substrate.world.server import EmbeddedServer
        from substrate.world.world import World

        if self.settings.database_url is None:
            EmbeddedServer(self.settings.home).start(self.say)
        self._opened = World.open(settings=self.settings, runtime=self.settings.runtime)
        return self._opened

    def is_runtime(self, name: str | None) -> None:
        """This process is the runtime of that name, unless it is None: said before the world is opened."""
        if name is not None:
            self.settings = self.settings.model_copy(update={"runtime": name})

    # -------------------------------------------------------------- who

    @cached_property
    def credentials(self) -> Credentials:
        from substrate.doors.cli.credentials import Credentials

        return Credentials(self.settings.home)

    @cached_property
    def agent(self) -> Agent:
        """Who acts: `--as`, else `--token-file`, else SUBSTRATE_TOKEN, else the credential in use."""
        return self._come_in(lambda token: self.world.agent(token))  # noqa: PLW0108 - `world` is opened after the token is found

    def hosted(self, runtime: str | None, *, catch_up: bool = True) -> HostedAgent:
        """Who acts, in a runtime that has local indexes. Only the commands that use them pay for loading all that."""
        self.is_runtime(runtime)
        self.agent = hosted = self._come_in(lambda token: self._opened_runtime().agent(token, catch_up=catch_up))
        return hosted

    def serve(self, door: Callable[[Runtime, str], None], runtime: str | None) -> None:
        """Open a door in a runtime that follows the stream, for who acts; it judges the token by itself."""
        self.is_runtime(runtime)
        self._come_in(lambda token: door(self._opened_runtime(follow=True), token))

    def _opened_runtime(self, *, follow: bool = False) -> Runtime:
        from substrate.runtime.runtime import Runtime

        try:
            # As a rule nobody follows the stream in the background: a command catches up, answers, and is gone.
            self._hosting = Runtime(self.world, self.settings.runtime, self.settings, follow=follow)
        except InvalidInput as error:
            raise InvalidInput(f"--runtime, SUBSTRATE_RUNTIME: {error}") from None
        return self._hosting

    def opened(self, runtime: str | None) -> Runtime:
        """A runtime, and nobody hosted in it: for who looks after its files."""
        self.is_runtime(runtime)
        return self._opened_runtime()

    @property
    def runtime(self) -> Runtime:
        """The runtime that who acts is hosted by, once that is so."""
        if self._hosting is None:
            raise RuntimeError("nobody is hosted yet")
        return self._hosting

    @property
    def indexes(self) -> HouseIndexes:
        """Its indexes of the house of who acts."""
        return self.runtime.resident(self.agent.house).indexes

    def _come_in(self, come_in: Callable[[str], A]) -> A:
        # The token is asked for first: without one, nothing needs to be opened.
        token, source = self._token
        try:
            return come_in(token)
        except NotAuthenticated as error:
            raise NotAuthenticated(f"{source}: {error}") from None

    @property
    def token(self) -> str:
        """The secret of who acts; for saving it, and for nothing else."""
        return self._token[0]

    def said_again(self) -> tuple[list[str], list[str]]:
        """The options with which another command would act as who acts here, and the variables that it would need."""
        places = {"--home": self.home, "--config": self.config, "--token-file": self._token_file}
        options = [part for name, path in places.items() if path is not None for part in (name, str(path.absolute()))]
        _, source = self._token
        if source == TOKEN_VARIABLE:
            return options, [TOKEN_VARIABLE]
        current = self.credentials.current
        named = self._as_name or (current.name if current is not None and self._token_file is None else None)
        return options + ([] if named is None else ["--as", named]), []

    @property
    def operator(self) -> Operator:
        return self.world.operator()

    @cached_property
    def names(self) -> Names:
        """The scopes that the agent sees, by name."""
        from substrate.doors.cli.naming import Names

        return Names(self.agent)

    def house(self, given: str | None) -> UUID:
        """The house an operator means: by id or name; otherwise that of the credential in use, or the only one there is."""
        from substrate.doors.cli.naming import the_house

        if given is None and self._has_token():
            return self.agent.house
        return the_house(self.operator.houses(), given)

    def _has_token(self) -> bool:
        named = self._as_name or self._token_file or self.settings.token or self.credentials.current
        return named is not None

    @cached_property
    def _token(self) -> tuple[str, str]:
        if self._as_name is not None and self._token_file is not None:
            raise InvalidInput("--as and --token-file: give one of them, not both")
        if self._as_name is not None:
            return self.credentials.get(self._as_name).token, f"the credential saved as {self._as_name!r}"
        if self._token_file is not None:
            try:
                return self._token_file.read_text(encoding="utf-8").strip(), f"the token in {self._token_file}"
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise InvalidInput(f"--token-file: cannot read {self._token_file}: {reason}") from None
        if self.settings.token is not None:
            return self.settings.token.get_secret_value(), TOKEN_VARIABLE
        current = self.credentials.current
        if current is None:
            raise NotAuthenticated(
                "nobody is logged in here; found a house with `substrate house create home --owner ana`, "
                "or set SUBSTRATE_TOKEN"
            )
        return current.token, f"the credential in use, {current.name!r}"

    # -------------------------------------------------------------- how

    def show(self, data: object, shown: Any) -> None:
        """The answer, on standard output."""
        from substrate.doors.cli import output

        if self.as_json:
            output.write_json(data)
        elif shown is not None:
            output.write(shown)

    def say(self, message: str) -> None:
        """Something on the way to the answer, for a person who waits."""
        if not self.as_json:
            print(message, file=sys.stderr, flush=True)  # noqa: T201 - this is the console of this door

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before what cannot be undone. A script cannot be asked, and must say `--yes`."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise InvalidInput(f"{question} There is nobody to ask here; repeat it with --yes if you mean it.")
        import typer

        if not typer.confirm(question, err=True):
            raise typer.Abort
