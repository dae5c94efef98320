"""A recall signal that is sent twice is written once."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NINE = "uuid, uuid, uuid, uuid[], text[], real[], smallint[], timestamptz[], uuid[]"


def upgrade() -> None:
    run_sql(op.get_bind(), "0011_signal_ids.sql")


def downgrade() -> None:
    op.execute(f"DROP FUNCTION record_signals({_NINE})")
    op.execute("DROP INDEX recall_signals_once")
    op.execute("ALTER TABLE recall_signals DROP signal_id")
    op.execute(
        """
        CREATE FUNCTION record_signals(principal uuid, token uuid, house uuid, ids uuid[], queries text[], scores real[],
                                       places smallint[], times timestamptz[]) RETURNS bigint
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
        DECLARE
            visible uuid[] := replica_readable(ARRAY[principal], ARRAY[token], house);
            written bigint;
        BEGIN
            INSERT INTO recall_signals (house_id, principal_id, memory_id, query, score, place, recalled_at)
            SELECT house, principal, m.id, u.query, u.score, u.place, u.at
              FROM unnest(ids, queries, scores, places, times) AS u (id, query, score, place, at)
              JOIN memories m ON m.id = u.id AND m.parent_id = ANY (visible) AND m.status <> 'erased'
               FOR SHARE OF m;
            GET DIAGNOSTICS written = ROW_COUNT;
            RETURN written;
        END $$
        """
    )
