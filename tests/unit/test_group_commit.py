"""Group commit: each submitter gets its own outcome, in order for each subject, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from substrate.errors import Denied, NotFound, SubstrateError
from substrate.world import commit
from substrate.world.append import Outcome, Writer, Written
from substrate.world.commit import GroupCommit
from substrate.world.item import Item
from substrate.world.model import Position

HOUSE = UUID(int=1)


class FakeItem:
    """All that group commit looks at in an item."""

    def __init__(self, name: object, *claims: object, fails: SubstrateError | None = None) -> None:
        self.name, self.claims, self.fails = name, {name, *claims}, fails


class FakeWriter:
    """Takes batches; waits before each one while `gate` is closed."""

    def __init__(self) -> None:
        self.batches: list[list[FakeItem]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.breaks: BaseException | None = None
        self.places = 1
        self.most_at_once = 0
        self._under_way: list[set[object]] = []
        self._lock = threading.Lock()

    def write(self, items: list[FakeItem]) -> list[Outcome]:
        claims = {claim for item in items for claim in item.claims}
        with self._lock:
            assert len(self._under_way) < self.places, "more leaders at once than there are places"
            assert all(claims.isdisjoint(other) for other in self._under_way), "two of one subject under way at once"
            self._under_way.append(claims)
            self.most_at_once = max(self.most_at_once, len(self._under_way))
            self.batches.append(items)
        try:
            self.entered.release()
            assert self.gate.wait(30)
            if self.breaks is not None:
                error, self.breaks = self.breaks, None
                raise error
            return [item.fails or [Written(Position(HOUSE, n), datetime.now(UTC))] for n, item in enumerate(items)]
        finally:
            with self._lock:
                self._under_way.remove(claims)


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


@pytest.fixture
def commits(writer: FakeWriter) -> GroupCommit:
    """With one place to lead, so that it is known who waits."""
    return GroupCommit(cast("Writer", writer), leaders=1)


def submit(commits: GroupCommit, item: FakeItem) -> list[Written]:
    return commits.submit(cast("Item", item))


@contextmanager
def held(writer: FakeWriter, commits: GroupCommit, pool: ThreadPoolExecutor) -> Iterator[Future[Any]]:
    """A leader is writing, and stays at it until the block ends."""
    writer.gate.clear()
    leader = pool.submit(submit, commits, FakeItem("leader"))
    assert writer.entered.acquire(timeout=10)
    yield leader
    writer.gate.set()


def in_line(commits: GroupCommit, pool: ThreadPoolExecutor, *items: FakeItem) -> list[Future[Any]]:
    """Submit from one thread each, in this order: the next comes when the one before stands in line."""
    futures = []
    for item in items:
        before = len(commits._line)
        futures.append(pool.submit(submit, commits, item))
        wait_for(lambda: len(commits._line) > before)  # noqa: B023 - called at once
    return futures


def wait_for(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(20_000):
        if true():
            return
        pause.wait(0.0005)
    pytest.fail("it never came to that")


def names(batch: list[FakeItem]) -> list[object]:
    return [item.name for item in batch]


def test_a_lone_writer_writes_at_once_and_leaves_nobody_leading(writer: FakeWriter, commits: GroupCommit) -> None:
    for n in range(3):
        assert len(submit(commits, FakeItem(n))) == 1
    assert [names(batch) for batch in writer.batches] == [[0], [1], [2]]


def test_what_arrives_during_a_write_goes_together_in_the_next(writer: FakeWriter, commits: GroupCommit) -> None:
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            futures = in_line(commits, pool, *(FakeItem(n) for n in range(5)))
        assert [len(future.result(10)) for future in futures] == [1] * 5
    assert [names(batch) for batch in writer.batches] == [["leader"], [0, 1, 2, 3, 4]]


def test_an_item_that_fails_fails_alone(writer: FakeWriter, commits: GroupCommit) -> None:
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            futures = in_line(commits, pool, FakeItem(0), FakeItem(1, fails=Denied("no")), FakeItem(2))
        assert len(futures[0].result(10)) == len(futures[2].result(10)) == 1
        with pytest.raises(Denied, match="no"):
            futures[1].result(10)


def test_items_of_one_subject_go_in_successive_batches_in_the_order_they_came(
    writer: FakeWriter, commits: GroupCommit
) -> None:
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            items = [FakeItem("a1", "a"), FakeItem("b1", "b"), FakeItem("a2", "a"), FakeItem("a3", "a"), FakeItem("c")]
            futures = in_line(commits, pool, *items)
        for future in futures:
            future.result(10)
    assert [names(batch) for batch in writer.batches] == [["leader"], ["a1", "b1", "c"], ["a2"], ["a3"]]


def test_one_passed_over_is_not_overtaken_by_what_shares_its_other_claim(
    writer: FakeWriter, commits: GroupCommit
) -> None:
    """a2 waits for a; so what touches b, as a2 does, waits behind a2."""
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            items = [FakeItem("a1", "a"), FakeItem("a2", "a", "b"), FakeItem("b1", "b")]
            futures = in_line(commits, pool, *items)
        for future in futures:
            future.result(10)
    assert [names(batch) for batch in writer.batches] == [["leader"], ["a1"], ["a2"], ["b1"]]


def test_a_batch_is_bounded(writer: FakeWriter, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "MOST", 2)
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            futures = in_line(commits, pool, *(FakeItem(n) for n in range(5)))
        for future in futures:
            future.result(10)
    assert [names(batch) for batch in writer.batches] == [["leader"], [0, 1], [2, 3], [4]]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), MemoryError(), RuntimeError("bug"), NotFound()])
def test_whatever_befalls_the_leader_wakes_all_who_wait_with_it(
    writer: FakeWriter, commits: GroupCommit, error: BaseException
) -> None:
    with ThreadPoolExecutor(8) as pool:
        with held(writer, commits, pool):
            futures = in_line(commits, pool, *(FakeItem(n) for n in range(3)))
            writer.gate.set()
            writer.breaks = error  # of whichever batch comes next: the leader's own, or the three
        answers = [future.exception(10) for future in futures]
    assert all(answer is None or isinstance(answer, BaseException) for answer in answers)
    # And the next one finds the way free.
    writer.breaks = None
    assert len(submit(commits, FakeItem("after"))) == 1


def test_a_second_leads_once_as_much_waits_as_the_first_took(writer: FakeWriter) -> None:
    commits = GroupCommit(cast("Writer", writer), leaders=2)
    writer.places = 2
    with ThreadPoolExecutor(8) as pool, held(writer, commits, pool) as first:
        second = pool.submit(submit, commits, FakeItem("second"))
        assert writer.entered.acquire(timeout=10)
        third = pool.submit(submit, commits, FakeItem("third"))
        wait_for(lambda: len(commits._line) == 1)
        assert [names(batch) for batch in writer.batches] == [["leader"], ["second"]]
        writer.gate.set()
        assert [len(future.result(10)) for future in (first, second, third)] == [1, 1, 1]


def test_what_touches_something_under_way_waits_although_there_is_a_place(writer: FakeWriter) -> None:
    commits = GroupCommit(cast("Writer", writer), leaders=2)
    writer.places = 2
    with ThreadPoolExecutor(8) as pool, held(writer, commits, pool) as first:
        again = pool.submit(submit, commits, FakeItem("again", "leader"))
        wait_for(lambda: len(commits._line) == 1)
        assert [names(batch) for batch in writer.batches] == [["leader"]]
        writer.gate.set()
        assert [len(future.result(10)) for future in (first, again)] == [1, 1]


@pytest.mark.parametrize("leaders", [1, 2])
def test_under_load_every_item_is_written_once_and_every_waiter_is_woken(writer: FakeWriter, leaders: int) -> None:
    """Stress: 16 threads, subjects that collide, errors in between. A lost wake-up would hang until the time limit."""
    commits = GroupCommit(cast("Writer", writer), leaders=leaders)
    writer.places = leaders

    def work(thread: int) -> int:
        refused = 0
        for turn in range(300):
            item = FakeItem((thread, turn), turn % 7, fails=Denied("no") if turn % 11 == 0 else None)
            try:
                submit(commits, item)
            except Denied:
                refused += 1
        return refused

    with ThreadPoolExecutor(16) as pool:
        refused = list(pool.map(work, range(16)))
    written = [item for batch in writer.batches for item in batch]
    assert refused == [28] * 16
    assert writer.most_at_once <= leaders
    assert len(written) == len({item.name for item in written}) == 16 * 300
    for batch in writer.batches:
        claims = [claim for item in batch for claim in item.claims]
        assert len(claims) == len(set(claims)), "two of one subject in one batch"
    turns: dict[int, list[int]] = defaultdict(list)
    for item in written:
        thread, turn = cast("tuple[int, int]", item.name)
        turns[thread].append(turn)
    assert all(order == sorted(order) for order in turns.values())


def test_a_waiter_that_is_interrupted_does_not_take_the_lead_with_it(
    writer: FakeWriter, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyboardInterrupt reaches the main thread while it waits in `submit`; others must still be served."""

    class Interrupted:
        """A waiter's signal that is broken into."""

        def acquire(self) -> None:
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    def interrupted(item: Item) -> Any:
        waiter = original(item)
        if cast("Any", item).name == "interrupted":
            waiter.ready = cast("Any", Interrupted())
        return waiter

    original = commit._Waiter
    monkeypatch.setattr(commit, "_Waiter", interrupted)
    with ThreadPoolExecutor(4) as pool:
        with held(writer, commits, pool) as leader, pytest.raises(KeyboardInterrupt):
            submit(commits, FakeItem("interrupted"))
        leader.result(10)

    def come_after() -> None:
        with suppress(Denied):
            submit(commits, FakeItem("after"))

    after = threading.Thread(target=come_after, daemon=True)
    after.start()
    after.join(2)
    stuck = after.is_alive()
    for waiter in commits._line:  # let it go, whatever the verdict
        waiter.outcome = Denied("the test is over")
        waiter.ready.release()
    assert not stuck
