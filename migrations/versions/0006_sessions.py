"""Sessions, their turns, and what of them is offered to extraction."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0006_sessions.sql")


def downgrade() -> None:
    op.execute("DROP TRIGGER erase_evidence ON memories")
    op.execute("DROP TRIGGER erase_own_sessions ON scopes")
    op.execute(
        "DROP FUNCTION prune_interactions, erase_own_sessions, erase_evidence, erase_interactions, blank_turns,"
        " empty_session, end_claim, claim_offers, finish_archive, begin_archive, leave_idle_sessions, leave_session,"
        " add_turns, open_session, offer_turns, held_session, scope_held, rights_on"
    )
    op.execute("DROP TABLE extraction_offers, interactions, sessions")
