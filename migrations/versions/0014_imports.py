"""Imports: the event that names what was brought in from elsewhere."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function, run_sql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

BOTH = "o.type IN ('CheckpointTaken', 'SourceImported')"
ONE = "o.type = 'CheckpointTaken'"


def upgrade() -> None:
    run_sql(op.get_bind(), "0014_imports.sql")


def downgrade() -> None:
    rewrite_function(op.get_bind(), "erase_labels", (BOTH, ONE))
    op.execute("DELETE FROM event_rules WHERE type = 'SourceImported'")
