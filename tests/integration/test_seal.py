"""Seals: what catches a rewrite of everything, and a tail cut off together with its head."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from substrate.errors import InvalidInput, NotFound
from substrate.settings import Settings
from substrate.world import canonical
from substrate.world.ids import new_id
from substrate.world.seal import Seal, SealKey, key_path
from substrate.world.world import World
from tests.furnished import Furnished, furnish
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def sealing(database: DatabaseUrls, tmp_path: Path) -> Iterator[World]:
    with World.open(app_url=database.app, settings=Settings(home=tmp_path / "home")) as world:
        yield world


@pytest.fixture
def home(sealing: World) -> Furnished:
    return furnish(sealing)


def rewrite(database: DatabaseUrls, home: Furnished) -> None:
    """Change an early event and its record, then compute every hash anew: what only who owns the server can do."""
    with psycopg.connect(database.superuser, options="-c search_path=substrate", row_factory=dict_row) as superuser:
        text = '{"content":"the house has a dog","key":"cat"}'
        superuser.execute(
            "UPDATE events SET body = %s, commitment = sha256(salt || convert_to(%s, 'UTF8'))"
            " WHERE subject_id = %s AND type = 'MemoryLearned'",
            (text, text, home.shared),
        )
        superuser.execute("UPDATE memories SET content = 'the house has a dog' WHERE id = %s", (home.shared,))
        prev = canonical.GENESIS
        rows: list[dict[str, Any]] = superuser.execute(
            "SELECT * FROM events WHERE house_id = %s ORDER BY seq", (home.house,)
        ).fetchall()
        for row in rows:
            found = canonical.event_hash(prev, row, row["commitment"])
            superuser.execute(
                "UPDATE events SET prev_hash = %s, hash = %s WHERE house_id = %s AND seq = %s",
                (prev, found, home.house, row["seq"]),
            )
            prev = found
        superuser.execute("UPDATE stream_head SET hash = %s WHERE house_id = %s", (prev, home.house))


def cut(database: DatabaseUrls, home: Furnished, last: int) -> None:
    """Take the end off the stream, its records and its head."""
    with psycopg.connect(database.superuser, options="-c search_path=substrate") as superuser:
        gone = superuser.execute(
            "DELETE FROM events WHERE house_id = %s AND seq > %s RETURNING subject_id", (home.house, last)
        ).fetchall()
        superuser.execute("DELETE FROM memories WHERE id = ANY (%s)", ([row[0] for row in gone],))
        superuser.execute(
            "UPDATE stream_head h SET seq = e.seq, hash = e.hash, recorded_at = e.recorded_at FROM events e"
            " WHERE e.house_id = h.house_id AND h.house_id = %s AND e.seq = %s",
            (home.house, last),
        )


def test_a_house_fits_its_seals_however_much_it_grew_since(sealing: World, home: Furnished) -> None:
    operator = sealing.operator()
    seals = [operator.seal(home.house)]
    home.owner.remember("something new")
    seals.append(operator.seal(home.house))
    report = operator.verify(home.house, seals=seals)
    assert report.ok
    assert report.seals == 2
    assert home.owner.verify(seals=seals, trusted=seals[0].public_key).ok


def test_a_rewrite_of_everything_verifies_by_itself_and_not_against_a_seal(
    sealing: World, home: Furnished, database: DatabaseUrls
) -> None:
    operator = sealing.operator()
    seal = operator.seal(home.house)
    rewrite(database, home)
    assert operator.verify(home.house).ok  # the null control: without the seal nothing can tell
    (fault,) = operator.verify(home.house, seals=[seal]).faults
    assert (fault.position.seq if fault.position else None, fault.what) == (seal.seq, "seal")
    assert "rewritten" in fault.detail


def test_a_tail_cut_off_with_its_head_verifies_by_itself_and_not_against_a_seal(
    sealing: World, home: Furnished, database: DatabaseUrls
) -> None:
    operator = sealing.operator()
    last = operator.seal(home.house)
    for number in range(3):
        home.owner.remember(f"to be cut off {number}")
    seal = operator.seal(home.house)
    cut(database, home, last.seq)
    assert operator.verify(home.house, seals=[last]).ok
    (fault,) = operator.verify(home.house, seals=[last, seal]).faults
    assert (fault.position.seq if fault.position else None, fault.what) == (seal.seq, "seal")
    assert f"ends at {last.seq}" in fault.detail


def test_a_house_that_is_gone_altogether_is_missed_by_its_seal(
    sealing: World, home: Furnished, database: DatabaseUrls
) -> None:
    operator = sealing.operator()
    seal = operator.seal(home.house)
    with psycopg.connect(database.superuser) as superuser:
        superuser.execute("SET session_replication_role = replica")
        for table in ("events", "stream_head", "memories", "links", "derivations", "proposals", "tokens", "grants",
                      "placements", "scopes"):  # fmt: skip
            superuser.execute(f"DELETE FROM substrate.{table}".encode())
    with pytest.raises(NotFound):
        operator.verify(home.house)
    assert "seal" in {fault.what for fault in operator.verify(home.house, seals=[seal]).faults}


@pytest.mark.parametrize("field", ["seq", "hash", "recorded_at", "sealed_at", "signature", "house", "public_key"])
def test_a_forged_seal_proves_nothing_and_is_named(sealing: World, home: Furnished, field: str, tmp_path: Path) -> None:
    operator = sealing.operator()
    seal = operator.seal(home.house)
    forged = {
        "seq": seal.seq - 1, "hash": "00" * 32, "recorded_at": seal.sealed_at, "sealed_at": seal.recorded_at,
        "signature": "AAAA", "house": new_id(), "public_key": SealKey.load_or_create(tmp_path / "thief").public,
    }[field]  # fmt: skip
    (fault,) = operator.verify(home.house, seals=[seal.model_copy(update={field: forged})]).faults
    assert fault.what == "seal"


def test_a_seal_by_another_key_is_not_trusted_however_good_its_signature(
    sealing: World, home: Furnished, tmp_path: Path
) -> None:
    operator = sealing.operator()
    genuine = operator.seal(home.house)
    thief = SealKey.load_or_create(tmp_path / "thief")
    forged = thief.seal(home.house, genuine.seq, bytes(32), genuine.recorded_at, genuine.sealed_at)
    (fault,) = operator.verify(home.house, seals=[forged]).faults
    assert "not the one trusted" in fault.detail
    assert operator.verify(home.house, seals=[genuine], trusted=genuine.public_key).ok


def test_a_seal_travels_as_json(sealing: World, home: Furnished) -> None:
    seal = sealing.operator().seal(home.house)
    assert Seal.parse(seal.to_json()) == seal
    assert sealing.operator().verify(home.house, seals=[Seal.parse(seal.to_json())]).ok
    with pytest.raises(InvalidInput):
        Seal.parse('{"house": 1}')


def test_the_key_is_outside_the_database_and_for_its_owner_alone(sealing: World, home: Furnished) -> None:
    where = sealing._engine.settings.home
    assert SealKey.load(where) is None
    first = sealing.operator().seal(home.house)
    assert stat.S_IMODE(key_path(where).stat().st_mode) == 0o600
    assert key_path(where).read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert sealing.operator().seal(home.house).public_key == first.public_key
    assert sorted(path.name for path in where.iterdir()) == ["seal.key"]


def test_many_who_make_the_key_at_once_make_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: SealKey.load_or_create(tmp_path / "home").public, range(16)))
    assert len(set(keys)) == 1


def test_a_file_that_is_no_key_is_not_overwritten(tmp_path: Path) -> None:
    key_path(tmp_path).write_text("something precious")
    with pytest.raises(InvalidInput, match=r"seal\.key"):
        SealKey.load_or_create(tmp_path)
    assert key_path(tmp_path).read_text() == "something precious"


def test_who_has_no_key_must_say_whom_to_trust(sealing: World, home: Furnished, tmp_path: Path) -> None:
    seal = SealKey.load_or_create(tmp_path / "elsewhere").seal(
        home.house, 1, bytes(32), home.owner.scope("house").created_at, home.owner.scope("house").created_at
    )
    with pytest.raises(InvalidInput, match="public key"):
        sealing.operator().verify(home.house, seals=[seal])


def test_a_house_that_is_not_there_cannot_be_sealed(sealing: World) -> None:
    with pytest.raises(NotFound):
        sealing.operator().seal(new_id())
