"""The demo comes as it should, anywhere, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.shell import PROGRAM

TITLES = [
    "A house with two runtimes", "One learns", "The other recalls", "Private stays private", "How do we know?",
    "From one to all, with a yes", "An index is lost", "Be rid of text, and check the rest",
]  # fmt: skip


def test_the_demo_holds_in_every_scene_and_leaves_nothing_of_itself_nor_touches_what_is_there(tmp_path: Path) -> None:
    # Not below pytest's folder, which the account of root's server cannot enter.
    before = {path.name for path in Path(os.environ.get("TMPDIR", "/tmp")).glob("substrate-demo-*")}
    surroundings = {
        **os.environ,
        "SUBSTRATE_HOME": str(tmp_path / "home"),
        # It would not get far if it took these for its own.
        "SUBSTRATE_DATABASE_URL": "postgresql://nobody@localhost:1/nothing",
        "SUBSTRATE_TOKEN": "sub_nobodys",
        "SUBSTRATE_EMBEDDER": "nothing-of-this-name",
    }
    done = subprocess.run([*PROGRAM, "demo", "--json"], capture_output=True, text=True, env=surroundings, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [scene["title"] for scene in told["scenes"]] == TITLES
    assert [scene["title"] for scene in told["scenes"] if not scene["holds"]] == []
    assert told["ok"] is True
    assert not (tmp_path / "home").exists()
    assert {path.name for path in Path(os.environ.get("TMPDIR", "/tmp")).glob("substrate-demo-*")} <= before
