"""Two who write one event id in the same instant: the second learns what became of the first.

Neither sees the other's event when it is judged, and the second's row is kept out because the memory's id, which follows
from the event's, is taken by then. That was answered as a taken key. Now the batch is given up as a failed
serialization, its sender sends it again, as it does for any other, and the event that is there decides: the old position,
or a conflict.
"""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import rewrite_function

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

BEFORE = """
            -- A key that is taken, unless the event was refused before: nothing else keeps a row out."""
AFTER = """
            -- An id that was free a moment ago, and is taken now: who took it has committed, and is seen next time.
            IF EXISTS (SELECT FROM unnest(evs) WITH ORDINALITY e JOIN memories m ON m.id = e.subject_id
                        WHERE verdicts[e.ordinality] = 'ok' AND e.expected_version = 0
                          AND NOT e.subject_id = ANY (coalesce(created, '{}'))) THEN
                RAISE EXCEPTION 'the same memory was written meanwhile' USING ERRCODE = 'serialization_failure';
            END IF;
            -- A key that is taken, unless the event was refused before: nothing else keeps a row out."""


def upgrade() -> None:
    rewrite_function(op.get_bind(), "append", (BEFORE, AFTER))


def downgrade() -> None:
    rewrite_function(op.get_bind(), "append", (AFTER, BEFORE))
