"""The folders of file memory on this machine: one for each scope that the agents of a runtime may read.

    <workspace>/<house>/house/            the house's files
    <workspace>/<house>/groups/<name>/    a room's
    <workspace>/<house>/agents/<name>/    an agent's own

Records are the truth; a folder is laid out from them, and what people and tools change in it is picked up.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from substrate.errors import NotFound, SubstrateError
from substrate.runtime.files.claims import claimed, named_after, purged
from substrate.runtime.files.files import Files
from substrate.runtime.files.paths import folder_name
from substrate.runtime.files.report import FolderReport
from substrate.runtime.files.state import FileState
from substrate.runtime.files.steps import Looks, Writer
from substrate.runtime.files.sync import FolderSync
from substrate.runtime.files.tree import Tree
from substrate.world.credential import Credential
from substrate.world.files import FileRecords
from substrate.world.model import Scope

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: Seconds between two looks of the chore, and between two questions whether one is due.
EVERY, TICK = 3.0, 0.25
#: Seconds that a file must be left alone before what is in it is taken.
REST = 1.0
#: How often who waits for files that are being changed looks again.
LOOKS = 5
_KINDS = {"group": "groups", "agent": "agents"}


class FileFolders:
    """What a runtime lays out. One sync at a time in this process; other processes are kept out folder by folder."""

    def __init__(self, runtime: Runtime, *, rest: float = REST) -> None:
        self._runtime = runtime
        self._state = FileState(runtime.settings.home / "files.db")
        self._agents: dict[Credential, HostedAgent] = {}
        self._looks: dict[UUID, Looks] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._last = 0.0
        self._failure: Exception | None = None
        self._steady: dict[UUID, tuple[object, float]] = {}
        self.rest = rest

    def host(self, agent: HostedAgent) -> None:
        """Lay out what this agent may read, too."""
        self._agents[agent.credential] = agent
        self._wanted.set()

    def files(self, agent: HostedAgent, scope: UUID) -> Files:
        """The files of a scope, for an agent; what it writes is laid out soon."""
        return Files(agent, scope, self._runtime.settings, lambda: self._wrote(agent.house))

    def _wrote(self, house: UUID) -> None:
        self._runtime.committed(house)
        self._wanted.set()

    # -------------------------------------------------------------- when

    def chore(self) -> None:
        """Look, if it is time to, or if something was written here. What stands in the way is said once."""
        if not self._wanted.is_set() and time.monotonic() - self._last < EVERY:
            return
        self._wanted.clear()
        self._last = time.monotonic()
        try:
            reports = self.sync(wait=False, lazily=True)
        except (SubstrateError, OSError) as error:
            if self._failure is None:
                log.warning("files wait: %s", error)
            self._failure = error
            return
        self._failure = None
        copies = sum(len(report.conflicts) for report in reports)
        if copies:
            log.warning("files: %d copies were set aside; `substrate files sync` says more", copies)

    def sync(self, *, wait: bool = True, lazily: bool = False) -> list[FolderReport]:
        """Bring all folders and the records together. With `wait`, also what is being changed at this moment, or what another
        process is at.

        Raises what the database does. `lazily` passes over houses in which nothing moved.
        """
        with self._lock:
            reports = self._sync(wait=wait, lazily=lazily)
            for _ in range(LOOKS if wait else 0):
                if not any(report.waiting for report in reports):
                    break
                time.sleep(self.rest)
                reports = [_joined(*pair) for pair in _paired(reports, self._sync(wait=wait))]
        return reports

    def _sync(self, *, wait: bool, lazily: bool = False) -> list[FolderReport]:
        houses: dict[UUID, list[HostedAgent]] = {}
        for agent in list(self._agents.values()):
            houses.setdefault(agent.house, []).append(agent)
        return [report for house, agents in houses.items() for report in self._house(house, agents, wait, lazily)]

    # -------------------------------------------------------------- a house

    def _house(self, house: UUID, agents: Sequence[HostedAgent], wait: bool, lazily: bool) -> list[FolderReport]:
        with Tree.at(self._runtime.workspace) as workspace:
            before = self._looked(house, workspace) if lazily else None
            if lazily and self._is_steady(house, before):
                return []
            reached = self._runtime.resident(house).indexes.replica().reached()
            readable = {scope.id for one in reached.values() for scope in one.readable}
            scopes = self._scopes(agents)
            name = next((scope.name for scope, _ in scopes.values() if scope.kind == "house"), None)
            place = named_after(workspace, None if name is None else folder_name(name, house), house)
            with workspace.inside(place) as top:
                reports = self._purge(house, readable, top)
                reports += [self._scope(top, place, scope, writers, wait) for scope, writers in scopes.values()]
        if any(report.created or report.edited or report.deleted or report.renamed for report in reports):
            self._runtime.committed(house)
        quiet = not any(report.changed or report.waiting or report.busy for report in reports)
        if quiet and before is not None:
            self._steady[house] = (before, time.monotonic())
        else:
            self._steady.pop(house, None)
        return reports

    def _is_steady(self, house: UUID, looked: object) -> bool:
        """Nothing moved since a sync that had nothing to do. Not for long: a token may have run out, which nobody writes down."""
        steady = self._steady.get(house)
        return (
            steady is not None
            and steady[0] == looked
            and time.monotonic() - steady[1] < self._runtime.settings.max_staleness
        )

    def _looked(self, house: UUID, workspace: Tree) -> object:
        """How stream and disk look. Taken before a sync, so that what comes during it looks different afterwards."""
        try:
            mark = self._runtime.resident(house).indexes.replica().mark()
        except NotFound:
            return None
        looks = {}
        for known in self._state.folders(house, self._runtime.name):
            try:
                with _down(workspace, known.place.split("/")) as tree:
                    scan = tree.scan(self._runtime.settings.max_files * 4 + 1_000)
            except OSError:
                return None
            looks[known.place] = (scan.files, scan.strange, scan.conflicts, scan.leftovers)
        hosted = frozenset(one.principal for one in self._agents)
        return mark.head, mark.rights_version, hosted, looks

    def _scopes(self, agents: Iterable[HostedAgent]) -> dict[UUID, tuple[Scope, list[Writer]]]:
        """The scopes that these may read, and who of them may do what there; who lives there comes first."""
        found: dict[UUID, tuple[Scope, list[Writer]]] = {}
        for agent in agents:
            reach = {one.scope: one for one in agent.rights() if one.rights & 1}
            for scope in agent.scopes() if reach else ():
                if scope.id in reach:
                    records, files = FileRecords.of(agent, scope.id), self.files(agent, scope.id)
                    writer = Writer(agent.id, reach[scope.id].rights, records, files)
                    found.setdefault(scope.id, (scope, []))[1].append(writer)
        for scope, writers in found.values():
            writers.sort(key=lambda one: (one.agent != scope.id, -one.rights, one.agent))
        return found

    # -------------------------------------------------------------- a scope

    def _scope(self, house: Tree, place: str, scope: Scope, writers: Sequence[Writer], wait: bool) -> FolderReport:
        name = "house" if scope.kind == "house" else folder_name(scope.name, scope.id)
        above = [] if scope.kind == "house" else [_KINDS[scope.kind]]
        report = FolderReport(scope.id, "/".join([place, *above, name]))
        try:
            with _down(house, above, create=True) as kind, claimed(kind, name, scope.id, wait=wait) as claim:
                if claim.busy:
                    report.busy = True
                    return report
                report.folder = "/".join([place, *above, claim.name])
                about = self._state.begin(
                    claim.folder, scope.house_id, scope.id, report.folder, self._runtime.name, fresh=claim.fresh
                )
                claim.mark()
                looks = self._looks.setdefault(claim.folder, Looks(self.rest))
                looks.rest = self.rest
                settings = self._runtime.settings
                FolderSync(
                    claim.tree, self._state, about, writers=writers, looks=looks, report=report, settings=settings
                ).run()
        except OSError as error:
            # One folder that is in somebody's way is no reason to leave the others.
            report.ignored["."] = f"the folder cannot be used: {os.strerror(error.errno or 0)}"
        return report

    def _purge(self, house: UUID, readable: set[UUID], top: Tree) -> list[FolderReport]:
        """Take away the folders that no agent of this runtime may read any more; those of other runtimes stay theirs."""
        reports = []
        for known in self._state.folders(house, self._runtime.name):
            if known.scope in readable or self._state.leave(known.folder, self._runtime.name):
                continue
            report = FolderReport(known.scope, known.place)
            try:
                with _down(top, known.place.split("/")[1:-1]) as above:
                    purged(above, known, self._state, report)
            except FileNotFoundError:
                log.debug("a folder was taken away before us")
            except OSError as error:
                report.ignored["."] = f"the folder cannot be used: {os.strerror(error.errno or 0)}"
            if not report.ignored:
                self._state.forget(known.folder)  # else it is tried again
            reports.append(report)
        return reports


class _down:  # noqa: N801 - reads as a verb at its call
    """A folder below a folder, step by step, as a context."""

    def __init__(self, tree: Tree, names: Sequence[str], *, create: bool = False) -> None:
        self._tree, self._names, self._create = tree, names, create

    def __enter__(self) -> Tree:
        here = Tree(os.dup(self._tree.fd))
        for name in self._names:
            try:
                below = here.inside(name, create=self._create)
            finally:
                here.close()
            here = below
        self._here = here
        return here

    def __exit__(self, *_: object) -> None:
        self._here.close()


def _paired(before: list[FolderReport], after: list[FolderReport]) -> list[tuple[FolderReport | None, FolderReport]]:
    earlier = {report.scope: report for report in before}
    return [(earlier.get(report.scope), report) for report in after]


def _joined(before: FolderReport | None, after: FolderReport) -> FolderReport:
    """Two looks at one folder as one."""
    return after if before is None else before.then(after)
