"""Markdown cut into thoughts."""

from __future__ import annotations

import textwrap
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from substrate.doors.importing.items import Record, Refusal
from substrate.doors.importing.markdown import MarkdownNotes
from substrate.doors.importing.markdown_blocks import blocks

PAGE = textwrap.dedent(
    """\
    # House

    Nobody shouts here.
    Not even Leo.

    <!-- a remark
    over two lines -->
    ## Kitchen

    - **Tea**: green, in the
      left cupboard
      - and black for guests
    - [ ] buy sugar
    - **Never** touch the stove

    Bread
    -----
    1. Knead it.

       Wait an hour.
    2. Bake it.
    ```sh
    # no heading
    - no point
    ```
    """
)


def cut(text: str) -> list[tuple[int, str, str, str | None]]:
    return [(one.line, " > ".join(one.headings), one.text, one.lead) for one in blocks(text)]


def test_points_and_paragraphs_stand_under_their_headings() -> None:
    assert cut(PAGE) == [
        (3, "House", "Nobody shouts here.\nNot even Leo.", None),
        (10, "House > Kitchen", "**Tea**: green, in the\nleft cupboard\n- and black for guests", "Tea"),
        (13, "House > Kitchen", "buy sugar", None),
        (14, "House > Kitchen", "**Never** touch the stove", None),
        (18, "House > Bread", "Knead it.\n\nWait an hour.", None),
        (21, "House > Bread", "Bake it.\n```sh\n# no heading\n- no point\n```", None),
    ]


@given(st.text(alphabet="#-*` \n\t>ab:_=<!0.)[]", max_size=200))
def test_any_text_is_cut_and_no_word_of_it_is_lost_or_doubled(text: str) -> None:
    found = list(blocks(text.replace("<!--", "")))
    assert all(one.text.strip() for one in found)
    lines = text.count("\n") + 1
    assert all(1 <= one.line <= lines for one in found)
    assert sum(one.text.count("a") for one in found) <= text.count("a")


def records(path: Path) -> list[Record]:
    return [one for one in MarkdownNotes(path).items() if isinstance(one, Record)]


def test_what_is_bold_names_a_point_and_the_rest_is_known_by_its_text(tmp_path: Path) -> None:
    note = tmp_path / "MEMORY.md"
    note.write_text("# Rules\n- **Deploys**: on Monday\n- be kind\n- be kind\n")
    before = records(note)
    note.write_text("# Rules\n\n- be kind\n- **Deploys**: on Friday\n- be kinder\n")
    after = records(note)
    assert len(before) == 2
    assert {one.identity for one in before} < {one.identity for one in after}
    assert len(after) == 3


def test_front_matter_gives_time_and_tags(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("---\ndate: 2026-03-01\ntags: [home, keys]\n---\n# Key\nIt is under the pot.\n")
    (record,) = records(note)
    (version,) = record.versions
    assert version.at.isoformat() == "2026-03-01T00:00:00+00:00"
    assert version.fields == {
        "content": "It is under the pot.", "title": "Key", "description": "note.md › Key", "tags": ("home", "keys")
    }  # fmt: skip
    assert record.place == "note.md, line 6"


def test_a_folder_is_read_through_and_links_and_hidden_folders_are_not(tmp_path: Path) -> None:
    for name, text in (("a.md", "one"), ("deep/b.md", "two"), (".git/c.md", "no"), ("notes.txt", "no")):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(text)
    (tmp_path / "secret.md").write_text("not below")
    (tmp_path / "notes" / "link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "notes" / "loop").symlink_to(tmp_path / "notes")
    (tmp_path / "notes" / "bad.md").write_bytes(b"\xff\xfe")
    source = MarkdownNotes(tmp_path / "notes")
    found = list(source.items())
    texts = [one.versions[0].fields for one in found if isinstance(one, Record)]
    assert [fields and fields["content"] for fields in texts] == ["one", "two"]
    assert {one.place for one in found if isinstance(one, Refusal)} == {"link.md", "bad.md"}
    assert source.left == {"other files": 1}
    assert source.name == "notes"
