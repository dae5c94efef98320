"""Runs of shared work and what happened in them; their text goes with an erasure."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0007_runs.sql")


def downgrade() -> None:
    op.execute("DROP TRIGGER erase_person_runs ON scopes")
    op.execute("DROP TRIGGER erase_run_events ON memories")
    op.execute(
        "DROP FUNCTION prune_runs, run_erasures_mark, erased_locally, erase_person_runs, erase_run_events, erase_runs, write_runs,"
        " run_text_erased"
    )
    op.execute("DROP TABLE run_erasures, run_events, runs")
