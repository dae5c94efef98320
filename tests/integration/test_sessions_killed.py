"""kill -9 of a process that converses: what was acknowledged is there, once, without a hole, and is offered once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg

from substrate.runtime.agent import HostedAgent
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

ROOT = Path(__file__).parent.parent.parent
#: Says something, again and again, and says which turn it was once it is told.
CHATTERBOX = """
import sys
from pathlib import Path
from uuid import UUID
from substrate import Runtime, Settings

app, home, agent, house = sys.argv[1:]
settings = Settings(home=Path(home), embedder="none", max_history_turns=5)
with Runtime.open("chatter", app_url=app, settings=settings, follow=False) as runtime:
    session = runtime.trusted_agent(UUID(agent), UUID(house)).session("abc")
    while True:
        print(session.add_turn("user", "x").number, flush=True)
"""


def acknowledged_before_the_kill(database: DatabaseUrls, home: Path, agent: HostedAgent, after: int) -> list[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHATTERBOX, database.app, str(home), str(agent.id), str(agent.house)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    with process, process.stdout as said:
        heard = [int(said.readline()) for _ in range(after)]
        process.kill()
        return heard + [int(line) for line in said if line.endswith("\n")]


def test_what_was_acknowledged_before_a_kill_is_there_once_and_offered_once(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "desk", max_history_turns=5) as opened:
        kate = hosted(opened, house.kate)
        heard: list[int] = []
        for after in (1, 17, 40):
            heard += acknowledged_before_the_kill(database, tmp_path / "chatter", kate, after)
        session = kate.session("abc")
        numbers = [turn.number for turn in session.everything()]
        assert heard == sorted(set(heard))
        assert set(heard) <= set(numbers)
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) - len(heard) <= 3  # at most the one that each kill caught on its way
        session.close()
        with psycopg.connect(database.superuser) as connection:
            offered = connection.execute(
                "SELECT generate_series(first_turn, last_turn) FROM substrate.extraction_offers ORDER BY 1"
            ).fetchall()
        assert [turn for (turn,) in offered] == numbers
