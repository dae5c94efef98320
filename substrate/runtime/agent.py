"""An agent hosted by a runtime: all that an `Agent` can do, and recall."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Unpack
from uuid import UUID

from projections.answer import Answer, Header, HotLine, Neighbour, Recalled
from projections.embedding.providers import Embedder
from projections.filters import Filters
from projections.ranking import Mode
from projections.recall import Asked, Recaller
from projections.view import View
from substrate.errors import InvalidInput, SubstrateError
from substrate.runtime.checkpoints.checkpointing import Checkpointing
from substrate.runtime.conversation.conversing import Conversing
from substrate.runtime.conversation.files_in_context import FileText
from substrate.runtime.files.files import Files
from substrate.runtime.following import resumed
from substrate.runtime.observing.metrics import Meter
from substrate.runtime.observing.runs import Observing
from substrate.runtime.observing.watching import watched
from substrate.runtime.working.shelf import Shelf
from substrate.whereabouts import Whereabouts
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.changing import Alteration
from substrate.world.credential import Credential
from substrate.world.erasure_receipt import ErasureReceipt
from substrate.world.hindsight import Moment
from substrate.world.ids import new_id
from substrate.world.importing import ImportOutcome, ImportWork
from substrate.world.item import Context, Draft
from substrate.world.memories import Fields, NewMemory
from substrate.world.model import Memory, Position, Source
from substrate.world.plain import Plain
from substrate.world.principal import Engine, Receipt, ScopeRef, checked
from substrate.world.provenance import Change, Why
from substrate.world.replica import Replica, Signal, to_micros
from substrate.world.world import Agent

if TYPE_CHECKING:
    from substrate.runtime.resident import Resident
    from substrate.runtime.runtime import Runtime
    from substrate.settings import Settings

#: Seconds to wait for the local index, where the caller says nothing.
PATIENCE = 10.0


class HostedAgent(Conversing, Observing, Checkpointing, Agent):
    """An agent with local indexes.

    | to recall          | `recall`, `manifest`, `hot_index`, `neighbours`, `index`, `catch_up` |
    | to go on           | `resume`: the stream from where a reader was |
    | to keep for a while | `working`: this agent's shelf of the runtime's working memory |
    | to tell of work, and look at it | `run`, `session_event`, `runs`, `run_events`, `run_tree` |
    | to converse | `session`, `sessions`, `context`, `claim_offers` |
    | to keep files    | `files` |
    | to look back | `checkpoint`, `checkpoint_history`, `checkpoint_contents` |

    and everything of `Agent`; `remember(visible=True)` returns once the memory can be recalled here.
    """

    def __init__(self, engine: Engine, credential: Credential, context: Context, runtime: Runtime) -> None:
        super().__init__(engine, credential, context)
        self._runtime = runtime

    @classmethod
    def of(cls, agent: Agent, runtime: Runtime) -> HostedAgent:
        """The same agent, hosted by a runtime."""
        return cls(agent._engine, agent._credential, agent._context, runtime)  # noqa: SLF001 - one family

    def within(
        self, *, session: str | None = None, run: str | None = None, causation: UUID | None = None
    ) -> HostedAgent:
        """The same agent, whose events all say that they come from this session or run."""
        return HostedAgent.of(super().within(session=session, run=run, causation=causation), self._runtime)

    @property
    def settings(self) -> Settings:
        """The settings of its runtime, with what is set for this agent alone."""
        return self._runtime.settings_of(self.id)

    @property
    def meter(self) -> Meter:
        return self._runtime.meter

    @cached_property
    def whereabouts(self) -> Whereabouts:
        """For logs and traces."""
        return Whereabouts(self._runtime.name, str(self.house), self._context.session, self._context.run)

    @property
    def embedder(self) -> Embedder | None:
        """What makes this house's vectors here, if anything does."""
        return self._resident.indexes.embedder

    def replica(self) -> Replica:
        """The house as this credential alone sees it."""
        return Replica(self._engine.database, self.house, [self._credential])

    @property
    def _resident(self) -> Resident:
        return self._runtime.resident(self.house)

    # -------------------------------------------------------------- working memory

    @property
    def working(self) -> Shelf:
        """What this runtime keeps at hand for this agent, and for nobody else."""
        return self._runtime.working.of(self._credential)

    def resume(self, reader: str, *, stop: threading.Event | None = None, follow: bool = True) -> Iterator[e.Event]:
        """The events that the reader of this name has not been through yet, as `subscribe`: each at least once."""
        return resumed(self, self.working, reader, stop=stop, follow=follow)

    # -------------------------------------------------------------- writing

    @watched("remember")
    def remember(
        self, content: str, *, visible: bool = False, timeout: float = PATIENCE, **fields: Unpack[Fields]
    ) -> Receipt:
        """Learn something, as `Agent.remember`. With `visible`, return once it can be recalled here.

        Raises `NotCaughtUp` if that takes longer than `timeout` seconds; the memory is durable all the same.
        """
        receipt = super().remember(content, **fields)
        if visible:
            self.catch_up(receipt.position, timeout=timeout)
        return receipt

    def remember_many(
        self, memories: Iterable[NewMemory], *, import_id: UUID | None = None
    ) -> list[Receipt | SubstrateError]:
        """Learn many things, as `Agent.remember_many`: one answer each, in order, a receipt or the error it met."""
        answers = super().remember_many(memories, import_id=import_id)
        self._wrote(answers)
        return answers

    def _written(
        self, wanted: Sequence[Alteration], known: Sequence[Memory] = ()
    ) -> dict[int, Receipt | SubstrateError]:
        answers = super()._written(wanted, known)
        self._wrote(answers.values())
        return answers

    def _wrote(self, answers: Iterable[Receipt | SubstrateError]) -> None:
        for one in answers:
            self.meter.not_appended(one) if isinstance(one, SubstrateError) else self.meter.appended()
        self._runtime.committed(self.house)

    def write_imported(self, works: Sequence[ImportWork], import_id: UUID, cause: UUID) -> list[ImportOutcome]:
        outcomes = super().write_imported(works, import_id, cause)
        for one in outcomes:
            self.meter.appended(one.written)
            if one.error is not None:
                self.meter.not_appended(one.error)
        self._runtime.committed(self.house)
        return outcomes

    def _submit(self, *drafts: Draft) -> list[Written]:
        with self._counted(len(drafts)):
            written = super()._submit(*drafts)
        self._runtime.committed(self.house)
        return written

    def _submit_plain(self, plain: Plain) -> Receipt:
        with self._counted(1):
            receipt = super()._submit_plain(plain)
        self._runtime.committed(self.house)
        return receipt

    @property
    def deliverers(self) -> list[str]:
        """The names of the deliverers that this process has."""
        return self._runtime.deliverers.names()

    def _reminded(self) -> None:
        self._runtime.reminded(self.id)

    @contextmanager
    def _counted(self, events: int) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.meter.not_appended(error)
            raise
        self.meter.appended(events)

    def _erased(self, receipt: ErasureReceipt) -> ErasureReceipt:
        """The runtime's own file, too: at once here, and elsewhere when it is heard of."""
        if not receipt.dry_run:
            self._runtime.run_log.look(erased=True)
        return super()._erased(receipt)

    def why(self, memory: UUID | str, *, depth: int = 5) -> Why:
        """As `Agent.why`; runs of one's own that only this runtime knows are named, too."""
        return self._runs.why(super().why(memory, depth=depth))

    def history(self, memory: UUID | str) -> list[Change]:
        """As `Agent.history`; runs of one's own that only this runtime knows are named, too."""
        return self._runs.changes(super().history(memory))

    # -------------------------------------------------------------- files

    def files(self, scope: ScopeRef = "own") -> Files:
        """The files of oneself, one's house, or a room: texts under paths, each change an event."""
        return self._runtime.file_folders.files(self, self._scope_id(scope))

    # -------------------------------------------------------------- recalling

    @watched("catch_up")
    def catch_up(self, position: Position | int | None = None, *, timeout: float = PATIENCE) -> None:
        """Return once the local indexes hold the stream up to a position; by default, up to where it is now.

        Raises `NotCaughtUp`.
        """
        indexes = self._resident.indexes
        seq = indexes.replica().mark().head if position is None else self._seq(position)
        indexes.catch_up(seq, timeout)

    @watched("recall")
    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        mode: Mode | None = None,
        scope: ScopeRef | None = None,
        kind: str | Iterable[str] | None = None,
        tags: Iterable[str] = (),
        category: str | None = None,
        tier: str | None = None,
        status: str | None = "active",
        key: str | None = None,
        key_prefix: str | None = None,
        taught_by: UUID | None = None,
        learned_after: datetime | None = None,
        learned_before: datetime | None = None,
        include_expired: bool = False,
        hops: int = 0,
        at_least: Position | int | None = None,
        as_of: Moment | None = None,
        timeout: float = PATIENCE,
        explain: bool = False,
    ) -> Answer:
        """What do we know about this? Own, rooms' and house's memories at once, best first, from the local index.

        `mode` is keyword, vector or hybrid; by default that of the settings, which is hybrid if nobody set it. Filters hold before the limit. `hops` brings linked memories
        along. `at_least` is a position that the index must have come to, such as that of a `Receipt`: `NotCaughtUp` if
        it does not within `timeout` seconds. `as_of` asks what would have been answered at a time or position, of what one
        could read then and may read now: an index of that moment is built, which takes its time, and kept for a while. With `explain` each result says its score and where it came from.
        """
        if at_least is not None:
            self.catch_up(at_least, timeout=timeout)
        filters = Filters.checked(
            kind=kind, tags=tags, category=category, tier=tier, status=status, key=key, key_prefix=key_prefix,
            taught_by=taught_by, learned_after=learned_after, learned_before=learned_before,
            include_expired=include_expired,
        )  # fmt: skip
        asked = Asked(
            query=query, limit=limit, mode=mode or self.settings.recall_mode, filters=filters, hops=hops,
            scope=None if scope is None else self._scope_id(scope),
        )  # fmt: skip
        resident = self._resident
        recaller = resident.recaller if as_of is None else self._recaller_at(resident, as_of)
        answer = recaller.recall(self._credential, asked)
        self.meter.recalled(answer.mode)
        return self._given(resident, query, answer, explain=explain)

    def _recaller_at(self, resident: Resident, when: Moment) -> Recaller:
        """Who answers for an earlier moment."""
        resident.indexes.step()  # what was erased meanwhile is heard of before anything older is asked
        seq = min(self._seq_of(when), resident.indexes.head)
        both = {reach.scope for reach in self.rights_as_of(seq) if reach.rights & 1}
        known = resident.indexes.known(self._credential)
        readable = {s.id: s.number for s in known.reached.readable if s.id in both} if known else {}
        at = to_micros(when) if isinstance(when, datetime) else self._recorded_at(seq)
        return Recaller(resident.past.at(self._credential, seq, at, readable), self._runtime.reranker)

    def _recorded_at(self, seq: int) -> int:
        """When the stream came to a position, as far as one may know it."""
        page = self.read_stream(max(0, seq - 1), 1)
        return to_micros(page.events[0].recorded_at if page.events else datetime.now(UTC))

    def _given(self, resident: Resident, query: str, answer: Answer, *, explain: bool) -> Answer:
        """What leaves here is told: as signals, later, and where reads are audited as an event, before."""
        self._audit([*answer, *(one for result in answer for one in result.neighbours)])
        at = datetime.now(UTC)
        resident.signals.put(
            self._credential,
            [Signal(one.memory, query, one.score or 0.0, place, at) for place, one in enumerate(answer.results, 1)],
        )
        return answer if explain else answer.unexplained()

    def _audit(self, given: Sequence[Recalled | Neighbour | FileText]) -> None:
        """Where reads are audited, write down whose text leaves here."""
        sources = {one.memory: one.version for one in given} if self.settings.audit_reads else {}
        if not sources:
            return
        payload = checked(e.MemoriesRecalled, given=tuple(Source(memory=m, version=v) for m, v in sources.items()))
        draft = self._draft(
            scope=self.id, subject=self.id, event_id=new_id(), payload=payload, occurred_at=datetime.now(UTC),
            context=self._context,
        )  # fmt: skip
        super()._submit(draft)

    def note_given(self, files: Sequence[FileText]) -> None:
        """Files were put into a context: where reads are audited, that is written down."""
        self._audit(files)

    def manifest(self, *, most: int = 200, scope: ScopeRef | None = None) -> list[Header]:
        """The headers of what is known, newest first, without content: what to choose from. Nothing cold is in it."""
        only = None if scope is None else self._scope_id(scope)
        return self._resident.recaller.manifest(self._credential, most=most, scope=only)

    def hot_index(self, *, most: int = 100, tokens: int = 2_000) -> list[HotLine]:
        """The table of contents that is always loaded: hot memories, newest first, within both bounds."""
        if most < 1 or tokens < 1:
            raise InvalidInput("most, tokens: give at least 1")
        return self._resident.recaller.hot(self._credential, most=most, tokens=tokens)

    def index(self, name: str) -> AbstractContextManager[View]:
        """Read the index of a projection, such as a plugin's: in `view.db` its tables stand under its name.

        It holds what all agents of this runtime read together. `view.numbers` are the scopes that this one may read: a
        query is to ask for these, and for no others. Raises `IndexUnavailable`.
        """
        return self._resident.recaller.viewing(self._credential, name)

    def neighbours(self, memory: UUID | str, *, hops: int = 1) -> list[Neighbour]:
        """The memories that are linked to one, over so many hops, as far as one may read them."""
        from substrate.world.principal import as_id

        found = self._resident.recaller.neighbours(self._credential, as_id(memory), hops=hops)
        self._audit(found)
        return found
