"""The pages in docs/ tell the truth: their Python runs, page by page, and their links lead somewhere.

A page's Python blocks are one program, run in order. A line that ends in `# -> text` prints that text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.servers import DatabaseUrls

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_and_prints_what_it_says(
    page: Path,
    database: DatabaseUrls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SUBSTRATE_DATABASE_URL", database.app)
    monkeypatch.setenv("SUBSTRATE_OWNER_URL", database.owner)
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    program = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    exec(compile(program, page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.splitlines() == re.findall(r"# -> (.*)$", program, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_a_page_links_to_is_there(page: Path) -> None:
    linked = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [target for target in linked if "://" not in target and not (page.parent / target).exists()] == []
