"""A token that an agent issues to itself lives no longer than the one it came in with.

It could not be wider already. One that lives longer would make a token that was given for an hour one for good.
"""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BEFORE = """
            WHEN 'TokenIssued' THEN
                INSERT INTO tokens"""
AFTER = """
            WHEN 'TokenIssued' THEN
                IF e.actor_id = old.id AND coalesce((d ->> 'expires_at')::timestamptz, 'infinity')
                     > (SELECT coalesce(t.expires_at, 'infinity') FROM tokens t WHERE t.id = e.token_id) THEN
                    PERFORM refuse('denied', 'a token lives no longer than the one it is issued with; say when it expires');
                END IF;
                INSERT INTO tokens"""


def upgrade() -> None:
    rewrite_function(op.get_bind(), "govern", (BEFORE, AFTER))


def downgrade() -> None:
    rewrite_function(op.get_bind(), "govern", (AFTER, BEFORE))
