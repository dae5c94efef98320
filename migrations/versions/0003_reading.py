"""Reading and verifying the stream; moving a house between databases."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FUNCTIONS = """house_agents, houses, import_end, import_rows, import_begin, retention_due, erasure_targets, retraction_reach, rights_at, read_proposals,
    read_records, export_events, read_chain, array_digest, body_digest, digest_of, may_audit, read_stream, stream_mark, position_at"""


def upgrade() -> None:
    run_sql(op.get_bind(), "0003_reading.sql")


def downgrade() -> None:
    op.execute(f"DROP FUNCTION {FUNCTIONS}")
