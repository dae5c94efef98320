"""Configuration files for tests: one as people bring it along, and the mistakes that one makes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from substrate.configuration import Configuration, Mistaken, examine

#: Every field that such a file has, as it is shown to new users: short-term, long-term, vectors.
BROUGHT = """\
short_term:
  max_history_turns: 50
  session_ttl: 24h
  max_sessions: 10000
long_term:
  backend: sqlite
  sqlite:
    path: ./data/memory.db
vector:
  enabled: false
  backend: sqlite-vec
  default_recall_mode: hybrid
  embedding:
    provider: http
    base_url: https://api.openai.com/v1
    model: text-embedding-3-small
    api_key: ${OPENAI_API_KEY}
    dimensions: 1536
    timeout_secs: 30
"""
SWITCHED_ON = BROUGHT.replace("enabled: false", "enabled: true")


def write(folder: Path, text: str) -> Path:
    file = folder / "memory.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def found(folder: Path, text: str, **given: object) -> Configuration:
    """What a file with this text gives; it must be without mistakes."""
    configuration = examine(write(folder, text), **given)
    assert isinstance(configuration, Configuration), configuration
    return configuration


def mistakes(folder: Path, text: str, **given: object) -> list[tuple[int | None, str, str]]:
    """What is wrong with it: line, field, message."""
    mistaken = examine(write(folder, text), **given)
    assert isinstance(mistaken, Mistaken), mistaken
    return [(one.line, one.field, one.message) for one in mistaken.problems]


def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.upper().startswith("SUBSTRATE_") or name == "OPENAI_API_KEY"]:
        monkeypatch.delenv(name)
