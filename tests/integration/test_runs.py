"""Runs: told while they happen, found again, and read by who may."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from substrate.errors import ContentTooLarge, Denied, InvalidInput, NotFound, UnknownKind, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.run import LOST_AFTER, NewRunEvent, Run, RunChange, below
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

WHERE = pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def leo(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.leo)


def the_run(agent: HostedAgent, ident: UUID) -> Run:
    return agent.run_tree(ident).run


@WHERE
def test_what_is_told_of_a_run_is_there_in_order(kate: HostedAgent, shared: bool) -> None:
    memory = uuid4()
    with kate.run("answer mail", session="s-1", shared=shared) as run:
        run.step("read the letter", memory=memory, at=datetime(2026, 1, 1, tzinfo=UTC))
        run.tool_call("send_mail", to=["ana"], tries=2)
        run.session_changed("resumed")
    events = kate.run_events(run.id)
    assert [(one.number, one.kind, one.text) for one in events] == [
        (1, "started", None), (2, "step", "read the letter"), (3, "tool_call", "send_mail"), (4, "session", "resumed"),
        (5, "finished", None),
    ]  # fmt: skip
    assert events[1].data == {"memory": str(memory), "at": "2026-01-01T00:00:00+00:00"}
    assert events[2].data == {"to": ["ana"], "tries": 2}
    found = the_run(kate, run.id)
    assert (found.name, found.session, found.status, found.events) == ("answer mail", "s-1", "ok", 5)
    assert (found.agent, found.scope, found.runtime, found.shared) == (kate.id, kate.id, "desk", shared)
    assert found.started_at <= events[1].at <= (found.finished_at or found.started_at)


@WHERE
def test_a_run_that_fails_says_what_kind_of_error_and_where_and_no_content(kate: HostedAgent, shared: bool) -> None:
    with pytest.raises(RuntimeError), kate.run("work", shared=shared) as run:
        raise RuntimeError("the secret word is swordfish")
    with pytest.raises(NotFound), kate.run("work", shared=shared) as other:
        kate.get("swordfish")
    with pytest.raises(KeyboardInterrupt), kate.run("work", shared=shared) as third:
        raise KeyboardInterrupt
    assert [the_run(kate, one.id).status for one in (run, other, third)] == ["failed", "failed", "cancelled"]
    failure = kate.run_events(run.id)[1]
    assert (failure.kind, failure.text) == ("failure", None)
    assert failure.data is not None
    assert failure.data["type"] == "RuntimeError"
    assert failure.data["at"][-1].startswith(f"{__name__}.test_a_run_that_fails")
    ours = kate.run_events(other.id)[1]
    assert ours.text == "no memory '…' that you can see; check the id and whose credential you are using"
    assert ours.data is not None
    assert ours.data["code"] == "not_found"
    assert "swordfish" not in repr([kate.run_events(one.id) for one in (run, other, third)])


def test_runs_begun_inside_a_run_are_its_children(kate: HostedAgent, leo: HostedAgent) -> None:
    with kate.run("outer") as outer:
        with kate.run("inner", shared=True) as inner, kate.run("innermost") as innermost:
            pass
        with leo.run("leo's, and no child of kate's") as other:
            pass
        with kate.run("second") as second:
            pass
    tree = kate.run_tree(outer.id)
    assert [child.run.name for child in tree.children] == ["inner", "second"]
    assert {run.id for run in below(tree)} == {outer.id, inner.id, innermost.id, second.id}
    assert the_run(kate, innermost.id).parent == inner.id
    assert the_run(leo, other.id).parent is None
    assert [run.id for run in kate.runs(parent=outer.id).runs] == [second.id, inner.id]


def test_runs_are_found_by_session_agent_status_name_and_time(kate: HostedAgent, leo: HostedAgent) -> None:
    before = datetime.now(UTC)
    for number in range(6):
        with kate.run(
            f"n{number % 3}", session=f"s{number % 2}", shared=number > 3, scope="house" if number > 3 else "own"
        ):
            pass
    after = datetime.now(UTC)
    assert [run.name for run in kate.runs().runs] == ["n2", "n1", "n0", "n2", "n1", "n0"]
    assert [run.name for run in kate.runs(session="s1").runs] == ["n2", "n0", "n1"]
    assert [run.session for run in kate.runs(name="n1").runs] == ["s0", "s1"]
    assert len(kate.runs(status="ok").runs) == 6
    assert kate.runs(status="failed").runs == []
    assert len(kate.runs(since=before, until=after).runs) == 6
    assert kate.runs(until=before).runs == kate.runs(since=after).runs == []
    assert [run.shared for run in kate.runs(where="shared").runs] == [True, True]
    assert [run.shared for run in kate.runs(where="local").runs] == [False] * 4
    assert [run.agent for run in leo.runs(agent=kate.id).runs] == [kate.id] * 2
    assert kate.runs(agent=leo.id).runs == []


def test_pages_give_every_run_once(kate: HostedAgent) -> None:
    for number in range(11):
        with kate.run(f"n{number}", shared=number % 2 == 0):
            pass
    seen: list[str | None] = []
    page = None
    while True:
        found = kate.runs(limit=3, page=page)
        seen += [run.name for run in found.runs]
        page = found.next
        if page is None:
            break
    assert seen == [f"n{number}" for number in reversed(range(11))]


@WHERE
def test_events_told_by_many_threads_are_numbered_without_holes(kate: HostedAgent, shared: bool) -> None:
    with kate.run("busy", shared=shared) as run:

        def tell(number: int) -> None:
            for step in range(50):
                run.step(f"{number}.{step}")

        threads = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = kate.run_events(run.id)
    assert [one.number for one in events] == list(range(1, 403))
    assert {one.text for one in events[1:-1]} == {f"{n}.{i}" for n in range(8) for i in range(50)}
    assert [one.number for one in kate.run_events(run.id, after=398, limit=2)] == [399, 400]


def test_what_cannot_be_told_is_refused_and_the_run_goes_on(kate: HostedAgent) -> None:
    with kate.run("careful") as run:
        with pytest.raises(InvalidInput, match="JSON"):
            run.step("odd", what=object())
        with pytest.raises(ContentTooLarge):
            run.step("x" * 70_000)
        with pytest.raises(InvalidInput, match="surrogate"):
            run.step("\ud800")
        with pytest.raises(InvalidInput, match="ok, failed or cancelled"):
            run.finish("lost")
        run.step("fine")
    with pytest.raises(WrongState, match="over"):
        run.step("too late")
    run.finish("failed")  # no error, and changes nothing
    assert the_run(kate, run.id).status == "ok"
    assert [one.kind for one in kate.run_events(run.id)] == ["started", "step", "finished"]
    for bad in ("", " ", "x" * 201, 3):
        with pytest.raises(InvalidInput):
            kate.run(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="shared=True"):
        kate.run("work", scope="house")
    with pytest.raises(UnknownKind):
        kate.runs(status="sleeping")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        kate.runs(page="nonsense")
    with pytest.raises(InvalidInput):
        kate.runs(limit=0)


@WHERE
def test_a_session_has_a_run_of_its_own_that_is_taken_up_again(
    kate: HostedAgent, database: DatabaseUrls, tmp_path: Path, house: House, shared: bool
) -> None:
    kate.session_event("s-9", "started", shared=shared)
    ident = kate.session_event("s-9", "expired", shared=shared, turns=50)
    assert [run.status for run in kate.runs(kind="session").runs] == ["ok"]
    # Another process takes it up: where it is shared, in another runtime.
    with runtime(database, tmp_path / ("other" if shared else ""), "attic" if shared else "desk") as other:
        assert hosted(other, house.kate).session_event("s-9", "resumed", shared=shared) == ident
    assert [(run.id, run.status, run.finished_at) for run in kate.runs(kind="session").runs] == [
        (ident, "running", None)
    ]
    assert [(one.number, one.text) for one in kate.run_events(ident)] == [
        (1, "started"),
        (2, "expired"),
        (3, "resumed"),
    ]
    assert kate.runs().runs == []
    with pytest.raises(UnknownKind):
        kate.session_event("s-9", "paused")  # type: ignore[arg-type]


# ---------------------------------------------------------------- lost


def silence(database: DatabaseUrls, desk: Runtime, run: UUID) -> None:
    """As if its process had last been heard of a good while ago."""
    ago = LOST_AFTER + timedelta(seconds=5)
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("UPDATE substrate.runs SET heard_at = heard_at - %s WHERE id = %s", (ago, run))
    with desk.run_log.local._using(write=True) as db:
        db.execute("UPDATE runs SET heard_at = heard_at - ? WHERE id = ?", (int(ago.total_seconds() * 1e6), run.bytes))


@WHERE
def test_a_run_that_nobody_hears_of_is_lost_until_it_is_heard_of_again(
    kate: HostedAgent, desk: Runtime, database: DatabaseUrls, shared: bool
) -> None:
    run = kate.run("slow", shared=shared)
    assert the_run(kate, run.id).status == "running"
    silence(database, desk, run.id)
    assert the_run(kate, run.id).status == "lost"
    assert [one.id for one in kate.runs(status="lost").runs] == [run.id]
    assert kate.runs(status="running").runs == []
    desk.run_log._under_way[run.id] = (*desk.run_log._under_way[run.id][:2], 0.0)
    desk.run_log._beat()
    assert the_run(kate, run.id).status == "running"
    run.finish()
    silence(database, desk, run.id)
    assert the_run(kate, run.id).status == "ok"


# ---------------------------------------------------------------- who may read


@pytest.mark.world
def test_nobody_reads_counts_or_guesses_the_runs_of_another(kate: HostedAgent, leo: HostedAgent, house: House) -> None:
    room = house.owner.create_group("study")
    house.owner.grant(room, house.kate.id, "rw")
    runs = [kate.run("own"), kate.run("own, shared", shared=True), kate.run("study", shared=True, scope=room)]
    for run in runs:
        run.step("private")
        run.finish()
    assert leo.runs().runs == leo.runs(agent=kate.id).runs == leo.runs(name="own").runs == []
    absent = str(NotFound("run", runs[0].id))
    for run in runs:
        for ask in (leo.run_events, leo.run_tree):
            with pytest.raises(NotFound) as refused:
                ask(run.id)
            assert str(refused.value) == absent.replace(str(runs[0].id), str(run.id))
    with leo.run("his own", parent=runs[1].id, shared=True) as his:
        pass
    assert leo.run_tree(his.id).children == []
    assert kate.run_tree(runs[1].id).children == []  # nor does she see what he hung below hers
    house.owner.grant(room, house.leo.id, "r")
    assert [run.name for run in leo.runs(agent=kate.id).runs] == ["study"]  # the null control


@pytest.mark.world
def test_a_shared_run_is_only_where_its_agent_may_write(kate: HostedAgent, house: House) -> None:
    hidden, read_only = house.owner.create_group("hidden", members="-"), house.owner.create_group("notices")
    house.owner.grant(read_only, house.kate.id, "r")
    with pytest.raises(NotFound):
        kate.run("spy", shared=True, scope=hidden)
    with pytest.raises(NotFound):
        kate.run("spy", shared=True, scope=house.leo.id)
    with pytest.raises(Denied):
        kate.run("write", shared=True, scope=read_only)
    assert kate.runs().runs == []
    house.owner.grant(read_only, house.kate.id, "rw")
    with kate.run("write", shared=True, scope=read_only) as run:
        run.step("before")
        kate._runtime.run_log.flush()
        house.owner.grant(read_only, house.kate.id, "r")
        run.step("after the right was taken away")
    assert [one.text for one in kate.run_events(run.id)] == [None, "before"]


@pytest.mark.world
def test_another_cannot_write_into_a_run(kate: HostedAgent, leo: HostedAgent) -> None:
    run = kate.run("hers", shared=True, scope="house")
    forged = leo._new_run("hers", None, shared=True, scope="house", parent=None, ident=run.id)
    event = NewRunEvent(2, "step", datetime.now(UTC), (), '{"text": "forged", "data": {}}')
    with pytest.raises((NotFound, Denied)):
        leo._runtime.run_log.begin(leo.credential, RunChange(forged, (event,)))
    run.step("mine")
    run.finish()
    assert [one.text for one in leo.run_events(run.id)] == [None, "mine", None]


def test_a_narrower_token_and_a_revoked_one_get_no_runs(desk: Runtime, house: House) -> None:
    token = house.kate.issue_token(rights="w")
    kate = desk.agent(house.kate.issue_token())
    with kate.run("work"):
        pass
    with pytest.raises(Denied):
        desk.agent(token).runs()
    secret = house.kate.issue_token()
    other = desk.agent(secret)
    assert len(other.runs().runs) == 1
    assert other.credential.token is not None
    house.kate.revoke_token(other.credential.token)
    other._resident.indexes.step()
    with pytest.raises(Denied):
        other.runs()


# ---------------------------------------------------------------- why


@WHERE
@pytest.mark.world
def test_why_leads_to_the_run_that_learned_a_fact(kate: HostedAgent, leo: HostedAgent, shared: bool) -> None:
    with kate.run("morning", shared=shared) as outer, kate.run("answer mail", session="s-1", shared=shared) as run:
        learned = run.agent.remember("the landlord comes on Monday", scope="house")
    (ground,) = kate.why(learned.memory).grounds
    assert (ground.run, ground.session) == (str(run.id), "s-1")
    assert ground.ran is not None
    assert (ground.ran.name, ground.ran.status, ground.ran.parent, ground.ran.parent_name) == (
        "answer mail", "ok", outer.id, "morning",
    )  # fmt: skip
    assert ground.ran.started_at <= ground.recorded_at
    assert [change.ran and change.ran.name for change in kate.history(learned.memory)] == ["answer mail"]
    # The fact is the house's; the run is kate's own.
    (seen,) = leo.why(learned.memory).grounds
    assert (seen.run, seen.ran) == (str(run.id), None)


def test_a_run_of_the_callers_own_naming_is_left_as_it_is(kate: HostedAgent) -> None:
    learned = kate.within(run="nightly").remember("it rained")
    (ground,) = kate.why(learned.memory).grounds
    assert (ground.run, ground.ran) == ("nightly", None)
