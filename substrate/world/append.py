"""The one writer of events: drafts in, positions or errors out.

An `Item` is what a caller asked for: one event, or several that stand or fall together. The database's `append` takes
many items at once and answers for each. What can be retried safely (a lock, a deadlock, rights that changed meanwhile,
a lost connection) is retried here: event ids make a repeat harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from substrate import errors
from substrate.errors import SubstrateError
from substrate.world.canonical import EPOCH
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.events import Payload
from substrate.world.model import Position
from substrate.world.permission import KnownRights

RETRIES = 6
#: A string as JSON, as the json module itself does it in C.
_quoted = json.encoder.encode_basestring
#: One place of the array that `learn` returns, as PostgreSQL writes it: {"(seq,microseconds)",…}.
_PLACE = re.compile(rb"\(\d+,\d+\)")
RIGHTS_CHANGED, REFUSED = "SB001", "SB002"
_AGAIN = {RIGHTS_CHANGED, "40001", "40P01", "55P03", "57P01", "57P02", "57P03"}


@dataclass(frozen=True, slots=True)
class Context:
    """Where an event comes from, besides its actor."""

    runtime: str | None = None
    session: str | None = None
    run: str | None = None
    causation: UUID | None = None
    correlation: UUID | None = None


#: No runtime, session or run.
NOWHERE = Context()


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no position yet. `record` is what the subject becomes; `expected_version` 0 creates it."""

    house: UUID
    scope: UUID
    subject: UUID
    event_id: UUID
    actor: UUID
    token: UUID | None
    payload: Payload
    occurred_at: datetime
    expected_version: int | None = None
    record: dict[str, Any] | None = None
    context: Context = NOWHERE
    #: Another thing two drafts of one batch may not share: (scope, key) of a keyed memory.
    key: tuple[UUID, str] | None = None
    #: For a new memory with an id of our own making: the version of rights under which it may be written plainly.
    rights_version: int | None = None

    @property
    def who(self) -> Credential:
        return Credential(self.actor, self.house, self.token)


@dataclass(frozen=True, slots=True)
class Written:
    """An acknowledged event: it is on disk. `repeated` says that it had been written before."""

    position: Position
    recorded_at: datetime
    repeated: bool = False


T = TypeVar("T")
Outcome = list[Written] | SubstrateError


class Item:
    """Drafts that are written together or not at all, encoded in the thread that made them."""

    __slots__ = ("_texts", "claims", "drafts")

    def __init__(self, *drafts: Draft) -> None:
        self.drafts = drafts
        self._texts = [draft.payload.encode() for draft in drafts]
        # What no other item of the same batch may touch.
        self.claims: set[object] = set()
        for draft in drafts:
            self.claims.add(draft.subject)
            self.claims.add(draft.event_id)
            if draft.key is not None:
                self.claims.add(draft.key)

    @property
    def plain(self) -> bool:
        """Whether `learn` can take it: see there."""
        return len(self.drafts) == 1 and self.drafts[0].rights_version is not None

    def encoded(self, number: int) -> Iterable[str]:
        """Each draft as the database's `append` takes it."""
        size = len(self.drafts)
        for step, (draft, texts) in enumerate(zip(self.drafts, self._texts, strict=True)):
            more = {"step": step, "size": size, "expected_version": draft.expected_version, "record": draft.record}
            kind = {"type": type(draft.payload).__name__, "token_id": _text(draft.token)}
            yield f"{_envelope(number, draft, *texts)},{json.dumps({**more, **kind}, ensure_ascii=False)[1:]}"

    def parameters(self) -> tuple[str | None, ...]:
        """The one draft as the database's `learn_one` takes it."""
        draft, (data, body) = self.drafts[0], self._texts[0]
        context = draft.context
        return (
            f"{draft.house.int:032x}",
            str(draft.rights_version),
            f"{draft.event_id.int:032x}",
            f"{draft.scope.int:032x}",
            f"{draft.subject.int:032x}",
            f"{draft.actor.int:032x}",
            str(draft.payload.schema_version),
            context.runtime,
            context.session,
            context.run,
            _text(context.causation),
            _text(context.correlation),
            data,
            body,
            draft.occurred_at.isoformat(),
        )

    def encoded_plain(self, number: int) -> str:
        """The one draft as the database's `learn` takes it."""
        return _envelope(number, self.drafts[0], *self._texts[0]) + "}"


def _written(house: UUID, place: bytes | None) -> Written:
    seq, _, micros = (place or b"").strip(b"()").partition(b",")
    return Written(Position(house, int(seq)), EPOCH + timedelta(microseconds=int(micros)))


def _envelope(number: int, draft: Draft, data: str, body: str) -> str:
    """The fields that both functions want, as an object left open. Written by hand, ids as bare hex: the hot path."""
    return (
        f'{{"item":{number},"house_id":"{draft.house.int:032x}","event_id":"{draft.event_id.int:032x}",'
        f'"scope_id":"{draft.scope.int:032x}","subject_id":"{draft.subject.int:032x}",'
        f'"schema_version":{draft.payload.schema_version},"actor_id":"{draft.actor.int:032x}",'
        f'"occurred_at":"{draft.occurred_at.isoformat()}","data":{_quoted(data)},"body":{_quoted(body)}'
        f"{'' if draft.context is NOWHERE else _origin(draft.context)}"
    )


def _origin(context: Context) -> str:
    named = {
        "runtime": context.runtime,
        "session_id": context.session,
        "run_id": context.run,
        "causation_id": context.causation,
        "correlation_id": context.correlation,
    }
    return "".join(f',"{name}":{_quoted(str(value))}' for name, value in named.items() if value is not None)


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)


class Writer:
    """Writes batches through the database's `learn` and `append`, and changes of scopes through `govern`."""

    def __init__(self, database: Database, rights: KnownRights) -> None:
        self._database = database
        self._rights = rights
        self._learning = database.hot("SELECT learn($1, $2, $3)")
        self._learning_one = database.hot(f"SELECT learn_one({', '.join(f'${n}' for n in range(1, 16))})")

    def write(self, items: Sequence[Item]) -> list[Outcome]:
        """One outcome an item, in order. The items' claims must not overlap; `batches` sees to that."""
        plain = [item for item in items if item.plain]
        if not plain:
            return self._write(items)
        outcomes: dict[Item, Outcome] = {}
        try:
            outcomes.update(zip(plain, self._learn(plain), strict=True))
        except psycopg.Error:
            # A key that is taken, a right that changed, a connection that broke: the long way tells each item.
            for item in plain:
                self._rights.forget(item.drafts[0].who)
        rest = [item for item in items if item not in outcomes]
        if rest:
            outcomes.update(zip(rest, self._write(rest), strict=True))
        return [outcomes[item] for item in items]

    def _learn(self, items: list[Item]) -> list[Outcome]:
        if len(items) == 1:
            ((place,),) = self._learning_one(*items[0].parameters())
            return [[_written(items[0].drafts[0].house, place)]]
        rights: dict[UUID, int] = {}
        for item in items:
            draft = item.drafts[0]
            version = draft.rights_version or 0
            # Of two versions the older: what was checked under it must not pass for checked under the newer.
            rights[draft.house] = min(version, rights.get(draft.house, version))
        houses = sorted(rights)
        order = (
            range(len(items)) if len(houses) == 1 else sorted(range(len(items)), key=lambda n: items[n].drafts[0].house)
        )
        ((places,),) = self._learning(
            _array(items[n].encoded_plain(n) for n in order),
            f"{{{','.join(map(str, houses))}}}",
            f"{{{','.join(str(rights[house]) for house in houses)}}}",
        )
        outcomes: list[Outcome] = [[]] * len(items)
        for number, place in zip(order, _PLACE.findall(places or b""), strict=True):
            outcomes[number] = [_written(items[number].drafts[0].house, place)]
        return outcomes

    def _write(self, items: Sequence[Item]) -> list[Outcome]:
        try:
            return self._attempt(lambda: self._append(items))
        except psycopg.OperationalError as error:
            return [_unavailable(error)] * len(items)
        except psycopg.Error as error:
            if len(items) == 1:
                return [_refusal(error)]
        # Something in the batch upset all of it: alone, each item gets its own answer.
        return [self._write([item])[0] for item in items]

    def govern(self, drafts: Sequence[Draft]) -> list[Written]:
        """Changes of scopes, grants and tokens: all of them or an error."""
        # Each its own item for the order, one call for all or nothing.
        text = _array(one for number, draft in enumerate(drafts) for one in Item(draft).encoded(number))
        try:
            rows = self._attempt(lambda: self._database.write_rows("SELECT seq, recorded_at FROM govern(%s)", (text,)))
        except psycopg.OperationalError as error:
            raise _unavailable(error) from None
        except psycopg.Error as error:
            raise _refusal(error) from None
        return [Written(Position(drafts[0].house, seq), at) for seq, at in rows]

    def _append(self, items: Sequence[Item]) -> list[Outcome]:
        text = _array(one for number, item in enumerate(items) for one in item.encoded(number))
        rows = self._database.write_rows("SELECT item, step, status, seq, recorded_at, detail FROM append(%s)", (text,))
        answers: list[list[Any]] = [[] for _ in items]
        for number, *answer in rows:
            answers[number].append(answer)
        return [_outcome(item, answer) for item, answer in zip(items, answers, strict=True)]

    def _attempt(self, call: Callable[[], T]) -> T:
        for left in reversed(range(RETRIES)):
            try:
                return call()
            except psycopg.Error as error:
                # A lost connection leaves it open whether the batch was committed. The event ids decide: what was
                # written answers "repeat" with its old position, what was not is written now.
                again = error.sqlstate in _AGAIN or (isinstance(error, psycopg.OperationalError) and not error.sqlstate)
                if not again or not left:
                    raise
        raise AssertionError("unreachable")


def batches(numbered: Iterable[tuple[int, Item]]) -> Iterable[list[tuple[int, Item]]]:
    """Cut items into batches, in order, such that no two of one batch share a subject, a key or an event id."""
    batch: list[tuple[int, Item]] = []
    claimed: set[object] = set()
    for number, item in numbered:
        if not claimed.isdisjoint(item.claims):
            yield batch
            batch, claimed = [], set()
        batch.append((number, item))
        claimed |= item.claims
    if batch:
        yield batch


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def _outcome(item: Item, answers: list[Any]) -> Outcome:
    for step, status, _, _, detail in answers:
        if status not in ("ok", "repeat", "skipped"):
            return _error(status, item.drafts[step], detail)
    house = item.drafts[0].house
    return [Written(Position(house, seq), at, status == "repeat") for _, status, seq, at, _ in sorted(answers)]


def _error(status: str, draft: Draft, detail: str | None) -> SubstrateError:  # noqa: PLR0911 - a table of answers
    match status:
        case "stale":
            return errors.StaleMemory(draft.subject, draft.expected_version, int(detail or 0))
        case "not_found":
            return (
                errors.NotFound("scope", draft.scope)
                if draft.expected_version == 0
                else errors.NotFound("memory", draft.subject)
            )
        case "not_authenticated":
            return errors.NotAuthenticated("the token is unknown, expired or revoked; ask for a new one")
        case "denied":
            return errors.Denied(
                f"your rights on scope {draft.scope} do not allow {type(draft.payload).__name__}; "
                "it takes w for what you taught yourself, and x for what others did"
            )
        case "duplicate_key":
            key = draft.key[1] if draft.key else None
            return errors.DuplicateKey(f"an active memory of this scope already has the key {key!r}; revise that one")
        case "idempotency_conflict":
            return errors.IdempotencyConflict(f"event id {draft.event_id} was used before, with another payload")
        case "limit_exceeded":
            return errors.LimitExceeded(
                f"the limit of this agent is reached ({detail}); wait, or ask a manager to raise it"
            )
        case "legal_hold":
            return errors.LegalHold(f"memory {draft.subject} is under legal hold; release the hold first")
        case "conflict":
            return errors.Conflict(f"{draft.subject} exists already")
        case _:
            return errors.InvalidInput(
                detail or f"{type(draft.payload).__name__} is not accepted by the database: {status}"
            )


def _refusal(error: psycopg.Error) -> SubstrateError:
    """An error of the whole call, as one of ours. Database texts may quote values, so only our own are passed on."""
    if error.sqlstate == RIGHTS_CHANGED:
        return errors.Conflict("the rights of this house changed again and again meanwhile; try again")
    if error.sqlstate == REFUSED:
        kinds: dict[str, Callable[[str], SubstrateError]] = {
            "not_found": lambda _: errors.NotFound("scope"),
            "denied": errors.Denied,
            "not_authenticated": errors.NotAuthenticated,
            "conflict": errors.Conflict,
            "duplicate_key": errors.DuplicateKey,
            "legal_hold": errors.LegalHold,
            "idempotency_conflict": errors.IdempotencyConflict,
            "stale": lambda _: errors.Conflict("the scope was changed meanwhile; read it again and retry"),
        }
        return kinds.get(error.diag.message_hint or "", errors.InvalidInput)(error.diag.message_primary or "")
    if error.sqlstate == "23505":
        return _taken(error.diag.constraint_name)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return errors.NotAuthenticated("this database login may not do that")
    return errors.InvalidInput(
        f"the database refused it ({error.sqlstate}, {type(error).__name__}); nothing was written"
    )


def _taken(constraint: str | None) -> SubstrateError:
    if constraint == "memories_key":
        return errors.DuplicateKey("an active memory of this scope already has this key; revise that one")
    if constraint == "scopes_name":
        return errors.Conflict("a scope with this name is already there; choose another name")
    return errors.Conflict(f"already there ({constraint}); nothing was written")


def _unavailable(error: psycopg.OperationalError) -> SubstrateError:
    return errors.ServerUnavailable(
        f"the database went away ({error.sqlstate or type(error).__name__}); it is not known whether this was written: "
        "send it again with the same event id"
    )
