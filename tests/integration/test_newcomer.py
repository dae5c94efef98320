"""docs/start.md, followed to the letter: its commands in one shell, on a machine where nothing runs yet."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.doors.cli.background import Background
from tests.servers import reap, reaper

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def home() -> Iterator[Path]:
    # Directly below the temporary folder: the account that the server runs as must be able to enter.
    found = Path(tempfile.gettempdir()) / f"substrate-test-{secrets.token_hex(6)}"
    with reaper(found):
        yield found
        reap(found)


def test_the_commands_of_the_first_page_run_in_order_and_find_what_was_remembered(home: Path, tmp_path: Path) -> None:
    here = {name: value for name, value in os.environ.items() if not name.startswith("SUBSTRATE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{here['PATH']}"
    # What `make` does besides is to install; which was done, or there were no tests.
    script = "\n".join(f"echo '== {number}'\n{block}" for number, block in enumerate(BLOCKS)).replace(
        "make ", "substrate "
    )
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**here, "PATH": path, "SUBSTRATE_HOME": str(home), "SUBSTRATE_HTTP_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    said = done.stdout
    assert "kate remembered and proposed it: True" in said
    assert "bob recalls Deploys wait until two people have approved" in said
    assert said.count("1. The build server is called otter") == 2, "before and after the rebuild"
    assert "it verifies" in said
    assert '"content":"The build server is called otter"' in said.replace('": "', '":"')
    assert "sub_" not in said + done.stderr, "a token was printed that nobody asked for"
    assert Background(home).status().state == "stopped"


def test_make_up_and_down_are_these_commands() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^up: .*\n\t@\$\(BIN\)/substrate up$", makefile, flags=re.MULTILINE)
    assert re.search(r"^down: .*\n\t@\$\(BIN\)/substrate down$", makefile, flags=re.MULTILINE)
