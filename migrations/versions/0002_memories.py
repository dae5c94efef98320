"""Memories, links, proposals, and the append function."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0002_memories.sql")
    run_sql(op.get_bind(), "0002_policies.sql")


def downgrade() -> None:
    op.execute("DROP FUNCTION learn_one, learn, plain_rights, append, erase_text, over_limit")
    op.execute("DROP TABLE event_rules, budgets, derivations, proposals, links, memories")
    op.execute("DROP TYPE category, tier, memory_status")
