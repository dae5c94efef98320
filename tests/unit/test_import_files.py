"""Files that are cut short, foreign or hostile: a clear error, or a refusal by place; never a hang, and nothing quoted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from substrate.doors.importing import files
from substrate.doors.importing.formats import detected, open_source
from substrate.doors.importing.items import Item, Record, Refusal
from substrate.doors.importing.sqlite_file import SqliteFile
from substrate.errors import InvalidInput
from tests.sources import AGENTS, GROUPS, MEM0, change, document, entity, jsonl, sqlite


def read(path: Path, source_format: str | None = None) -> list[Item]:
    source = open_source(path, source_format)
    try:
        return list(source.items())
    finally:
        source.close()


def texts(items: list[Item]) -> list[str]:
    return [one.versions[0].fields["content"] for one in items if isinstance(one, Record) and one.versions[0].fields]


def saved(key: str, content: object) -> dict[str, object]:
    return {"id": key, "group_folder": "main", "key": key, "content": content, "created_at": "2026-01-01",
            "updated_at": "2026-01-01"}  # fmt: skip


def test_a_format_is_known_by_its_look(tmp_path: Path) -> None:
    assert detected(jsonl(tmp_path / "memory.jsonl", entity("a", "b"))) == "graph"
    assert detected(document(tmp_path / "all.json", [])) == "mem0"
    assert detected(sqlite(tmp_path / "history.db", MEM0)) == "mem0"
    assert detected(sqlite(tmp_path / "a.db", AGENTS)) == "agent-db"
    assert detected(sqlite(tmp_path / "g.db", GROUPS)) == "group-db"
    assert detected(tmp_path) == "markdown"


@pytest.mark.parametrize(
    ("name", "content"), [("photo.jpg", b"\xff\xd8\xff\xe0"), ("empty", b""), ("text.txt", b"just words")]
)
def test_a_foreign_file_is_none_of_them(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=f"{name}: it looks like none of"):
        open_source(tmp_path / name)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "nothing", Path("a\x00b")):
        with pytest.raises(InvalidInput):
            open_source(path, "mem0")
    with pytest.raises(InvalidInput, match="folder"):
        open_source(tmp_path, "mem0")


@pytest.mark.parametrize("text", ['{"results": [{"id": "1", "mem', "[" * 100_000, '{"results": 5}', "null", ""])
def test_a_document_that_is_no_answer_of_mem0_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"bad\.json: "):
        open_source(tmp_path / "bad.json", "mem0")


def test_lines_too_long_or_not_text_are_refused_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1_000)
    path = tmp_path / "memory.jsonl"
    good = b'{"type": "entity", "name": "Kate"}\n'
    path.write_bytes(
        good + b"x" * 5_000 + b"\n" + b"\xff\xfe\n" + b"\n" + b'"a\x00b"\n' + good.replace(b"Kate", b"Leo")
    )
    found = read(path, "graph")
    assert [one.place for one in found if isinstance(one, Refusal)] == ["line 2", "line 3", "line 5"]
    assert [one.name for one in found if not isinstance(one, Refusal)] == ["Kate", "Leo"]  # type: ignore[union-attr]


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6_000])


def scrambled(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4_096:] = bytes(byte ^ 0x5A for byte in whole[4_096:])
    path.write_bytes(whole)


def only_a_head(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:16])


@pytest.mark.parametrize("harm", [cut_short, scrambled, only_a_head])
def test_a_damaged_database_is_an_error_before_anything_is_taken_from_it(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = sqlite(tmp_path / "g.db", GROUPS, memories=[saved(f"k{n}", "text " * 50) for n in range(200)])
    harm(path)
    with pytest.raises(InvalidInput, match=r"g\.db: SQLite cannot read it"):
        read(path, "group-db")


def test_a_database_with_other_tables_says_what_is_missing(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "other.db", "CREATE TABLE songs (name)")
    for source_format in ("mem0", "agent-db", "group-db"):
        with pytest.raises(InvalidInput, match="it has no table"):
            open_source(path, source_format)
    with pytest.raises(InvalidInput, match="not with the tables"):
        open_source(path)


def test_a_view_in_the_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "trap.db", """
        CREATE VIEW memories(group_folder, key, content) AS
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x, x FROM n
    """)  # fmt: skip
    with pytest.raises(InvalidInput, match="not with the tables"):
        open_source(path)


def test_a_bad_value_spoils_its_own_row_only(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "g.db", GROUPS, memories=[
        saved("a", "good"), saved("b", b"\xff\xfe"), saved("c", "a\x00b"), saved("e", "  "), saved("f", "too"),
        {**saved("g", "when?"), "created_at": "9" * 30},
    ])  # fmt: skip
    db = apsw.Connection(str(path))
    db.execute("UPDATE memories SET content = CAST(x'c328' AS TEXT) WHERE key = 'a'")
    db.close()
    found = read(path)
    assert texts(found) == ["too"]
    assert [one.place for one in found if isinstance(one, Refusal)] == [f"memories, row {name!r}" for name in "abceg"]
    assert "UTF" not in str(found)


def test_a_database_in_utf_16_is_read_as_well(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "g.db", "PRAGMA encoding = 'UTF-16le';" + GROUPS, memories=[saved("a", "Grüße, 猫")])
    assert texts(read(path)) == ["Grüße, 猫"]


def test_what_is_still_in_the_log_is_seen_and_the_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "g.db", "PRAGMA journal_mode = wal;" + GROUPS)
    writer = apsw.Connection(str(path))
    writer.execute(
        "INSERT INTO memories VALUES ('1', 'main', 'k', 'from the log', 'core', NULL, '2026-01-01', '2026-01-01')"
    )
    before = path.read_bytes()
    assert texts(read(path)) == ["from the log"]
    assert path.read_bytes() == before
    writer.close()


def test_nothing_is_created_beside_a_file(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "h.db", "PRAGMA journal_mode = wal;" + MEM0, history=[change(1, "m", "ADD", None, "x")])
    assert texts(read(path)) == ["x"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["h.db"]


@pytest.mark.parametrize("spaces", [" ", "  ", " /* */ "])
def test_a_virtual_table_is_none_however_its_file_spells_it(tmp_path: Path, spaces: str) -> None:
    path = tmp_path / "hostile.db"
    made = apsw.Connection(str(path))
    made.execute(
        "CREATE VIRTUAL TABLE memories USING fts5 (id, agent_id, content, created_at); CREATE TABLE plain (id)"
    )
    made.execute("PRAGMA writable_schema = on")
    made.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'CREATE ', ?) WHERE name = 'memories'", (f"CREATE{spaces}",)
    )
    made.close()
    file = SqliteFile(path)
    try:
        assert set(file.tables) == {"plain"}
    finally:
        file.close()
