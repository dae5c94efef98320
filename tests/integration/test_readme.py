"""The README tells the truth: its Python runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.servers import DatabaseUrls

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_of_the_readme_runs_and_prints_what_was_recalled_and_its_history(
    database: DatabaseUrls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SUBSTRATE_DATABASE_URL", database.app)
    monkeypatch.setenv("SUBSTRATE_OWNER_URL", database.owner)
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path))
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {})
    recalled, learned, revised = capsys.readouterr().out.splitlines()
    assert recalled == "Indent with four spaces house ()"
    assert "MemoryLearned no tabs, please" in learned
    assert "MemoryRevised" in revised
    assert "Indent with four spaces" in revised


def test_the_commands_of_the_readme_run_as_they_stand(
    database: DatabaseUrls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from substrate.doors.cli import app

    monkeypatch.setenv("SUBSTRATE_DATABASE_URL", database.app)
    monkeypatch.setenv("SUBSTRATE_OWNER_URL", database.owner)
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path))
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("substrate ")]
    assert len(commands) >= 5
    learned = ""
    for command in commands:
        arguments = shlex.split(command.replace("<memory id>", learned))[1:]
        answer = CliRunner().invoke(app, arguments)
        assert answer.exit_code == 0, f"{command}: {answer.output}"
        if found := re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", answer.output):
            learned = found.group()


def test_every_file_the_readme_links_to_is_there() -> None:
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in target]
    assert linked
    assert [target for target in linked if not (ROOT / target).exists()] == []
