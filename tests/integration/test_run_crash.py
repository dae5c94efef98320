"""Runs whose process dies, whose database goes away, or who tell too much: what is kept, and what is said of the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from uuid import UUID

import pytest

from substrate.errors import ServerUnavailable
from substrate.runtime.observing import run_log
from substrate.world import shared_runs
from substrate.world.run import RunChange
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

WHERE = pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])
WORKER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from uuid import UUID
    from substrate import Runtime, Settings
    url, home, agent, house, shared = sys.argv[1:]
    with Runtime.open("desk", app_url=url, settings=Settings(home=Path(home), embedder="none"), follow=False) as desk:
        kate = desk.trusted_agent(UUID(agent), UUID(house))
        run = kate.run("doomed", shared=shared == "True")
        print(run.id, flush=True)
        number = 0
        while True:
            number += 1
            run.step(f"step {number}")
            if number % 500 == 0:
                run.failure("a checkpoint")     # written at once, with all before it
                number += 1
                print(number, flush=True)
    """
)


@WHERE
def test_a_killed_process_leaves_what_was_written_without_holes(
    database: DatabaseUrls, house: House, tmp_path: Path, shared: bool
) -> None:
    arguments = [database.app, str(tmp_path), str(house.kate.id), str(house.kate.house), str(shared)]
    process = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    run = UUID(process.stdout.readline().strip())
    acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    process.stdout.close()
    process.wait()
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        numbers = [
            one.number
            for after in range(0, kate.run_tree(run).run.events, 1_000)
            for one in kate.run_events(run, after=after)
        ]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= acknowledged + 1  # the steps, and that it started
        assert kate.run_tree(run).run.status == "running"  # lost after a minute of silence: see test_runs
        assert kate.run_tree(run).run.finished_at is None


def test_while_the_database_is_away_the_work_goes_on_and_is_told_later(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = shared_runs.SharedRuns.write

    def away(*_: object) -> list[shared_runs.Refused]:
        raise ServerUnavailable("the database went away; ask again")

    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        monkeypatch.setattr(shared_runs.SharedRuns, "write", away)
        with kate.run("in the dark", shared=True) as run:
            run.step("one")
            run.failure("two")
        assert desk.run_log.waiting == 4
        assert kate.runs().runs == []
        monkeypatch.setattr(shared_runs.SharedRuns, "write", write)
        assert [one.text for one in kate.run_events(run.id)] == [None, "one", "two", None]
        assert desk.run_log.waiting == 0


@pytest.mark.world
def test_what_is_sent_twice_because_its_answer_was_lost_is_there_once(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = shared_runs.SharedRuns.write
    lost: list[list[shared_runs.Refused]] = []

    def answer_lost(self: shared_runs.SharedRuns, changes: list[RunChange]) -> list[shared_runs.Refused]:
        found = write(self, changes)
        if len(lost) < 3:
            lost.append(found)
            raise ServerUnavailable("the answer was lost")
        return found

    monkeypatch.setattr(shared_runs.SharedRuns, "write", answer_lost)
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        with kate.run("twice", shared=True) as run:
            run.step("one")
            run.step("two")
        events = kate.run_events(run.id)
    assert len(lost) == 3
    assert [(one.number, one.text) for one in events] == [(1, None), (2, "one"), (3, "two"), (4, None)]


@WHERE
def test_who_tells_too_much_loses_steps_and_is_told_so(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(run_log, "MOST", 5)
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        with kate.run("chatty", shared=shared) as run, desk.run_log._writing:
            for number in range(9):
                run.step(f"{number}")
        events = kate.run_events(run.id)
        assert [one.number for one in events] == list(range(1, 8))
        assert [one.text for one in events[1:-1]] == ["0", "1", "2", "3", "4"]
        assert events[-1].data == {"steps_lost": 4}
        assert desk.run_log.lost == 4


def test_a_runtime_that_closes_writes_what_waits(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        runs = [hosted(desk, house.kate).run("open", shared=shared) for shared in (False, True)]
        for run in runs:
            run.step("the last word")
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        assert [kate.run_events(run.id)[-1].text for run in runs] == ["the last word"] * 2
