"""What runtimes build their indexes from, and what they leave behind: vectors, signals, reports."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(op.get_bind(), "0004_replicas.sql")


def downgrade() -> None:
    op.execute("DROP TRIGGER erase_queries ON scopes")
    op.execute(
        "DROP FUNCTION erase_queries, runtime_reports, report_runtime, prune_signals, record_signals, embedding_progress,"
        " store_embeddings, read_embeddings, replica_checks, replica_digests, memory_check, replica_subjects,"
        " replica_events, replica_mark, replica_readable, replica_scopes"
    )
    op.execute("DELETE FROM event_rules WHERE type = 'MemoriesRecalled'")
    op.execute("DROP TABLE runtimes, recall_signals, embeddings")
    op.execute(
        """
        CREATE OR REPLACE FUNCTION erase_text(house uuid, subjects uuid[]) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
        BEGIN
            UPDATE events SET body = NULL, salt = NULL
             WHERE subject_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND body IS NOT NULL;
            UPDATE proposals SET status = 'withdrawn'
             WHERE memory_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND status = 'pending';
        END $$
        """
    )
