"""What a store does, whichever way it is called: a batch of operations in, their results out, in one thread.

As LangGraph's own stores do it: all that reads comes first and sees the store as it was before, then what is put is put,
and of several puts of one key the last counts. Reading goes to Postgres, so who reads sees what he wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from substrate.doors.adapters.langgraph import item
from substrate.doors.adapters.langgraph.indexing import Index
from substrate.doors.adapters.langgraph.matching import check_filter, matches, meant
from substrate.doors.adapters.langgraph.naming import END, ROOT, Name, beginning, namespace_of
from substrate.errors import Conflict, ContentTooLarge, Denied, InvalidInput, NotFound, SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.part_vectors import Embedding
from substrate.world.keyed import Place
from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import ScopeRef

#: Items that are looked through at first where a filter decides; each time after that, four times as many.
PAGE = 1_000
#: An item's time is set anew by a reader when more than this share of it has passed: not every reading is an event.
STEP = 1_000


class Operations:
    """The items of one scope of one agent. Safe to use from many threads."""

    def __init__(self, agent: HostedAgent, scope: ScopeRef, index: Index | None, ttl: TTLConfig | None) -> None:
        self._agent = agent
        self._scope = scope
        self._index = index
        self._ttl = ttl
        self._lock = threading.Lock()
        self._last = datetime.min.replace(tzinfo=UTC)

    @property
    def _expired(self) -> bool | None:
        """What has expired is not there, unless the program says that it wants to see it until it is swept."""
        return None if self._ttl is not None and self._ttl.get("omit_expired") is False else False

    def run(self, ops: Iterable[Op], embedding: Embedding | None) -> list[Result]:
        """The results, in the order of the operations."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
            if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
                raise ValueError(f"Unknown operation type: {type(op)}")  # noqa: TRY004 - as LangGraph's own
        puts = {Name(tuple(op.namespace), op.key): op for op in asked if isinstance(op, PutOp)}
        ready = [self._ready(op) for op in puts.values() if op.value is not None]
        results: list[Result] = [None] * len(asked)
        self._get({number: op for number, op in enumerate(asked) if isinstance(op, GetOp)}, results)
        for number, op in enumerate(asked):
            if isinstance(op, SearchOp):
                results[number] = self._search(op, embedding)
            elif isinstance(op, ListNamespacesOp):
                results[number] = self._list_namespaces(op)
        self._put(ready, embedding)
        self._delete([name for name, op in puts.items() if op.value is None])
        return results

    # -------------------------------------------------------------- reading

    def _get(self, ops: Mapping[int, GetOp], results: list[Result]) -> None:
        keys = {number: Name(tuple(op.namespace), op.key).text for number, op in ops.items()}
        found = self._there(keys.values())
        for number, key in keys.items():
            results[number] = item.item_of(found[key]) if key in found else None
        refreshed = {keys[number] for number, op in ops.items() if op.refresh_ttl}
        self._refresh([memory for key, memory in found.items() if key in refreshed])

    def _there(self, keys: Iterable[str]) -> dict[str, Memory]:
        found, now = self._agent.get_by_keys(keys, scope=self._scope), datetime.now(UTC)
        if self._expired is None:
            return found
        return {key: one for key, one in found.items() if one.expires_at is None or one.expires_at > now}

    def _search(self, op: SearchOp, embedding: Embedding | None) -> Result:
        if op.limit < 0 or op.offset < 0:
            raise InvalidInput("limit, offset: give numbers that are not negative")
        check_filter(op.filter)
        found: list[tuple[Memory, float | None]]
        if op.query and self._index is not None and embedding is not None:
            found = [*self._nearest(op, op.query, self._index, embedding)]
        else:
            found = [(memory, None) for memory in self._latest(op)]
        if op.refresh_ttl:
            self._refresh([memory for memory, _ in found])
        return [item.search_item_of(memory, score) for memory, score in found]

    def _nearest(self, op: SearchOp, query: str, index: Index, embedding: Embedding) -> list[tuple[Memory, float]]:
        end = op.offset + op.limit
        if op.filter:
            return index.nearest(query, list(self._all(op)), embedding)[op.offset : end]
        stamps = self._agent.stamp_keyed(
            beginning(tuple(op.namespace_prefix)), scope=self._scope, expired=self._expired
        )
        best = index.nearest(query, stamps, embedding)[op.offset : end]
        there = self._there(stamp.key for stamp, _ in best)
        return [(there[stamp.key], score) for stamp, score in best if stamp.key in there]

    def _latest(self, op: SearchOp) -> list[Memory]:
        prefix = beginning(tuple(op.namespace_prefix))
        if not op.filter:
            return self._agent.list_keyed(
                prefix, scope=self._scope, expired=self._expired, limit=op.limit, offset=op.offset
            )
        found: list[Memory] = []
        for memory in self._all(op):
            if len(found) >= op.offset + op.limit:
                break
            found.append(memory)
        return found[op.offset :]

    def _all(self, op: SearchOp) -> Iterator[Memory]:
        """All that prefix and filter leave, the latest first."""
        prefix, size, after = beginning(tuple(op.namespace_prefix)), PAGE, None
        while True:
            page = self._agent.list_keyed(prefix, scope=self._scope, expired=self._expired, limit=size, after=after)
            yield from (one for one in page if matches(item.value_of(one), op.filter))
            if len(page) < size:
                return
            after, size = Place(page[-1].valid_from or page[-1].learned_at, page[-1].id), size * 4

    def _list_namespaces(self, op: ListNamespacesOp) -> Result:
        heads = self._agent.key_heads(ROOT, END, scope=self._scope, expired=self._expired)
        chosen = {namespace for head in heads if meant(namespace := namespace_of(head), op.match_conditions)}
        if op.max_depth is not None:
            chosen = {namespace[: op.max_depth] for namespace in chosen}
        return sorted(chosen)[op.offset : op.offset + op.limit]

    # -------------------------------------------------------------- writing

    def _ready(self, op: PutOp) -> NewMemory:
        memory, most = item.memory_of(op, self._scope, self._now()), self._agent.settings.max_content_bytes
        if len(memory.content.encode(errors="replace")) > most:
            raise ContentTooLarge(
                f"value: longer than {most} bytes as JSON; split it, or raise SUBSTRATE_MAX_CONTENT_BYTES"
            )
        return memory

    def _put(self, memories: Sequence[NewMemory], embedding: Embedding | None) -> None:
        if not memories:
            return
        index = self._index if embedding is not None else None
        # Made before anything is written: an embedder that fails leaves the store as it was.
        vectors = index.made(memories, embedding) if index and embedding else []
        _raise_first(self._agent.keep_many(memories))
        if index is not None:
            there = self._agent.get_by_keys((str(one.key) for one in memories), scope=self._scope)
            index.keep(memories, vectors, there)

    def _delete(self, names: Sequence[Name]) -> None:
        there = self._agent.get_by_keys([name.text for name in names], scope=self._scope)
        gone = [one.id for one in there.values()]
        answers = self._agent.forget_many(gone, reason="deleted from the store") if gone else []
        # Who finds that somebody else has deleted it has what he wanted.
        _raise_first(answer for answer in answers if not isinstance(answer, Conflict))

    def _refresh(self, memories: Iterable[Memory]) -> None:
        """Give what was read its whole time again. Where one may not, or somebody was faster, it stays as it is."""
        now = datetime.now(UTC)
        due = [(memory, until) for memory in memories if (until := _until(memory, now)) is not None]
        answers = self._agent.revise_many([(memory, {"expires_at": until}) for memory, until in due]) if due else []
        _raise_first([one for one in answers if not isinstance(one, Conflict | Denied | NotFound)])

    def sweep(self) -> int:
        """Forget what has expired; returns how many."""
        return sum(map(self._swept, self._agent.list_keyed(ROOT, scope=self._scope, expired=True)))

    def _swept(self, memory: Memory) -> bool:
        """Forget it as it was when it had expired; not what somebody has put or read since."""
        try:
            self._agent.forget(memory.id, reason="its time was over", expected_version=memory.version)
        except (Conflict, Denied, NotFound):
            return False
        return True

    def _now(self) -> datetime:
        """Now, and later than ever before here: the latest put is the first of a listing, also within a batch."""
        with self._lock:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last


def _until(memory: Memory, now: datetime) -> datetime | None:
    """Until when it is kept from now on, if that is worth an event."""
    ttl = item.ttl_of(memory)
    if ttl is None or memory.expires_at is None:
        return None
    until = now + ttl
    return until if until - memory.expires_at > ttl / STEP else None


def _raise_first(answers: Iterable[Any]) -> None:
    for answer in answers:
        if isinstance(answer, SubstrateError):
            raise answer
