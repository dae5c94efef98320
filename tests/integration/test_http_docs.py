"""What docs/http.md has to be typed into a shell works as it says; its Python is run by `test_docs`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from substrate.doors.http.app import document
from tests.served import TIMEOUT, Served

PAGE = (Path(__file__).parent.parent.parent / "docs" / "http.md").read_text(encoding="utf-8")
BLOCKS = [block for block in re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL) if "curl" in block]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_what_is_typed_into_a_shell_answers_what_the_page_says(server: Served, block: str) -> None:
    environment = {**os.environ, "URL": server.url, "TOKEN": server.kate, "NO_PROXY": "*"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], env=environment, capture_output=True, text=True, timeout=TIMEOUT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"^# -> (.*)$", block, flags=re.MULTILINE):
        assert expected in done.stdout


def test_every_noun_of_the_api_is_on_the_page() -> None:
    nouns = {path.split("/")[2] for path in document()["paths"] if path.startswith("/v1/")}
    assert {noun for noun in nouns if f"/v1/{noun}" not in PAGE} == set()
