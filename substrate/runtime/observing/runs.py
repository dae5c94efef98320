"""Runs as one agent may see them, local and shared together, and the ways an agent has to begin one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID, uuid5

from projections.view import known_of
from substrate.errors import Denied, InvalidInput, NotFound
from substrate.runtime.observing.local_runs import LocalRuns
from substrate.runtime.observing.run_log import utc_now
from substrate.runtime.observing.running import RunUnderWay, current_run
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.ids import new_id
from substrate.world.model import Evidence
from substrate.world.principal import Principal, ScopeRef, as_id
from substrate.world.provenance import Change, Why
from substrate.world.run import (
    PAGE_MOST,
    Cursor,
    NewRunEvent,
    Ran,
    Run,
    RunChange,
    RunEvent,
    RunFilter,
    RunKind,
    RunPage,
    RunStatus,
    RunTree,
    SessionChange,
    Where,
    body_of,
    grown,
    ids_in,
    known_word,
    run_name,
)
from substrate.world.shared_runs import SharedRuns

if TYPE_CHECKING:
    from substrate.runtime.runtime import Runtime


class Runs:
    """What one credential may read: its agent's own runs in this runtime's file, and in Postgres what its rights say."""

    def __init__(self, database: Database, who: Credential, local: LocalRuns) -> None:
        self._shared = SharedRuns(database, who)
        self._local = local
        self._who = who

    def find(self, wanted: RunFilter, where: Where = "all") -> RunPage:
        """A page, newest first."""
        known_word("where", where, get_args(Where))
        one_more = replace(wanted, limit=wanted.limit + 1)
        found = self._local.find(self._who.house, self._who.principal, one_more) if where != "shared" else []
        found += self._shared.find(one_more) if where != "local" else []
        found.sort(key=lambda run: (run.started_at, run.id), reverse=True)
        page = found[: wanted.limit]
        more = len(found) > wanted.limit
        return RunPage(page, str(Cursor(page[-1].started_at, page[-1].id)) if more else None)

    def get(self, run: UUID | str) -> Run:
        """One run. Raises `NotFound`."""
        ident = as_id(run, "run")
        found = self.find(RunFilter(ids=(ident,), kind=None, limit=1)).runs
        if not found:
            raise NotFound("run", ident)
        return found[0]

    def events(self, run: UUID | str, *, after: int = 0, limit: int = PAGE_MOST) -> list[RunEvent]:
        """What happened in a run, in order, after a number. Raises `NotFound`."""
        if after < 0 or not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"after, limit: give a number from 0 on, and one between 1 and {PAGE_MOST}")
        found = self.get(run)
        return (self._shared if found.shared else self._local).events(found.id, after, limit)

    def tree(self, run: UUID | str) -> RunTree:
        """A run and all that it led to, up to a thousand, as far as one may read them. Raises `NotFound`."""
        root = self.get(run)
        found: dict[UUID, Run] = {}
        wanted = {root.id}
        while wanted and len(found) < PAGE_MOST:
            below = self._local.below(self._who.house, self._who.principal, wanted)
            below += [one for parent in wanted for one in self._shared.below(parent, PAGE_MOST)]
            new = {one.id: one for one in below if one.id not in found and one.id != root.id}
            found |= new
            wanted = set(new)
        return grown(root, list(found.values())[:PAGE_MOST])

    def why(self, tree: Why) -> Why:
        """The same answer, where runs that only this runtime's file knows are named too."""
        return replace(
            tree,
            grounds=self.changes(tree.grounds),
            derived_from=[self.why(one) for one in tree.derived_from],
            superseded=[self.why(one) for one in tree.superseded],
        )

    def changes(self, changes: list[Change]) -> list[Change]:
        unnamed = {change.run for change in changes if change.run is not None and change.ran is None}
        known = {str(one): self._ran(one) for one in map(_own_id, unnamed) if one is not None}
        return [replace(one, ran=one.ran or known.get(one.run or "")) for one in changes]

    def _ran(self, ident: UUID) -> Ran | None:
        house, agent = self._who.house, self._who.principal
        found = self._local.find(house, agent, RunFilter(ids=(ident,), kind=None, limit=1))
        if not found:
            return None
        parent = found[0].parent
        above = self.find(RunFilter(ids=(parent,), kind=None, limit=1)).runs if parent is not None else []
        return Ran.of(found[0], above[0] if above else None)


def _own_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


class Observing(Principal):
    """What a hosted agent can tell of its work, and ask about it.

    | to tell of work | `run`, `session_event` |
    | to look at work | `runs`, `run_events`, `run_tree` |
    """

    _runtime: Runtime
    within: Callable[..., Any]

    def run(
        self, name: str, *, session: str | None = None, shared: bool = False, scope: ScopeRef = "own",
        parent: UUID | str | RunUnderWay | None = None,
    ) -> RunUnderWay:  # fmt: skip
        """Begin a run. Local, it is in this runtime's own file; shared, in Postgres, for who may read `scope`.

        Inside another run's block of the same agent it is that one's child. Raises `InvalidInput`, and where the scope is
        not yours to write `NotFound` or `Denied`.
        """
        self._local_rights(2)
        made = self._new_run(run_name(name), session, shared=shared, scope=scope, parent=self._parent(parent))
        agent = self.within(run=str(made.id), session=made.session)
        return RunUnderWay(self._runtime.run_log, self._credential, made, agent)

    def session_event(
        self, session: str, change: SessionChange, /, *, shared: bool = False, scope: ScopeRef = "own", **data: Any
    ) -> UUID:
        """Tell that a session was started, resumed, closed, or has expired: in a run of its own, whose id is returned.

        The same session has the same run each time. Written at once.
        """
        self._local_rights(2)
        known_word("change", change, get_args(SessionChange))
        ident = uuid5(self.id, f"session {session}")
        made = self._new_run(None, session, shared=shared, scope=scope, parent=None, kind="session", ident=ident)
        body = body_of(change, data)
        event = NewRunEvent(None, "session", utc_now(), ids_in(body), body)
        over = change in ("expired", "closed")
        told = RunChange(made, (event,), "ok" if over else "running", utc_now() if over else None)
        log = self._runtime.run_log
        log.put(self._credential, told)
        refused = log.flush().get(ident)
        if refused is not None:
            raise refused
        return ident

    def runs(
        self, *, session: str | None = None, agent: UUID | None = None, status: RunStatus | None = None,
        name: str | None = None, kind: RunKind | None = "run", parent: UUID | str | None = None,
        since: datetime | None = None, until: datetime | None = None, where: Where = "all", limit: int = 50,
        page: str | None = None,
    ) -> RunPage:  # fmt: skip
        """Runs, newest first: one's own of this runtime, and the shared ones that one may read. All that is given must hold.

        A run that was not heard of for a minute, and did not end, is `lost`.
        """
        wanted = RunFilter.checked(
            session=session, agent=agent, status=status, name=name, kind=kind, since=since, until=until, limit=limit,
            page=page, parents=None if parent is None else (as_id(parent, "run"),),
        )  # fmt: skip
        return self._runs.find(wanted, where)

    def run_events(self, run: UUID | str, *, after: int = 0, limit: int = PAGE_MOST) -> list[RunEvent]:
        """What happened in a run, in order, after a number. Raises `NotFound`."""
        return self._runs.events(run, after=after, limit=limit)

    def run_tree(self, run: UUID | str) -> RunTree:
        """A run and all that it led to, as far as one may read it. Raises `NotFound`."""
        return self._runs.tree(run)

    # -------------------------------------------------------------- how

    @property
    def _runs(self) -> Runs:
        self._local_rights(1)
        self._runtime.run_log.look()
        return Runs(self._engine.database, self._credential, self._runtime.run_log.local)

    def _local_rights(self, wanted: int) -> None:
        """The file knows no rights: whoever lost theirs gets nothing from it. Raises `Denied`."""
        known = known_of(self._runtime.resident(self.house).indexes, self._credential)
        mine = known.reached.scopes.get(self.id)
        if mine is None or not mine.rights & wanted:
            raise Denied("your rights on yourself do not allow this; use a token that is not narrower")

    def _parent(self, given: UUID | str | RunUnderWay | None) -> UUID | None:
        if isinstance(given, RunUnderWay):
            return given.id
        if given is not None:
            return as_id(given, "run")
        around = current_run()
        return around.id if around is not None and around.agent.id == self.id else None

    def _new_run(
        self, name: str | None, session: str | None, *, shared: bool, scope: ScopeRef, parent: UUID | None,
        kind: RunKind = "run", ident: UUID | None = None,
    ) -> Run:  # fmt: skip
        where = self._scope_id(scope)
        if not shared and where != self.id:
            raise InvalidInput("scope: a local run is its agent's own; give shared=True to share it")
        Evidence(session=session)  # the rules are the same
        now = utc_now()
        return Run(
            id=ident or new_id(), house=self.house, scope=where, agent=self.id, kind=kind, parent=parent,
            runtime=self._context.runtime, session=session or self._context.session, name=name, status="running",
            started_at=now, finished_at=None, heard_at=now, events=0, shared=shared,
        )  # fmt: skip
