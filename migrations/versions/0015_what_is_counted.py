"""Retraction counts what it leaves alone only where the caller may know of it.

A count of events in scopes that one may not read tells that a session, a run or an import of that name is there. Those who
hold r and x on the house, and answer for it, are told all of it; others of what they can read.
"""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

EVENTS = "WHERE u.place <> ALL (mine)),"
MEMORIES = "WHERE NOT p.direct AND p.parent_id <> ALL (mine)),"
KNOWN_EVENTS = "WHERE u.place <> ALL (mine) AND (house = ANY (mine) OR u.place = ANY (seen))),"
KNOWN_MEMORIES = (
    "WHERE NOT p.direct AND p.parent_id <> ALL (mine) AND (house = ANY (mine) OR p.parent_id = ANY (seen))),"
)


def upgrade() -> None:
    rewrite_function(op.get_bind(), "retraction_reach", (EVENTS, KNOWN_EVENTS), (MEMORIES, KNOWN_MEMORIES))


def downgrade() -> None:
    rewrite_function(op.get_bind(), "retraction_reach", (KNOWN_EVENTS, EVENTS), (KNOWN_MEMORIES, MEMORIES))
