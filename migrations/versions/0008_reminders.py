"""Reminders: due, claimed for a lease, delivered; and the inbox that they may be delivered to."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0008_reminders.sql")


def downgrade() -> None:
    op.execute("DROP TRIGGER erase_reminders_of ON scopes")
    op.execute("DROP TRIGGER erase_reminders_about ON memories")
    op.execute(
        "DROP FUNCTION reminder_counts, prune_reminders, erase_reminders_of, erase_reminders_about, erase_reminders,"
        " erase_reminder_rows, mark_inbox, read_inbox, put_in_inbox, next_reminder, fail_reminder, go_on, finish_reminder,"
        " renew_reminders, claim_reminders, move_reminder, cancel_reminder, my_reminder, read_reminders, add_reminder,"
        " is_agent, shown_reminder, reminder_state, delivery_of"
    )
    op.execute("DROP TABLE inbox, reminders")
