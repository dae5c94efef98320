"""Working memory as the tests fill it: something of one agent's in every table, and a secret in most."""

from __future__ import annotations

import base64
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import SecretStr

from substrate.runtime.working import WorkingMemory
from substrate.runtime.working.file import TABLES
from substrate.runtime.working.memory import WaitingSignal
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.ids import new_id
from substrate.world.replica import Signal

ROOT = Path(__file__).parents[1]
SECRET = "the cellar key hangs behind the green door"
HOUSE = uuid4()
KATE, LEO = Credential(uuid4(), HOUSE), Credential(uuid4(), HOUSE)
KEY = SecretStr(base64.b64encode(bytes(32)).decode())


@contextmanager
def working(folder: Path, **settings: Any) -> Iterator[WorkingMemory]:
    """The working memory of a runtime whose folder is `desk`, with a key."""
    made = WorkingMemory(folder / "desk", Settings(**{"working_key": KEY, **settings}))
    try:
        yield made
    finally:
        made.close()


def waiting(who: Credential = KATE, query: str = SECRET) -> WaitingSignal:
    ident = new_id()
    return WaitingSignal(ident, who, Signal(uuid4(), query, 0.5, 1, datetime.now(UTC), ident))


def fill(memory: WorkingMemory) -> None:
    """Something in every table."""
    mine = memory.of(KATE)
    mine.move("reader", 7, b"hash")
    mine.seen("message 1", "1h")
    mine.put_turns("session", {1: {"text": SECRET}, 2: {"text": "hm"}})
    mine.keep_token("mail", SECRET, "1h")
    mine.put("value", {"says": SECRET}, "1h")
    memory.keep_signals([waiting()])


def held(memory: WorkingMemory) -> dict[str, bool]:
    """For each table whether what `fill` put there is there."""
    mine, token = memory.of(KATE), memory.of(KATE).token("mail")
    return {
        "offsets": mine.offset("reader") == (7, b"hash"),
        "seen": mine.seen("message 1", "1h"),
        "recent": mine.recent("session") == {1: {"text": SECRET}, 2: {"text": "hm"}},
        "tokens": token is not None and token.get_secret_value() == SECRET,
        "kept": mine.get("value") == {"says": SECRET},
        "signals": [one.signal.query for one in memory.signals(HOUSE, 10)] == [SECRET],
    }


def whole(memory: WorkingMemory) -> bool:
    found = held(memory)
    assert set(found) == set(TABLES)
    return all(found.values())


def python(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
