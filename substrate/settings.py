"""What a process is told from outside: every field has an environment twin `SUBSTRATE_<NAME>`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from substrate.durations import Duration, DurationOrForEver, Seconds

RecallMode = Literal["keyword", "vector", "hybrid"]
GraphScope = Literal["own", "house"]


class AgentSettings(BaseModel):
    """What one agent has otherwise than the others of its process; None is as they have it.

    Only what can differ between two agents of one process is here: they share a database, an embedder and a folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_history_turns: int | None = Field(None, ge=1, le=100_000)
    session_ttl: Duration | None = Field(None, gt=timedelta())
    recall_mode: RecallMode | None = None
    audit_reads: bool | None = None
    workspace_git: bool | None = None
    tools: str | None = None
    graph_scope: GraphScope | None = None


def _from_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON; write an object of agents and their settings") from None


class Settings(BaseSettings):
    """Configuration from the environment. Secrets are wrapped, so they never show in a repr, a log or an error.

    What stands in `memory.yaml` is read by `substrate.configuration.load`, which gives one of these, too.
    """

    model_config = SettingsConfigDict(env_prefix="SUBSTRATE_", frozen=True, extra="ignore")

    database_url: SecretStr | None = Field(None, description="PostgreSQL URL of the application role")
    owner_url: SecretStr | None = Field(None, description="PostgreSQL URL of the owner, for migrations only")
    home: Path = Field(
        default_factory=lambda: Path.home() / ".substrate", description="embedded server and credentials"
    )
    token: SecretStr | None = Field(None, description="credential of the agent who acts")
    runtime: str = Field("local", description="name of this runtime: its indexes' folder, and in provenance")
    allow_unsafe_durability: bool = Field(False, description="accept a server with fsync or synchronous_commit off")
    pool_size: int = Field(20, ge=2, le=500, description="most connections one process opens")
    max_content_bytes: int = Field(65_536, ge=1, le=10_000_000, description="largest content of one memory, in UTF-8")
    embedder: str = Field("static", description="what turns text into vectors: static, bge, http, none, or a plugin's")
    embedding_base_url: str | None = Field(None, description="http: the server, up to where /embeddings follows")
    embedding_model: str | None = Field(None, description="http: the model's name at the server")
    embedding_api_key: SecretStr | None = Field(
        None, description="http: the key; ${VARIABLE} and ${file:/path} are read"
    )
    embedding_dimensions: int | None = Field(None, ge=1, le=65_536, description="http: what the model answers with")
    embedding_timeout: float = Field(30, gt=0, le=3_600, description="http: seconds until a request is given up")
    max_staleness: Seconds = Field(
        30, gt=0, le=86_400, description="seconds without news of the stream after which only own memories are recalled"
    )
    audit_reads: bool = Field(False, description="write an event of what each recall gave to whom")
    reranker: str = Field("none", description="what reorders the best candidates: cross-encoder, none, or a plugin's")
    recall_mode: RecallMode = Field("hybrid", description="how recall looks, where the caller says nothing")
    workspace: Path | None = Field(
        None, description="folder of groups' and agents' files; by default `workspace` in the home"
    )

    max_history_turns: int = Field(50, ge=1, le=100_000, description="turns of a session that are kept at hand")
    session_ttl: Duration = Field(
        timedelta(hours=24), gt=timedelta(), description="how long an idle session stays at hand"
    )
    max_sessions: int = Field(
        10_000, ge=0, description="most sessions at hand; the longest idle goes first; 0 is no limit"
    )

    max_file_bytes: int = Field(65_536, ge=1, le=10_000_000, description="largest file of file memory, in UTF-8")
    max_files: int = Field(1_000, ge=1, le=100_000, description="most files of one group or agent")
    workspace_git: bool = Field(
        False, description="keep a git repository of each agent's memory, one commit a checkpoint"
    )

    reminder_lease: Duration = Field(
        timedelta(seconds=60), gt=timedelta(), description="how long a claimed reminder is another's"
    )
    keep_signals: DurationOrForEver = Field(
        timedelta(days=90), ge=timedelta(), description="how long recall signals are kept; none is for ever"
    )
    keep_interactions: DurationOrForEver = Field(
        None, ge=timedelta(), description="how long turns of conversations are kept; none is for ever"
    )
    keep_runs: DurationOrForEver = Field(
        timedelta(days=30), ge=timedelta(), description="how long runs and their events are kept; none is for ever"
    )
    keep_reminders: DurationOrForEver = Field(
        timedelta(days=90),
        ge=timedelta(),
        description="how long reminders are kept that are done with; none is for ever",
    )
    maintenance_every: Duration = Field(
        timedelta(hours=1), gt=timedelta(), description="how often a runtime looks after its files"
    )
    maintenance_idle: Duration = Field(
        timedelta(seconds=30), ge=timedelta(), description="how long a house must be quiet before its files are tidied"
    )

    log: Literal["json", "text"] | None = Field(
        None, description="how logs are written; none leaves them to the process"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="which logs are written")

    tools: str = Field("memory,provenance", description="sets of tools that models are shown, with commas between")
    tools_backend: str = Field("substrate", description="what keeps memories by key: substrate, or a plugin's")
    graph_scope: GraphScope = Field("own", description="whose knowledge graph the graph tools work on")

    http_host: str = Field("127.0.0.1", description="address that HTTP and MCP are served on")
    http_port: int = Field(8420, ge=0, le=65_535, description="port that HTTP and MCP are served on; 0 is any free one")
    http_remote: bool = Field(
        False, description="allow an address other than loopback; needs TLS or a proxy that is trusted"
    )
    http_tls_cert: Path | None = Field(None, description="certificate to serve TLS with, PEM")
    http_tls_key: Path | None = Field(None, description="its private key, PEM")
    http_trusted_proxy: str | None = Field(
        None, description="address of the proxy that ends TLS, whose X-Forwarded headers are believed"
    )
    http_rate: float = Field(200, ge=0, le=1_000_000, description="requests a second that one token may make; 0: any")
    http_max_body_bytes: int = Field(1_048_576, ge=1, le=100_000_000, description="largest body of a request, in bytes")

    working_key: SecretStr | None = Field(
        None, description="key of what working memory keeps encrypted, 32 bytes in base64"
    )
    working_key_file: Path | None = Field(None, description="the same, from a file that only its owner can read")

    # Decoded here and not by the source of variables, whose error would keep those of all other fields from being told.
    agents: Annotated[Mapping[str, AgentSettings], NoDecode, BeforeValidator(_from_json)] = Field(
        default_factory=dict, description="what single agents have otherwise, by their name or id"
    )

    @property
    def tool_sets(self) -> tuple[str, ...]:
        """The names of the sets of tools, as they were listed."""
        return tuple(name for name in (one.strip() for one in self.tools.split(",")) if name)

    def for_agent(self, agent: UUID, name: str | None = None) -> Settings:
        """These settings as they are for one agent: what is said of its id, then of its name, then of all."""
        own: dict[str, object] = {}
        for called in (name, str(agent)):
            if called is not None and called in self.agents:
                own |= {field: value for field, value in self.agents[called] if value is not None}
        return self.model_copy(update=own) if own else self
