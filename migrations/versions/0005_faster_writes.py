"""Plain memories in batches, by columns; three indexes less for every write to keep."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function, run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Each was kept by every append, for queries that are rare and read a good part of a house anyway: what an agent or a
# runtime did, when that is taken back or erased, and all records of a house, when it is verified. These go by the
# house's stream now, or by the scopes of its memories.
INDEXES = {
    "memories_house": "memories (house_id, id)",
    "events_actor": "events (actor_id, seq)",
    "events_runtime": "events (house_id, runtime, seq) WHERE runtime IS NOT NULL",
}
_SUBJECTS = "SELECT e.subject_id FROM events e WHERE e.house_id = house"
CHANGES = {
    "read_records": (
        (
            "WHERE m.house_id = house OR m.parent_id = ANY (within)",
            f"WHERE m.id IN ({_SUBJECTS} UNION SELECT o.id FROM memories o WHERE o.parent_id = ANY (within))",  # noqa: S608
        ),
        ("l.from_id IN (SELECT m.id FROM memories m WHERE m.house_id = house)", f"l.from_id IN ({_SUBJECTS})"),
        ("d.memory_id IN (SELECT m.id FROM memories m WHERE m.house_id = house)", f"d.memory_id IN ({_SUBJECTS})"),
    ),
    # Turned round, so that the way back finds it again among the others.
    "retraction_reach": (("e.house_id IS NOT DISTINCT FROM house", "house = e.house_id"),),
    "erasure_targets": (("e.house_id IS NOT DISTINCT FROM house", "house = e.house_id"),),
}


def upgrade() -> None:
    run_sql(op.get_bind(), "0005_faster_writes.sql")
    for name, changes in CHANGES.items():
        rewrite_function(op.get_bind(), name, *changes)
    for name in INDEXES:
        op.execute(f"DROP INDEX {name}")


def downgrade() -> None:
    for name, what in INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON {what}")
    for name, changes in CHANGES.items():
        rewrite_function(op.get_bind(), name, *((new, old) for old, new in changes))
    op.execute("DROP FUNCTION learn_many")
