"""Keeping house: pruning in small steps, and whose turn it is."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0010_housekeeping.sql")


def downgrade() -> None:
    op.execute("DROP FUNCTION prunable, begin_upkeep, prune_signals(timestamptz, integer)")
    op.execute("DROP TABLE upkeep")
