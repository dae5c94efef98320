"""An import whose process is killed in the middle: brought again, it is complete, and nothing is doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from substrate.doors.importing import ImportReport, bring
from substrate.runtime.agent import HostedAgent
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.sources import MEM0, change, entity, jsonl, relation, sqlite

IMPORTER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from uuid import UUID
    from substrate import Runtime, Settings
    from substrate.doors.importing import bring
    url, home, agent, house, file = sys.argv[1:]
    with Runtime.open("desk", app_url=url, settings=Settings(home=Path(home), embedder="none"), follow=False) as desk:
        kate = desk.trusted_agent(UUID(agent), UUID(house))
        bring(kate, file, on_progress=lambda done, total: print(done, flush=True))
        print("done", flush=True)
    """
)
MEMORIES = 1_000


def history(path: Path) -> Path:
    first, later, last = (f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3))
    rows = []
    for number in range(MEMORIES):
        name = f"m{number:04}"
        rows.append(change(3 * number, name, "ADD", None, f"{name} one", created_at=first))
        rows.append(
            change(3 * number + 1, name, "UPDATE", f"{name} one", f"{name} two", created_at=first, updated_at=later)
        )
        if number % 2:
            rows.append(change(3 * number + 2, name, "DELETE", f"{name} two", None, created_at=first, updated_at=last))
    return sqlite(path, MEM0, history=rows)


def graph(path: Path) -> Path:
    people = [entity(f"p{number}", "person", f"is number {number}", "lives") for number in range(MEMORIES // 4)]
    return jsonl(path, *people, *(relation(f"p{n}", "knows", f"p{n + 1}") for n in range(len(people) - 1)))


def killed(arguments: list[str], after: int) -> None:
    """Bring it in with another process, and kill that after so many items."""
    process = subprocess.Popen([sys.executable, "-c", IMPORTER, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        assert line.strip() != "done"
        if int(line) >= after:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL


def told(agent: HostedAgent) -> list[tuple[str, int, str, str]]:
    """All memories of an agent with their versions, without their ids."""
    found, after = [], None
    while True:
        page = agent.list(status=None, limit=1_000, after=after)
        found += [(one.content or "", one.version, one.status, str(one.updated_at)) for one in page.memories]
        if (after := page.next) is None:
            return sorted(found)


@pytest.mark.parametrize("made", [history, graph])
def test_killed_in_the_middle_and_brought_again_it_is_complete_and_not_doubled(
    database: DatabaseUrls, house: House, tmp_path: Path, made: object
) -> None:
    file = made(tmp_path / "source")  # type: ignore[operator]
    arguments = [database.app, str(tmp_path / "home"), str(house.kate.id), str(house.kate.house), str(file)]
    with runtime(database, tmp_path / "home") as desk:
        kate, leo = hosted(desk, house.kate), hosted(desk, house.leo)
        killed(arguments, 200)
        part = len(told(kate))
        killed(arguments, 600)
        assert 0 < part < len(told(kate))
        clean = bring(leo, file)
        assert 0 < sum(bring(kate, file).brought.values()) < sum(clean.brought.values())
        assert told(kate) == told(leo)
        assert bring(kate, file).brought == {}
        assert house.owner.verify().ok


def test_two_who_bring_the_same_at_once_bring_it_once(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    file = graph(tmp_path / "source")
    with runtime(database, tmp_path / "home") as desk:
        kate, leo = hosted(desk, house.kate), hosted(desk, house.leo)
        reports: list[ImportReport] = []
        threads = [threading.Thread(target=lambda: reports.append(bring(kate, file))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bring(leo, file)
        assert told(kate) == told(leo)
        assert [one.refused for one in reports] == [0, 0]
