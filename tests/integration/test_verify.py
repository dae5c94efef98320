"""P6 and P9: whatever is changed behind our back is found, and named by position; a replay gives every row.

The null control stands first and between: the same house, untouched or put back as it was, has no fault.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from substrate.errors import NotFound, VerificationFailed
from substrate.world import audit
from substrate.world.chain import Fault
from substrate.world.ids import new_id
from substrate.world.memories import NewMemory
from substrate.world.model import Evidence, Source
from substrate.world.replay import TABLES
from substrate.world.verify import Report
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.furnished import Furnished, furnish
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

STORED = ("stream_head", "events", *TABLES)


@dataclass(frozen=True)
class Lab:
    """A house that can be tampered with as the server's superuser, and is put back afterwards."""

    world: World
    home: Furnished
    superuser: psycopg.Connection[tuple[object, ...]]

    def verify(self) -> Report:
        return self.world.operator().verify(self.home.house)

    def seqs(self) -> list[int]:
        rows = self.superuser.execute("SELECT seq FROM events WHERE house_id = %s ORDER BY seq", (self.home.house,))
        return [int(str(row[0])) for row in rows]

    def seq_of(self, kind: str, subject: UUID | None = None) -> int:
        row = self.superuser.execute(
            "SELECT min(seq) FROM events WHERE house_id = %s AND type = %s AND (%s::uuid IS NULL OR subject_id = %s)",
            (self.home.house, kind, subject, subject),
        ).fetchone()
        assert row is not None
        return int(str(row[0]))

    @contextmanager
    def tampered(self, statement: str, *parameters: object) -> Iterator[list[Fault]]:
        """The faults that verification finds after the statement."""
        try:
            # Without the triggers of foreign keys: who can do this can also do that.
            self.superuser.execute("SET session_replication_role = replica")
            touched = psycopg.ClientCursor(self.superuser).execute(statement.encode(), parameters).rowcount
            assert touched > 0, "the tampering touched nothing"
            yield list(self.verify().faults)
        finally:
            for table in STORED:
                name = sql.Identifier(table)
                self.superuser.execute(sql.SQL("DELETE FROM {}").format(name))
                self.superuser.execute(sql.SQL("INSERT INTO {} SELECT * FROM before.{}").format(name, name))


@pytest.fixture(scope="module")
def lab(fresh_database: FreshDatabase) -> Iterator[Lab]:
    with fresh_database() as urls, World.open(app_url=urls.app, owner_url=urls.owner) as world:
        home = furnish(world)
        furnish(world, "the neighbours")
        with psycopg.connect(urls.superuser, autocommit=True, options="-c search_path=substrate") as superuser:
            superuser.execute("CREATE SCHEMA before")
            for table in STORED:
                name = sql.Identifier(table)
                superuser.execute(sql.SQL("CREATE TABLE before.{} AS SELECT * FROM {}").format(name, name))
            yield Lab(world, home, superuser)


def found(faults: list[Fault]) -> set[tuple[int | None, str]]:
    return {(fault.position.seq if fault.position else None, fault.what) for fault in faults}


def test_an_untouched_house_has_no_fault_and_every_row_equals_its_replay(lab: Lab) -> None:
    report = lab.verify().require()
    assert report.events == report.head.seq == lab.seqs()[-1]
    for table in TABLES:
        row = lab.superuser.execute(
            sql.SQL("SELECT count(*) FROM {} WHERE house_id = %s").format(sql.Identifier(table)), (lab.home.house,)
        ).fetchone()
        assert row == (report.records[table],)
        assert report.records[table] > 0


def test_tampering_that_is_put_back_leaves_no_fault(lab: Lab) -> None:
    with lab.tampered("UPDATE events SET data = '{}'") as faults:
        assert faults
    lab.verify().require()


#: One for each column of an event: what it is set to, and the fault that must be named at its position.
COLUMNS = {
    "event_id": ("gen_random_uuid()", "hash"),
    "scope_id": ("gen_random_uuid()", "hash"),
    "subject_id": ("gen_random_uuid()", "hash"),
    "version": ("version + 1", "hash"),
    "type": ("'MemoryForgotten'", "hash"),
    "schema_version": ("0", "hash"),
    "actor_id": ("gen_random_uuid()", "hash"),
    "runtime": ("'elsewhere'", "hash"),
    "session_id": ("'another'", "hash"),
    "run_id": ("NULL", "hash"),
    "causation_id": ("gen_random_uuid()", "hash"),
    "correlation_id": ("gen_random_uuid()", "hash"),
    "data": ("""'{"kind":"rule"}'""", "hash"),
    "body": ("""'{"content":"something else"}'""", "commitment"),
    "salt": ("'\\x00'", "commitment"),
    "commitment": ("sha256('')", "hash"),
    "occurred_at": ("occurred_at + interval '1 microsecond'", "hash"),
    "recorded_at": ("recorded_at + interval '1 microsecond'", "hash"),
    "prev_hash": ("sha256('')", "chain"),
    "hash": ("sha256('')", "hash"),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_column_of_an_event_is_found_at_its_position(lab: Lab, column: str) -> None:
    value, what = COLUMNS[column]
    seq = lab.seq_of("MemoryLearned", lab.home.indent)
    statement = f"UPDATE events SET {column} = {value} WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, lab.home.house, seq) as faults:
        assert (seq, what) in found(faults)


def test_every_column_of_an_event_is_tampered_with_here(lab: Lab) -> None:
    rows = lab.superuser.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'substrate' AND table_name = 'events'"
    )
    assert {row[0] for row in rows} == {*COLUMNS, "house_id", "seq"}


def test_a_removed_event_is_found_at_its_position(lab: Lab) -> None:
    seq = lab.seq_of("MemoryReinforced")
    with lab.tampered("DELETE FROM events WHERE house_id = %s AND seq = %s", lab.home.house, seq) as faults:
        assert (seq, "missing") in found(faults)


def test_the_first_event_cannot_be_removed_unnoticed(lab: Lab) -> None:
    with lab.tampered("DELETE FROM events WHERE house_id = %s AND seq = 1", lab.home.house) as faults:
        assert (1, "missing") in found(faults)


def test_an_event_moved_to_another_house_is_missed_in_its_own(lab: Lab) -> None:
    seq = lab.seqs()[-1]
    with lab.tampered(
        "UPDATE events SET house_id = gen_random_uuid() WHERE house_id = %s AND seq = %s", lab.home.house, seq
    ) as faults:
        assert (seq, "head") in found(faults)


def test_a_moved_event_is_found_where_it_was_and_where_it_went(lab: Lab) -> None:
    seq, last = lab.seq_of("MemoryReinforced"), lab.seqs()[-1]
    statement = "UPDATE events SET seq = %s WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, last + 1, lab.home.house, seq) as faults:
        assert {(seq, "missing"), (last + 1, "hash"), (last + 1, "head")} <= found(faults)


#: An event copied to another position, under another id.
COPY = (
    "INSERT INTO events SELECT (json_populate_record(e, json_build_object('seq', %s::bigint, 'event_id', %s::uuid))).*"
    " FROM events e"
)


@pytest.mark.parametrize("seq", [0, -7])
def test_an_event_before_the_first_is_found(lab: Lab, seq: int) -> None:
    with lab.tampered(f"{COPY} WHERE house_id = %s AND seq = 5", seq, new_id(), lab.home.house) as faults:
        assert (seq, "order") in found(faults)


def test_an_inserted_event_is_found_at_its_position(lab: Lab) -> None:
    last = lab.seqs()[-1]
    with lab.tampered(f"{COPY} WHERE house_id = %s AND seq = 5", last + 1, new_id(), lab.home.house) as faults:
        assert {(last + 1, "chain"), (last + 1, "hash"), (last + 1, "head")} <= found(faults)


def test_two_swapped_events_are_both_found(lab: Lab) -> None:
    seq = lab.seq_of("MemoryReinforced")
    swap = """
        UPDATE events SET seq = -seq WHERE house_id = %s AND seq IN (%s, %s);
        UPDATE events SET seq = %s + seq WHERE house_id = %s AND seq < 0;
    """
    with lab.tampered(swap, lab.home.house, seq, seq + 1, 2 * seq + 1, lab.home.house) as faults:
        assert {(seq, "hash"), (seq + 1, "hash")} <= found(faults)


def test_a_cut_tail_is_found_where_it_begins(lab: Lab) -> None:
    cut = lab.seqs()[-3]
    with lab.tampered("DELETE FROM events WHERE house_id = %s AND seq >= %s", lab.home.house, cut) as faults:
        assert (cut, "head") in found(faults)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("seq", "seq - 1"),
        ("hash", "sha256('')"),
        ("recorded_at", "now() + interval '1 day'"),
        ("limited", "NOT limited"),
    ],
)
def test_a_changed_head_is_found(lab: Lab, column: str, value: str) -> None:
    statement = f"UPDATE stream_head SET {column} = {value} WHERE house_id = %s"
    with lab.tampered(statement, lab.home.house) as faults:
        assert "head" in {fault.what for fault in faults}


def test_a_removed_head_is_found(lab: Lab) -> None:
    with lab.tampered("DELETE FROM stream_head WHERE house_id = %s", lab.home.house) as faults:
        assert [fault.what for fault in faults] == ["head"]


# ---------------------------------------------------------------- text


def test_text_that_is_gone_without_an_erasure_is_found(lab: Lab) -> None:
    seq = lab.seq_of("MemoryLearned", lab.home.secret)
    statement = "UPDATE events SET body = NULL, salt = NULL WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, lab.home.house, seq) as faults:
        assert (seq, "text_gone") in found(faults)


def test_a_name_that_is_gone_without_an_erasure_is_found(lab: Lab) -> None:
    seq = lab.seq_of("ScopeCreated", lab.home.room)
    statement = "UPDATE events SET body = NULL, salt = NULL WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, lab.home.house, seq) as faults:
        assert (seq, "text_gone") in found(faults)


def test_an_erasure_does_not_excuse_text_that_is_lost_after_it(lab: Lab) -> None:
    seq = lab.seq_of("MemoryErased", lab.home.erased)
    statement = "UPDATE events SET body = NULL, salt = NULL WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, lab.home.house, seq) as faults:
        assert (seq, "text_gone") in found(faults)


@pytest.mark.parametrize("column", ["body = '{}'", "salt = '\\x00'", "body = '{}', salt = '\\x00'"])
def test_text_that_outlived_its_erasure_is_found(lab: Lab, column: str) -> None:
    seq = lab.seq_of("MemoryLearned", lab.home.erased)
    statement = f"UPDATE events SET {column} WHERE house_id = %s AND seq = %s"
    with lab.tampered(statement, lab.home.house, seq) as faults:
        assert {(seq, "text_kept"), (seq, "commitment")} <= found(faults)


def test_a_record_whose_text_outlived_its_erasure_is_found(lab: Lab) -> None:
    with lab.tampered("UPDATE memories SET title = 'still here' WHERE id = %s", lab.home.erased) as faults:
        assert (lab.seq_of("MemoryErased", lab.home.erased), "record") in found(faults)


# ---------------------------------------------------------------- rows


def _columns_of(table: str) -> list[str]:
    from substrate.world import tables

    hidden = {"tokens": {"hash"}}  # the digest of a secret is not on the stream
    return [column.name for column in getattr(tables, table).columns if column.name not in hidden.get(table, set())]


CHANGED = {
    "uuid": "gen_random_uuid()", "text": "'another'", "text[]": "'{{another}}'", "boolean": "NOT coalesce({0}, false)",
    "bigint": "coalesce({0}, 0) - 1", "integer": "coalesce({0}, 0) + 1", "rights": "(({0} + 1) %% 8)",
    "double precision": "coalesce({0}, 0) + 0.25", "jsonb": "{0} || '{{\"members\": 0}}'",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 microsecond'",
    "category": "(CASE {0} WHEN 'core' THEN 'daily' ELSE 'core' END)::category",
    "tier": "(CASE {0} WHEN 'cold' THEN 'hot' ELSE 'cold' END)::tier",
    "memory_status": "(CASE {0} WHEN 'active' THEN 'forgotten' ELSE 'active' END)::memory_status",
}  # fmt: skip


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in TABLES for column in _columns_of(table)])
def test_a_changed_column_of_a_row_is_found(lab: Lab, table: str, column: str) -> None:
    row = lab.superuser.execute(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
        (f"substrate.{table}", column),
    ).fetchone()
    assert row is not None
    value = CHANGED[str(row[0]).removeprefix("substrate.")].format(column)
    unchecked(lab, table)
    statement = (
        f"UPDATE {table} SET {column} = {value} WHERE ctid = (SELECT min(ctid) FROM {table} WHERE house_id = %s)"
    )
    with lab.tampered(statement, lab.home.house) as faults:
        assert "record" in {fault.what for fault in faults}
        assert all(f"{table} " in fault.detail for fault in faults if fault.what == "record")


def unchecked(lab: Lab, table: str) -> None:
    """Without the table's checks: a superuser can drop these too."""
    rows = lab.superuser.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'", (f"substrate.{table}",)
    ).fetchall()
    for (name,) in rows:
        lab.superuser.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"'.encode())


@pytest.mark.parametrize("table", TABLES)
def test_a_removed_row_is_found(lab: Lab, table: str) -> None:
    statement = f"DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table} WHERE house_id = %s)"
    with lab.tampered(statement, lab.home.house) as faults:
        assert [fault.what for fault in faults] == ["record"]
        assert faults[0].position is not None
        assert faults[0].detail.startswith(f"{table} ")


ADDED: dict[str, Callable[[Furnished], tuple[str, tuple[object, ...]]]] = {
    "grants": lambda home: (
        "INSERT INTO grants VALUES (%s, %s, %s, 7, 3, 9223372036854775807)",
        (home.house, home.secret, home.owner.id),
    ),
    "grants of another house": lambda home: (
        "INSERT INTO grants VALUES (gen_random_uuid(), %s, %s, 7, 3, 9223372036854775807)",
        (home.kate.id, home.owner.id),
    ),
    "tokens of another house": lambda home: (
        "INSERT INTO tokens VALUES (gen_random_uuid(), gen_random_uuid(), %s, sha256(''), 7, now())",
        (home.kate.id,),
    ),
    "links": lambda home: ("INSERT INTO links VALUES (%s, %s, 'x y 5', %s, 1)", (home.house, home.indent, home.better)),
    "links of another house": lambda home: (
        "INSERT INTO links VALUES (gen_random_uuid(), %s, 'forged', %s, 1)",
        (home.indent, home.better),
    ),
    "memories of another house": lambda home: (
        """INSERT INTO memories SELECT (json_populate_record(m, json_build_object('id', gen_random_uuid(),
           'house_id', gen_random_uuid(), 'key', NULL))).* FROM memories m WHERE id = %s""",
        (home.better,),
    ),
}


@pytest.mark.parametrize("what", ADDED)
def test_an_added_row_is_found(lab: Lab, what: str) -> None:
    statement, parameters = ADDED[what](lab.home)
    with lab.tampered(statement, *parameters) as faults:
        assert [(fault.position, fault.what) for fault in faults] == [(None, "record")]
        assert "no event made this row" in faults[0].detail


# ---------------------------------------------------------------- rows that are no rows


@pytest.mark.parametrize(
    ("assignment", "what"),
    [
        ("data = 'no json'", "unreadable"),
        ("data = '[]'", "unreadable"),
        ("data = '17'", "unreadable"),
        ("data = repeat('[', 100000)", "unreadable"),
        ('data = \'{"valid_from": "0001-01-01T00:00:00+14:00"}\'', "unreadable"),
        ("type = 'SomethingNew'", "unknown"),
        ("schema_version = 9", "unknown"),
        ("recorded_at = 'infinity'", "unreadable"),
        ("occurred_at = '-infinity'", "unreadable"),
        ("occurred_at = '4000-01-01 BC'", "unreadable"),
        ("hash = ''", "hash"),
        ("type = ''", "unknown"),
    ],
)
def test_a_malformed_event_is_a_fault_and_not_a_traceback(lab: Lab, assignment: str, what: str) -> None:
    seq = lab.seq_of("MemoryLearned", lab.home.indent)
    with lab.tampered(
        f"UPDATE events SET {assignment} WHERE house_id = %s AND seq = %s", lab.home.house, seq
    ) as faults:
        assert (seq, what) in found(faults)


@pytest.mark.parametrize("body", ["no json", "[]", "17", '{"content": 17}', '{"content": {"a": [1]}}', '{"odd": "x"}'])
def test_text_that_is_no_payload_but_fits_its_commitment_is_found(lab: Lab, body: str) -> None:
    seq = lab.seq_of("MemoryLearned", lab.home.indent)
    statement = """
        UPDATE events SET body = %s, commitment = sha256(salt || convert_to(%s, 'UTF8'))
         WHERE house_id = %s AND seq = %s
    """
    with lab.tampered(statement, body, body, lab.home.house, seq) as faults:
        assert (seq, "hash") in found(faults)


@pytest.mark.parametrize(
    "assignment", ["learned_at = 'infinity'", "confidence = 'NaN'", "expires_at = '4000-01-01 BC'"]
)
def test_a_malformed_record_is_a_fault_and_not_a_traceback(lab: Lab, assignment: str) -> None:
    with lab.tampered(f"UPDATE memories SET {assignment} WHERE id = %s", lab.home.indent) as faults:
        assert [fault.what for fault in faults] == ["record"]


def test_every_fault_is_named_and_not_only_the_first(lab: Lab) -> None:
    seqs = [lab.seq_of("MemoryLearned", subject) for subject in (lab.home.indent, lab.home.shared, lab.home.secret)]
    with lab.tampered("UPDATE events SET actor_id = gen_random_uuid() WHERE house_id = %s AND seq = ANY (%s)",
                      lab.home.house, seqs) as faults:  # fmt: skip
        assert {(seq, "hash") for seq in seqs} <= found(faults)
        positions = [fault.position.seq for fault in faults if fault.position]
        assert positions == sorted(positions)


def test_the_database_and_this_code_hash_and_digest_any_text_alike(world: World) -> None:
    """Text of every kind through each place that takes some: what the two wrote differently would be a fault."""
    source = random.Random(20261118)
    alphabet = [
        chr(point) for point in (*range(1, 0x3000), *range(0xE000, 0x11000)) if point < 0xD800 or point > 0xDFFF
    ]
    texts = ["".join(source.choices(alphabet, k=source.randint(1, 60))) for _ in range(300)]
    texts += [chr(point) for point in range(1, 0x100)]
    ana = world.found_house("".join(texts[:2]), texts[2]).owner
    ana.remember_many(
        [NewMemory(content=f"{text}.", title=text, tags=(text, "x"), evidence=Evidence(session=text, quote=text))
         for text in texts]
    )  # fmt: skip
    report = world.operator().verify(ana.house)
    assert report.records["memories"] == len(texts)
    assert report.faults == ()


# ---------------------------------------------------------------- who, and when


def test_verification_names_no_text(lab: Lab) -> None:
    with lab.tampered("UPDATE memories SET content = 'planted words' WHERE house_id = %s", lab.home.house) as faults:
        assert faults
        assert "planted" not in repr(faults)


def test_an_owner_may_verify_and_others_get_the_answer_of_a_house_that_is_not_there(lab: Lab) -> None:
    assert lab.home.owner.verify().ok
    with pytest.raises(NotFound):
        lab.home.kate.verify()
    with pytest.raises(NotFound):
        lab.world.operator().verify(new_id())


def test_whatever_an_agent_or_the_operator_can_do_leaves_a_house_that_verifies(world: World) -> None:
    home = furnish(world)
    ana, operator = home.owner, world.operator()
    bad = ana.within(session="bad")
    wrong = bad.remember("wrong", scope="house").memory
    bad.revise(home.better, content="wrong too")
    ana.remember("from it", scope="house", evidence=Evidence(derived_from=(Source(memory=wrong, version=1),)))
    undone = ana.retract("session", "bad")
    operator.verify(home.house).require()
    assert undone.correlation is not None
    ana.undo_retraction(undone.correlation)
    ana.erase(wrong, include_derived=True)
    operator.verify(home.house).require()
    proposal = home.kate.propose_promotion(home.secret, reason="for all")
    ana.approve_promotion(proposal.id)
    ana.configure("house", retention_days=1)
    operator.apply_retention(home.house)
    operator.erase(home.house, "person", home.kate.id)
    report = operator.verify(home.house).require()
    assert report.records["memories"] > 0


def test_text_that_is_erased_while_it_is_verified_is_no_fault(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read with its text, then erased, then met by its erasure: what counts is what is there at the end."""
    home = furnish(world)
    doomed = home.owner.remember("doomed").memory
    monkeypatch.setattr(audit, "PAGE", 10)
    due = [doomed]

    def erase_meanwhile(done: int, total: int) -> None:
        if done == total and due:
            home.owner.erase(due.pop())

    report = world.operator().verify(home.house, on_progress=erase_meanwhile).require()
    assert not due
    assert home.owner.get(doomed).status == "erased"
    assert report.events == report.head.seq


def test_a_report_with_faults_can_be_raised(lab: Lab) -> None:
    try:
        lab.superuser.execute("UPDATE stream_head SET seq = seq + 1")
        with pytest.raises(VerificationFailed, match="the head stands at"):
            lab.verify().require()
    finally:
        lab.superuser.execute("UPDATE stream_head SET seq = seq - 1")


def test_a_house_in_use_verifies_at_any_moment(world: World, database: DatabaseUrls) -> None:
    home = furnish(world)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            memory = home.owner.remember("written while it is verified", scope="house").memory
            home.owner.revise(memory, content="and revised")

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        reports = [world.operator().verify(home.house) for _ in range(10)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [fault for report in reports for fault in report.faults] == []
    assert reports[-1].events > reports[0].events
