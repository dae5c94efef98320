"""The tables, as SQLAlchemy Core sees them. The migrations make them; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import DOMAIN, ENUM, JSONB, TIMESTAMP

from substrate.world.migrate import SCHEMA
from substrate.world.model import CATEGORIES, STATUSES, TIERS

metadata = MetaData(schema=SCHEMA)

When = TIMESTAMP(timezone=True)
RightsMask = DOMAIN("rights", SmallInteger, schema=SCHEMA)


def _enum(name: str, values: tuple[str, ...]) -> ENUM:
    return ENUM(*values, name=name, schema=SCHEMA, create_type=False)


def _id(name: str = "id", *, key: bool = True) -> Column[object]:
    return Column(name, Uuid, primary_key=key, nullable=False)


scopes = Table(
    "scopes",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("parent_id", Uuid, ForeignKey("substrate.scopes.id")),
    Column("name", Text),
    Column("human", Boolean, nullable=False),
    Column("settings", JSONB, nullable=False),
    Column("status", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", When, nullable=False),
    Column("updated_at", When, nullable=False),
    Index("scopes_house", "house_id"),
)
Index("scopes_name", scopes.c.parent_id, scopes.c.name, unique=True, postgresql_where=text("status = 'active'"))

memories = Table(
    "memories",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("parent_id", Uuid, nullable=False),
    Column("key", Text),
    Column("kind", Text, nullable=False),
    Column("title", Text),
    Column("description", Text),
    Column("content", Text),
    Column("tags", ARRAY(Text), nullable=False),
    Column("concept_tags", ARRAY(Text), nullable=False),
    Column("category", _enum("category", CATEGORIES), nullable=False),
    Column("tier", _enum("tier", TIERS), nullable=False),
    Column("confidence", Double),
    Column("valid_from", When),
    Column("valid_to", When),
    Column("point_in_time", When),
    Column("expires_at", When),
    Column("status", _enum("memory_status", STATUSES), nullable=False),
    Column("superseded_by", Uuid),
    Column("taught_by", Uuid, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("reinforcements", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("content_version", Integer, nullable=False),
    Column("learned_at", When, nullable=False),
    Column("updated_at", When, nullable=False),
    Index("memories_learned", "parent_id", "learned_at", "id"),
    Index("memories_taught_by", "taught_by"),
)
_active_key = text("status = 'active' AND key IS NOT NULL")
Index("memories_key", memories.c.parent_id, memories.c.key, unique=True, postgresql_where=_active_key)
_expiring = text("expires_at IS NOT NULL AND status = 'active'")
Index("memories_expiry", memories.c.expires_at, postgresql_where=_expiring)
Index("memories_superseded_by", memories.c.superseded_by, postgresql_where=text("superseded_by IS NOT NULL"))

events = Table(
    "events",
    metadata,
    _id("house_id"),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Uuid, nullable=False),
    Column("scope_id", Uuid, nullable=False),
    Column("subject_id", Uuid, nullable=False),
    Column("version", Integer),
    Column("type", Text, nullable=False),
    Column("schema_version", SmallInteger, nullable=False),
    Column("actor_id", Uuid, nullable=False),
    Column("runtime", Text),
    Column("session_id", Text),
    Column("run_id", Text),
    Column("causation_id", Uuid),
    Column("correlation_id", Uuid),
    Column("data", Text, nullable=False),
    Column("body", Text),
    Column("salt", LargeBinary),
    Column("commitment", LargeBinary, nullable=False),
    Column("occurred_at", When, nullable=False),
    Column("recorded_at", When, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Index("events_event_id", "event_id", "house_id", unique=True),
    Index("events_subject", "subject_id", "seq"),
    Index("events_scope", "scope_id", "seq"),
)
for _name, _column in (
    ("session", "session_id"),
    ("run", "run_id"),
    ("correlation", "correlation_id"),
):
    Index(
        f"events_{_name}",
        events.c.house_id,
        events.c[_column],
        events.c.seq,
        postgresql_where=text(f"{_column} IS NOT NULL"),
    )

links = Table(
    "links",
    metadata,
    Column("house_id", Uuid, nullable=False),
    Column("from_id", Uuid, ForeignKey("substrate.memories.id"), primary_key=True),
    Column("relation", Text, primary_key=True),
    Column("to_id", Uuid, ForeignKey("substrate.memories.id"), primary_key=True),
    Column("weight", Double, nullable=False),
    Index("links_to", "to_id"),
    Index("links_house", "house_id"),
)

placements = Table(
    "placements",
    metadata,
    Column("scope_id", Uuid, ForeignKey("substrate.scopes.id"), primary_key=True),
    Column("house_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("parent_id", Uuid),
    Column("members", RightsMask, nullable=False),
    Column("memories_max", Integer),
    Column("writes_per_minute", Integer),
    Column("legal_hold", Boolean, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, primary_key=True, autoincrement=False),
    Index("placements_house", "house_id", "from_seq"),
    Index("placements_parent", "parent_id"),
)

grants = Table(
    "grants",
    metadata,
    Column("house_id", Uuid, nullable=False),
    Column("scope_id", Uuid, ForeignKey("substrate.scopes.id"), primary_key=True),
    Column("grantee_id", Uuid, ForeignKey("substrate.scopes.id"), primary_key=True),
    Column("rights", RightsMask, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, primary_key=True, autoincrement=False),
    Index("grants_scope", "scope_id", "to_seq"),
    Index("grants_house", "house_id", "from_seq"),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("principal_id", Uuid, ForeignKey("substrate.scopes.id"), nullable=False),
    Column("hash", LargeBinary),
    Column("rights", RightsMask, nullable=False),
    Column("issued_at", When, nullable=False),
    Column("expires_at", When),
    Column("revoked_at", When),
    Index("tokens_principal", "principal_id"),
)

proposals = Table(
    "proposals",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("memory_id", Uuid, nullable=False),
    Column("memory_version", Integer, nullable=False),
    Column("to_scope", Uuid, ForeignKey("substrate.scopes.id"), nullable=False),
    Column("proposed_by", Uuid, nullable=False),
    Column("status", Text, nullable=False),
    Column("decided_by", Uuid),
    Column("promoted_id", Uuid),
    Column("proposed_at", When, nullable=False),
    Column("decided_at", When),
    Index("proposals_to", "to_scope", "status"),
    Index("proposals_memory", "memory_id"),
    Index("proposals_house", "house_id"),
)

derivations = Table(
    "derivations",
    metadata,
    Column("house_id", Uuid, nullable=False),
    Column("memory_id", Uuid, ForeignKey("substrate.memories.id"), primary_key=True),
    Column("source_id", Uuid, primary_key=True),
    Column("source_version", Integer, primary_key=True, autoincrement=False),
    Index("derivations_source", "source_id"),
    Index("derivations_house", "house_id"),
)

embeddings = Table(
    "embeddings",
    metadata,
    _id("memory_id"),
    Column("space", Text, primary_key=True),
    Column("content_version", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
)

recall_signals = Table(
    "recall_signals",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("house_id", Uuid, nullable=False),
    Column("principal_id", Uuid, nullable=False),
    Column("memory_id", Uuid, nullable=False),
    Column("query", Text, nullable=False),
    Column("score", REAL, nullable=False),
    Column("place", SmallInteger, nullable=False),
    Column("recalled_at", When, nullable=False),
    Column("signal_id", Uuid),
    Index("recall_signals_once", "signal_id", unique=True),
    Index("recall_signals_memory", "memory_id", "recalled_at"),
    Index("recall_signals_principal", "principal_id", "recalled_at"),
    Index("recall_signals_age", "recalled_at"),
)

runtimes = Table(
    "runtimes",
    metadata,
    _id("house_id"),
    Column("name", Text, primary_key=True),
    Column("state", JSONB, nullable=False),
    Column("heard_at", When, nullable=False),
)

reminders = Table(
    "reminders",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("agent_id", Uuid, ForeignKey("substrate.scopes.id"), nullable=False),
    Column("memory_id", Uuid),
    Column("session_id", Text),
    Column("run_id", Text),
    Column("runtime", Text),
    Column("plugin", Text, nullable=False),
    Column("recipient", Text),
    Column("message", Text),
    Column("digest", LargeBinary),
    Column("starts_at", When, nullable=False),
    Column("every", Interval),
    Column("rrule", Text),
    Column("zone", Text, nullable=False),
    Column("occurrence", Integer, nullable=False),
    Column("delivery_id", Uuid, nullable=False),
    Column("due_at", When, nullable=False),
    Column("next_at", When),
    Column("claim", Uuid),
    Column("claimed_at", When),
    Column("claimed_by", Text),
    Column("lease_until", When),
    Column("attempts", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("last_error", Text),
    Column("delivered_at", When),
    Column("failed_at", When),
    Column("cancelled_at", When),
    Column("erased_at", When),
    Column("created_at", When, nullable=False),
    Column("updated_at", When, nullable=False),
    Index("reminders_agent", "agent_id", "due_at", "id"),
)
_next, _rests = text("next_at IS NOT NULL"), text("next_at IS NULL")
Index("reminders_next", reminders.c.agent_id, reminders.c.plugin, reminders.c.next_at, postgresql_where=_next)
Index("reminders_age", reminders.c.updated_at, postgresql_where=_rests)
Index("reminders_memory", reminders.c.memory_id, postgresql_where=text("memory_id IS NOT NULL"))
_in_session = text("session_id IS NOT NULL")
Index("reminders_session", reminders.c.house_id, reminders.c.session_id, postgresql_where=_in_session)

inbox = Table(
    "inbox",
    metadata,
    _id("delivery_id"),
    Column("agent_id", Uuid, nullable=False),
    Column("reminder_id", Uuid, ForeignKey("substrate.reminders.id", ondelete="CASCADE"), nullable=False),
    Column("due_at", When, nullable=False),
    Column("put_at", When, nullable=False),
    Column("read_at", When),
    Index("inbox_reminder", "reminder_id"),
)
_unread = text("read_at IS NULL")
Index("inbox_unread", inbox.c.agent_id, inbox.c.put_at, inbox.c.delivery_id, postgresql_where=_unread)

upkeep = Table("upkeep", metadata, Column("name", Text, primary_key=True), Column("begun_at", When, nullable=False))
runs = Table(
    "runs",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("scope_id", Uuid, ForeignKey("substrate.scopes.id"), nullable=False),
    Column("agent_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("parent_id", Uuid),
    Column("runtime", Text),
    Column("session_id", Text),
    Column("name", Text),
    Column("status", Text, nullable=False),
    Column("started_at", When, nullable=False),
    Column("finished_at", When),
    Column("heard_at", When, nullable=False),
    Column("events", Integer, nullable=False),
    Index("runs_scope", "scope_id", "started_at", "id"),
    Index("runs_agent", "agent_id", "started_at"),
    Index("runs_age", "started_at"),
)
Index("runs_parent", runs.c.parent_id, postgresql_where=text("parent_id IS NOT NULL"))
Index("runs_session", runs.c.house_id, runs.c.session_id, postgresql_where=text("session_id IS NOT NULL"))

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", Uuid, ForeignKey("substrate.runs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", When, nullable=False),
    Column("names", ARRAY(Uuid), nullable=False),
    Column("body", Text),
)
Index("run_events_names", run_events.c.names, postgresql_using="gin", postgresql_where=text("names <> '{}'::uuid[]"))

run_erasures = Table(
    "run_erasures",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("house_id", Uuid, nullable=False),
    Column("source", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("scopes", ARRAY(Uuid)),
    Column("at", When, nullable=False),
    Index("run_erasures_value", "house_id", "value"),
    Index("run_erasures_last", "house_id", "id"),
)

sessions = Table(
    "sessions",
    metadata,
    _id("scope_id"),
    Column("id", Text, primary_key=True),
    Column("house_id", Uuid, nullable=False),
    Column("agent_id", Uuid, nullable=False),
    Column("created_at", When, nullable=False),
    Column("last_active_at", When, nullable=False),
    Column("closed_at", When),
    Column("erased_at", When),
    Column("turns", Integer, nullable=False),
    Column("offered_through", Integer, nullable=False),
    Column("archived_through", Integer, nullable=False),
    Column("archiving_through", Integer),
    Column("revision", Integer, nullable=False),
    Column("settled", Boolean, nullable=False),
    Index("sessions_created", "scope_id", "created_at", "id"),
    Index("sessions_named", "house_id", "id"),
    Index("sessions_unsettled", "scope_id", postgresql_where=text("NOT settled")),
)

interactions = Table(
    "interactions",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("scope_id", Uuid, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("agent_id", Uuid, nullable=False),
    Column("role", Text, nullable=False),
    Column("content", Text),
    Column("metadata", JSONB),
    Column("message_id", Text),
    Column("runtime", Text),
    Column("run_id", Text),
    Column("created_at", When, nullable=False),
    Index("interactions_turn", "scope_id", "session_id", "turn", unique=True),
    Index(
        "interactions_message",
        "scope_id",
        "session_id",
        "message_id",
        unique=True,
        postgresql_where=text("message_id IS NOT NULL"),
    ),
    Index("interactions_age", "created_at", postgresql_using="brin"),
)

extraction_offers = Table(
    "extraction_offers",
    metadata,
    _id(),
    Column("house_id", Uuid, nullable=False),
    Column("scope_id", Uuid, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("agent_id", Uuid, nullable=False),
    Column("first_turn", Integer, nullable=False),
    Column("last_turn", Integer, nullable=False),
    Column("offered_at", When, nullable=False),
    Column("claim", Uuid),
    Column("claimed_until", When),
    Column("attempts", Integer, nullable=False),
    Column("done_at", When),
    Index("extraction_offers_range", "scope_id", "session_id", "first_turn", unique=True),
    Index("extraction_offers_open", "scope_id", "offered_at", postgresql_where=text("done_at IS NULL")),
)
