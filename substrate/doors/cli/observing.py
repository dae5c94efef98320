"""Reading runs from the command line: out of the runtime's file and Postgres, without opening any index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from substrate.errors import Denied

if TYPE_CHECKING:
    from substrate.doors.cli.here import Here
    from substrate.runtime.observing.runs import Runs
    from substrate.world.provenance import Change, Why


@contextmanager
def runs_of(here: Here, runtime: str | None) -> Iterator[Runs]:
    """The runs that who acts may read, in this runtime's file and in Postgres. Raises `Denied`."""
    from substrate.runtime.observing.run_log import RunLog
    from substrate.runtime.observing.runs import Runs

    here.is_runtime(runtime)
    agent, settings = here.agent, here.settings
    # The file knows no rights.
    if not any(reach.scope == agent.id and reach.rights & 1 for reach in agent.rights()):
        raise Denied("your rights on yourself do not allow this; use a token that is not narrower")
    log = RunLog(settings.home / "runtimes" / settings.runtime, here.world.database)
    log.know(agent.credential, listen=False)
    try:
        log.look()
        yield Runs(here.world.database, agent.credential, log.local)
    finally:
        log.close()


def why_with_runs(here: Here, found: Why) -> Why:
    """The same answer, where runs that only this runtime's file knows are named too."""
    if not _unnamed(_grounds(found)):
        return found
    with runs_of(here, None) as runs:
        return runs.why(found)


def changes_with_runs(here: Here, changes: list[Change]) -> list[Change]:
    """The same for a history."""
    if not _unnamed(changes):
        return changes
    with runs_of(here, None) as runs:
        return runs.changes(changes)


def _unnamed(changes: Iterable[Change]) -> bool:
    return any(change.run is not None and change.ran is None for change in changes)


def _grounds(found: Why) -> Iterator[Change]:
    yield from found.grounds
    for below in (*found.derived_from, *found.superseded):
        yield from _grounds(below)
