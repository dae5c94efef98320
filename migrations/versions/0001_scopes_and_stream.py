"""Scopes, permission and the stream."""

from __future__ import annotations

from alembic import op

from substrate.world.migrate import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = "events, stream_head, tokens, grants, placements, scopes, login_agents, logins"
FUNCTIONS = """authenticate, govern, place_scope, refuse, chain_events, seal_events, salt_of,
    fixed_part, moment, microseconds, manages,
    managed_scopes, visible_scopes, scopes_with, my_rights, credential_mask, login_kind, rights_of, chain_of"""


def upgrade() -> None:
    run_sql(op.get_bind(), "0001_scopes_and_stream.sql")
    run_sql(op.get_bind(), "0001_policies.sql")


def downgrade() -> None:
    # Functions first: some take a table's row, and would go with the table before they are named here.
    op.execute(f"DROP FUNCTION {FUNCTIONS} CASCADE")
    op.execute(f"DROP TABLE {TABLES} CASCADE")
    op.execute("DROP TYPE new_event, place CASCADE")
    op.execute("DROP DOMAIN rights CASCADE")
