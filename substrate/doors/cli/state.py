"""What can be seen of the system without starting anything: database, server, houses, runtimes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from substrate.doors.cli import output, runtimes
from substrate.errors import SubstrateError

if TYPE_CHECKING:
    from substrate.doors.cli.background import Serving
    from substrate.doors.cli.here import Here
    from substrate.world.operator import House, RemindersOf
    from substrate.world.reports import RuntimeReport
    from substrate.world.server import ServerStatus


@dataclass
class State:
    """One look. `problem` is why the database cannot be used, `ailing` why the server does not serve as it should."""

    #: None where the database is not ours.
    database: ServerStatus | None
    server: Serving
    ailing: str | None = None
    revision: str | None = None
    houses: list[House] = field(default_factory=list)
    runtimes: list[RuntimeReport] = field(default_factory=list)
    reminders: list[RemindersOf] = field(default_factory=list)
    problem: SubstrateError | None = None

    @property
    def usable(self) -> bool:
        return self.revision is not None

    @property
    def is_well(self) -> bool:
        """Nothing is wrong with the server; that it does not run is not wrong."""
        return self.ailing is None and self.server.state != "crashed"

    def data(self) -> dict[str, Any]:
        """For machines."""
        names = ("database", "revision", "houses", "runtimes", "reminders")
        found = {"usable": self.usable, **{name: getattr(self, name) for name in names}}
        found["server"] = {**output.plain(self.server), "problem": self.ailing}
        return found if self.problem is None else {**found, "problem": self.problem}

    def shown(self) -> list[Any]:
        """For people."""
        shown: list[Any] = [output.fields(self._facts())]
        if self.houses:
            rows = [(house.id, house.name, house.head.seq, house.recorded_at) for house in self.houses]
            shown += ["", output.table(["id", "house", "seq", "last event"], rows)]
            shown += ["", *runtimes.shown(self.runtimes)]
        if self.reminders:
            lines = [(one.house, one.waiting, one.overdue, one.failed) for one in self.reminders]
            shown += ["", output.table(["id", "reminders that wait", "overdue", "failed"], lines)]
        return shown

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"database": "given by SUBSTRATE_DATABASE_URL or database.url"}
        if (seen := self.database) is not None:
            what = f"{' '.join(filter(None, ['embedded PostgreSQL', seen.version]))}, {seen.state}"
            facts = {"database": _of_process(what, seen.pid), "data": seen.data, "note": seen.note}
        if self.problem is not None:
            facts["problem"] = str(self.problem)
        if self.usable:
            facts["schema"] = f"revision {self.revision}, up to date"
        facts |= {"server": _server(self.server), "server's problem": self.ailing}
        if self.usable:
            facts["houses"] = str(len(self.houses)) if self.houses else "none yet"
        if self.problem is None and (not self.usable or self.server.state == "crashed"):
            facts["next"] = "substrate up"
        return facts


def look(here: Here) -> State:
    """Look at everything; starts nothing."""
    from substrate.doors.cli.background import Background

    background = Background(here.settings.home)
    seen = background.status()
    state = State(_embedded(here), seen, background.ailing(seen))
    if state.database is None or state.database.running:
        _ask(here, state)
    return state


def _embedded(here: Here) -> ServerStatus | None:
    from substrate.world.server import EmbeddedServer

    return EmbeddedServer(here.settings.home).status() if here.settings.database_url is None else None


def _ask(here: Here, state: State) -> None:
    from substrate.world import migrate as migrations
    from substrate.world.server import EmbeddedServer
    from substrate.world.world import World

    settings = here.settings
    app_url = EmbeddedServer(settings.home).app_url if state.database is not None else None
    try:
        with World.open(app_url=app_url, settings=settings) as world:
            operator = world.operator()
            state.houses, state.runtimes, state.reminders = (
                operator.houses(), operator.runtimes(), operator.reminders()
            )  # fmt: skip
            # It opens only at the revision that this code knows as the last.
            state.revision = migrations.known_revisions()[-1]
    except SubstrateError as error:
        state.problem = error


def _server(seen: Serving) -> str:
    match seen.state:
        case "serving":
            return _of_process(f"{seen.address}, since {output.when(seen.since)}", seen.pid)
        case "crashed":
            return f"it ended unexpectedly; process {seen.pid}, started {output.when(seen.since)}; see {seen.log}"
    return _of_process("not running" if seen.state == "stopped" else seen.state, seen.pid)


def _of_process(what: str, pid: int | None) -> str:
    return what + (f" (process {pid})" if pid else "")
