"""What a process is told from outside: every field has an environment twin `SUBSTRATE_<NAME>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Configuration from the environment. Secrets are wrapped, so they never show in a repr, a log or an error."""

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
    max_staleness: float = Field(
        30, gt=0, le=86_400, description="seconds without news of the stream after which only own memories are recalled"
    )
    audit_reads: bool = Field(False, description="write an event of what each recall gave to whom")
    reranker: str = Field("none", description="what reorders the best candidates: cross-encoder, none, or a plugin's")
