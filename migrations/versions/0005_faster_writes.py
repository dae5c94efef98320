"""Plain memories in batches, by columns."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0005"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0005_faster_writes.sql")


def downgrade() -> None:
    op.execute("DROP FUNCTION learn_many")
