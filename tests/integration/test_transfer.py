"""A house moved by file: what comes in is what went out, verified before and after, or nothing at all."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from substrate.errors import Conflict, InvalidInput, NotAuthenticated, NotFound, VerificationFailed
from substrate.world import canonical, transfer
from substrate.world.ids import new_id
from substrate.world.replay import TABLES
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.furnished import Furnished, furnish
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def here(fresh_database: FreshDatabase) -> Iterator[tuple[DatabaseUrls, World, Furnished]]:
    with fresh_database() as urls, World.open(app_url=urls.app, owner_url=urls.owner) as world:
        home = furnish(world)
        home.owner.remember("a last word")
        yield urls, world, home


@pytest.fixture
def there(database: DatabaseUrls, world: World) -> tuple[DatabaseUrls, World]:
    return database, world


def dump(urls: DatabaseUrls, house: UUID) -> dict[str, list[Any]]:
    """Every row of a house as it is stored, without what is never exported."""
    with psycopg.connect(urls.superuser, options="-c search_path=substrate") as superuser:
        return {
            table: superuser.execute(
                sql.SQL("SELECT to_jsonb(t) - 'hash' FROM {} t WHERE house_id = %s ORDER BY 1").format(
                    sql.Identifier(table)
                ),
                (house,),
            ).fetchall()
            for table in TABLES
        }


def counts(urls: DatabaseUrls) -> dict[str, Any]:
    with psycopg.connect(urls.superuser, options="-c search_path=substrate") as superuser:
        return {
            table: superuser.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
            for table in (*TABLES, "events", "stream_head")
        }


def test_a_full_backup_comes_back_row_for_row(
    here: tuple[DatabaseUrls, World, Furnished], there: tuple[DatabaseUrls, World], tmp_path: Path
) -> None:
    (urls, world, home), (other_urls, other) = here, there
    told: list[tuple[int, int]] = []
    exported = world.operator().export_house(home.house, tmp_path / "home.jsonl")
    report = other.import_house(tmp_path / "home.jsonl", on_progress=lambda done, total: told.append((done, total)))
    assert exported.withheld == 0
    assert report.withheld == ()
    assert report.imported.seq == exported.events == told[-1][0] == told[-1][1]
    assert report.verified.ok
    assert dump(other_urls, home.house) == dump(urls, home.house)
    other.operator().verify(home.house).require()


def test_a_file_is_for_its_owner_alone(here: tuple[DatabaseUrls, World, Furnished], tmp_path: Path) -> None:
    _, world, home = here
    world.operator().export_house(home.house, tmp_path / "home.jsonl")
    assert stat.S_IMODE((tmp_path / "home.jsonl").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["home.jsonl"]


def test_an_owner_takes_along_what_it_may_read_and_the_rest_without_its_text(
    here: tuple[DatabaseUrls, World, Furnished], there: tuple[DatabaseUrls, World], tmp_path: Path
) -> None:
    (_, _, home), (_, other) = here, there
    path = tmp_path / "home.jsonl"
    exported = home.owner.export_house(path)
    text = path.read_text()
    assert exported.withheld > 0
    assert "diary" not in text
    assert "to be erased" not in text
    assert "two cats" in text
    report = other.import_house(path)
    assert sum(high - low + 1 for low, high in report.withheld) == exported.withheld
    ana, kate = (other.agent(other.operator().issue_token(home.house, one.id)) for one in (home.owner, home.kate))
    assert ana.get(home.better).content == "the house has two cats"
    assert kate.get(home.secret).content is None
    # Life goes on, and the next move knows what was missing before.
    kate.revise(home.secret, content="a new page")
    other.operator().verify(home.house).require()


def test_what_was_withheld_once_may_be_missing_in_the_next_copy_too(
    here: tuple[DatabaseUrls, World, Furnished], there: tuple[DatabaseUrls, World], tmp_path: Path,
    fresh_database: FreshDatabase,
) -> None:  # fmt: skip
    (_, _, home), (_, other) = here, there
    home.owner.export_house(tmp_path / "first.jsonl")
    other.import_house(tmp_path / "first.jsonl")
    other.operator().export_house(home.house, tmp_path / "second.jsonl")
    with fresh_database() as urls, World.open(app_url=urls.app) as third:
        assert third.import_house(tmp_path / "second.jsonl").withheld == ()
        third.operator().verify(home.house).require()


def test_imported_tokens_open_nothing_until_the_operator_hands_the_house_back(
    here: tuple[DatabaseUrls, World, Furnished], there: tuple[DatabaseUrls, World], tmp_path: Path
) -> None:
    (_, world, home), (_, other) = here, there
    world.operator().export_house(home.house, tmp_path / "home.jsonl")
    other.import_house(tmp_path / "home.jsonl")
    with pytest.raises(NotAuthenticated):
        other.agent(home.owner_token)
    owner = next(one for one in other.operator().agents(home.house) if one.owner)
    ana = other.agent(other.operator().issue_token(home.house, owner.id))
    receipt = ana.remember("at home again", scope="house")
    assert ana.get(receipt.memory).content == "at home again"
    assert ana.verify().ok
    with pytest.raises(NotFound):
        other.operator().issue_token(home.house, new_id())


def test_only_who_holds_x_on_the_house_may_export_it(
    here: tuple[DatabaseUrls, World, Furnished], tmp_path: Path
) -> None:
    _, world, home = here
    with pytest.raises(NotFound):
        home.kate.export_house(tmp_path / "home.jsonl")
    with pytest.raises(NotFound):
        world.operator().export_house(new_id(), tmp_path / "home.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_full_backup_needs_the_owner_of_the_tables(
    here: tuple[DatabaseUrls, World, Furnished], tmp_path: Path
) -> None:
    urls, _, home = here
    with World.open(app_url=urls.app) as plain, pytest.raises(InvalidInput, match="SUBSTRATE_OWNER_URL"):
        plain.operator().export_house(home.house, tmp_path / "home.jsonl")


def test_a_house_that_is_already_here_is_refused(here: tuple[DatabaseUrls, World, Furnished], tmp_path: Path) -> None:
    urls, world, home = here
    world.operator().export_house(home.house, tmp_path / "home.jsonl")
    before = counts(urls)
    with pytest.raises(Conflict, match="already here"):
        world.import_house(tmp_path / "home.jsonl")
    assert counts(urls) == before


# ---------------------------------------------------------------- a file that is not what it was


@pytest.fixture
def lines(here: tuple[DatabaseUrls, World, Furnished], tmp_path: Path) -> Lines:
    _, world, home = here
    world.operator().export_house(home.house, tmp_path / "home.jsonl")
    return parsed((tmp_path / "home.jsonl").read_text())


def parsed(text: str) -> Lines:
    # Not splitlines, which also splits at characters that may stand within a text.
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def refused(there: tuple[DatabaseUrls, World], path: Path, match: str) -> None:
    urls, other = there
    before = counts(urls)
    with pytest.raises(VerificationFailed, match=match):
        other.import_house(path)
    assert counts(urls) == before


def written(path: Path, lines: Lines) -> Path:
    path.write_text("".join(canonical.canonical(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actor_id", "00000000-0000-0000-0000-000000000001"), ("body", '{"content":"another"}'), ("salt", "00" * 16),
        ("commitment", "00" * 32), ("data", "{}"), ("recorded_at", "2020-01-01T00:00:00+00:00"), ("hash", "00" * 32),
        ("prev_hash", "00" * 32), ("type", "MemoryForgotten"), ("session_id", "s-9"), ("seq", 99), ("version", 7),
        ("body", None), ("event_id", "x"), ("occurred_at", "yesterday"), ("occurred_at", "2020-01-01T00:00:00"),
        ("schema_version", 2), ("seq", None), ("salt", 5), ("data", 5), ("type", None),
    ],
)  # fmt: skip
def test_a_changed_field_is_refused_with_its_line(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path, field: str, value: object
) -> None:
    number = next(n for n, line in enumerate(lines, 1) if line.get("type") == "MemoryReinforced")
    lines[number - 1][field] = value
    refused(there, written(tmp_path / "changed.jsonl", lines), rf"\bline {number}\b")


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_changed_byte_is_refused_with_its_line(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path, place: float
) -> None:
    path = tmp_path / "home.jsonl"
    raw = bytearray(path.read_bytes())
    at = raw.index(b'"hash":"', int(len(raw) * place)) + 10
    raw[at] = ord("0") if raw[at] != ord("0") else ord("1")
    path.write_bytes(raw)
    number = raw[:at].count(10) + 1  # line feeds before it
    refused(there, path, rf"\bline {number}\b")


def test_a_line_that_is_missing_doubled_or_moved_is_refused(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "changed.jsonl"
    refused(there, written(path, lines[:9] + lines[10:]), r"line 10: missing")
    refused(there, written(path, [*lines[:10], lines[9], *lines[10:]]), "order")
    refused(there, written(path, [*lines[:9], lines[10], lines[9], *lines[11:]]), "line")


def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl"
    refused(there, written(path, lines[:-1]), "it was cut")
    refused(there, written(path, lines[:1]), "it was cut")
    refused(there, written(path, []), "it was cut")
    refused(there, written(path, [*lines[:-2], lines[-1]]), "the last line tells of")
    raw = (tmp_path / "home.jsonl").read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(there, path, "cut in its middle")
    refused(there, written(path, [*lines, lines[-1]]), "after the end")


def test_a_changed_header_is_refused(there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "changed.jsonl"
    for change, match in (
        ({"format": "other"}, "line 1: this is not"), ({"version": 2}, "line 1: format version 2"),
        ({"house": "x"}, "line 1: it names no house"), ({"exported_at": "never"}, "another digest"),
    ):  # fmt: skip
        refused(there, written(path, [{**lines[0], **change}, *lines[1:]]), match)


def test_text_that_outlived_its_erasure_is_not_let_in(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path, here: tuple[DatabaseUrls, World, Furnished]
) -> None:
    number = next(n for n, line in enumerate(lines, 1) if line.get("subject_id") == str(here[2].erased))
    lines[number - 1] |= {"body": "{}", "salt": "00"}
    refused(there, written(tmp_path / "changed.jsonl", lines), f"line {number}: text_kept")


def rechained(lines: Lines) -> Lines:
    """The file of somebody who computes every hash anew: as a file it is good."""
    import hashlib
    from datetime import datetime

    house, prev = lines[0]["house"], canonical.GENESIS
    for line in lines[1:-1]:
        if line["body"] is not None:
            line["commitment"] = canonical.commitment(bytes.fromhex(line["salt"]), line["body"]).hex()
        times = {name: datetime.fromisoformat(line[name]) for name in ("occurred_at", "recorded_at")}
        line["prev_hash"] = prev.hex()
        prev = canonical.event_hash(prev, {"house_id": house, **line, **times}, bytes.fromhex(line["commitment"]))
        line["hash"] = prev.hex()
    whole = "".join(canonical.canonical(line) + "\n" for line in lines[:-1]).encode()
    lines[-1] = {"events": len(lines) - 2, "hash": prev.hex(), "sha256": hashlib.sha256(whole).hexdigest()}
    return lines


def test_a_forged_file_cannot_reach_into_another_house(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    """A grant on a scope that the file's house does not have would open that of somebody else."""
    victim = furnish(there[1], "the victim")
    number = next(n for n, line in enumerate(lines, 1) if line.get("type") == "GrantChanged")
    lines[number - 1] |= {"subject_id": str(victim.kate.id)}
    refused(there, written(tmp_path / "forged.jsonl", rechained(lines)), f"line {number}: replay: .* does not have")


def test_a_forged_file_cannot_make_a_circle_of_scopes(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    number = next(n for n, line in enumerate(lines, 1) if line.get("type") == "ScopeMoved")
    moved = lines[number - 1]
    moved["data"] = json.dumps({"parent": moved["subject_id"]})
    refused(there, written(tmp_path / "forged.jsonl", rechained(lines)), f"line {number}: replay: .* below itself")


def test_a_file_whose_hashes_were_all_computed_anew_is_let_in(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    """The null control of the forgeries above: only a seal could tell this one."""
    there[1].import_house(written(tmp_path / "again.jsonl", rechained(lines)))


def test_a_failure_at_the_very_end_leaves_nothing(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls, other = there
    before = counts(urls)

    def fail(*_: object) -> None:
        raise RuntimeError("the power went out")

    monkeypatch.setattr(transfer, "_say_so", fail)
    with pytest.raises(RuntimeError, match="power"):
        other.import_house(tmp_path / "home.jsonl")
    assert counts(urls) == before


def test_ids_that_another_house_has_are_refused(
    there: tuple[DatabaseUrls, World], lines: Lines, tmp_path: Path
) -> None:
    """The same house under another id: its scopes and memories are here already."""
    urls, other = there
    other.import_house(tmp_path / "home.jsonl")
    before = counts(urls)
    text = (tmp_path / "home.jsonl").read_text().replace(lines[0]["house"], str(new_id()))
    copy = rechained(parsed(text))
    with pytest.raises(Conflict):
        other.import_house(written(tmp_path / "copy.jsonl", copy))
    assert counts(urls) == before


def test_a_file_that_is_not_there_is_an_input_error(world: World, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        world.import_house(tmp_path / "nothing.jsonl")
