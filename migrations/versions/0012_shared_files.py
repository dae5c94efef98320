"""Files of a room belong to all who write there.

Who writes to a scope changes what they taught themselves; to change anybody's takes x. A file is not something that
somebody taught: it is worked on together, so for files w is enough.
"""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

OWN = "WHEN m.taught_by = e.actor_id THEN 2"
# Only as long as it stays a file: nobody's file becomes a rule or an instruction in their name.
SHARED = (
    "WHEN m.taught_by = e.actor_id OR m.kind = 'file'"
    " AND e.type IN ('MemoryRevised', 'MemoryForgotten', 'MemoryRestored')"
    """ AND e.data NOT LIKE '%"kind"%' AND coalesce(e.record ->> 'kind', 'file') = 'file' THEN 2"""
)


def upgrade() -> None:
    rewrite_function(op.get_bind(), "append", (OWN, SHARED))


def downgrade() -> None:
    rewrite_function(op.get_bind(), "append", (SHARED, OWN))
