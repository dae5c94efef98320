"""What a source holds besides memories: turns of conversations, reminders, and what was recalled. None of it is an event.

A turn's time there is kept beside it, as `said_at`: here it stands when it was added, after those that were here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from uuid import UUID, uuid5

from substrate.doors.importing.items import DueReminder, PastRecall, SaidTurn
from substrate.doors.importing.task import Task
from substrate.errors import NotFound, SubstrateError
from substrate.runtime.reminding.deliverers import INBOX
from substrate.world.interactions import EVERYTHING_KNOWN, NewTurn
from substrate.world.replica import Signal


class TurnImport:
    """Adds turns to sessions of the same id, in the scope that their owner's memories go to."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def take(self, page: Iterable[SaidTurn]) -> None:
        for (owner, session), turns in groupby(page, key=lambda one: (one.owner, one.session)):
            scope, these = self._task.target(owner), list(turns)
            if scope is None:
                for one in these:
                    self._task.passed(one.owner)
            else:
                self._add(scope, session, these)

    def _add(self, scope: UUID, session: str, turns: Sequence[SaidTurn]) -> None:
        good: list[tuple[SaidTurn, NewTurn]] = []
        for one in turns:
            try:
                said = {"said_at": one.at.isoformat(), "imported_from": self._task.report.name[:200]}
                new = NewTurn(role=one.role, content=one.content, message_id=one.message_id, metadata=said)
                good.append((one, new))
            except SubstrateError as error:
                self._task.report.refuse(one.place, str(error))
        if self._task.cause is None:
            self._count_new(scope, session, [new for _, new in good])
        elif good:
            self._write(scope, session, good)

    def _write(self, scope: UUID, session: str, turns: Sequence[tuple[SaidTurn, NewTurn]]) -> None:
        agent = self._task.agent
        try:
            agent.interactions.open(scope, session)
            added = agent.interactions.add(
                scope, session, [new for _, new in turns], kept=agent.settings.max_history_turns,
                known=EVERYTHING_KNOWN, context=agent.context_of_events,
            )  # fmt: skip
        except SubstrateError as error:
            if len(turns) == 1:
                self._task.report.refuse(turns[0][0].place, str(error))
                return
            # All or none: alone, each gets its own answer.
            for one in turns:
                self._write(scope, session, [one])
            return
        repeated = sum(turn.repeated for turn in added.meant)
        self._task.report.unchanged += repeated
        self._task.report.brought["turns"] += len(turns) - repeated

    def _count_new(self, scope: UUID, session: str, turns: Sequence[NewTurn]) -> None:
        """For a dry run: which of them are in the session already?"""
        known: set[str | None] = set()
        try:
            end = self._task.agent.interactions.get(scope, session).turns + 1
            for first in range(1, end, 1_000):
                before = min(first + 1_000, end)
                there = self._task.agent.interactions.turns(scope, session, first=first, before=before)
                known |= {one.message_id for one in there}
        except NotFound:
            pass  # a session that is not there has none of them
        new = sum(one.message_id not in known for one in turns)
        self._task.report.brought["turns"] += new
        self._task.report.unchanged += len(turns) - new


class ReminderImport:
    """Reminders that wait there wait here: for who brings them in. Through the inbox, where their deliverer is not here."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def take(self, page: Iterable[DueReminder]) -> None:
        agent = self._task.agent
        for one in page:
            target = self._task.target(one.owner)
            if target is None or target not in (self._task.scope, agent.id):
                self._task.passed(one.owner)  # nobody can be reminded by another
                continue
            ident = uuid5(self._task.import_id, f"reminder\n{one.identity}")
            try:
                agent.reminder(ident)
                self._task.report.unchanged += 1
            except NotFound:
                self._remind(one, ident)

    def _remind(self, one: DueReminder, ident: UUID) -> None:
        plugin = one.plugin if one.plugin in self._task.agent.deliverers else INBOX
        try:
            if self._task.cause is not None:
                self._task.agent.remind(
                    one.message,
                    one.due_at,
                    plugin=plugin or INBOX,
                    recipient=one.recipient,
                    session=one.session,
                    id=ident,
                )
            self._task.report.brought["reminders"] += 1
        except SubstrateError as error:
            self._task.report.refuse(one.place, str(error))


class RecallImport:
    """What was found there counts here as found: it is what dreaming goes by."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def take(self, page: Iterable[PastRecall]) -> None:
        signals = []
        for one in page:
            scope = self._task.target(one.owner)
            if scope is None:
                self._task.passed(one.owner)
            elif (memory := self._task.memory(scope, one.record)) is not None:
                ident = uuid5(self._task.import_id, f"recall\n{one.identity}")
                signals.append(Signal(memory, one.query, one.score, 1, one.at, ident))
        if self._task.cause is None:
            self._task.report.brought["recalls"] += len(signals)
            return
        written = self._task.agent.record_signals(signals) if signals else 0
        self._task.report.brought["recalls"] += written
        self._task.report.unchanged += len(signals) - written
