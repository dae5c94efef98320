"""Checkpoints: the event, and what a process must hear of the agents whose repositories it keeps."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0009_checkpoints.sql")


def downgrade() -> None:
    op.execute("DROP TRIGGER erase_labels ON scopes")
    op.execute("DROP FUNCTION erase_labels, checkpoint_news")
    op.execute("DELETE FROM event_rules WHERE type = 'CheckpointTaken'")
