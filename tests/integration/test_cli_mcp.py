"""The commands for MCP: when it does not start, and what a client is told of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.shell import Shell


def test_it_does_not_start_without_a_token_that_holds(stranger: Shell) -> None:
    assert stranger.fails("mcp") == "not_authenticated"
    stranger.monkeypatch.setenv("SUBSTRATE_TOKEN", "sub_nonsense")
    said = stranger.run("mcp")
    assert (said.code, said.out) == (1, ""), "nothing that a client could take for an answer"
    assert "SUBSTRATE_TOKEN: " in said.err


def test_it_does_not_start_with_tools_that_there_are_not(shell: Shell) -> None:
    assert shell.fails("mcp", "--tools", "memory,nonsense") == "misconfigured"


def test_a_client_is_told_how_to_start_it_as_whom_one_is(shell: Shell) -> None:
    (entry,) = json.loads(shell("mcp-config"))["mcpServers"].values()
    assert Path(entry["command"]).name == "substrate"
    assert entry["args"][0] == "mcp"
    assert entry["args"][-2:] == ["--as", "ana"]
    (other,) = json.loads(shell("mcp-config", "--as", "bob"))["mcpServers"].values()
    assert other["args"][-2:] == ["--as", "bob"]


def test_no_secret_is_in_what_a_client_is_told(shell: Shell, tmp_path: Path) -> None:
    token = shell("token", "issue", "--show-token").split()[-1]
    assert token.startswith("sub_")
    file = tmp_path / "token"
    file.write_text(token)
    from_file = json.loads(shell("mcp-config", "--token-file", file))["mcpServers"]["substrate"]
    assert from_file["args"][-2:] == ["--token-file", str(file)]
    shell.monkeypatch.setenv("SUBSTRATE_TOKEN", token)
    for options in ((), ("--http",), ("--token-file", file)):
        assert "sub_" not in shell("mcp-config", *options)
    from_variable = json.loads(shell("mcp-config"))["mcpServers"]["substrate"]
    assert from_variable["env"] == {"SUBSTRATE_TOKEN": "${SUBSTRATE_TOKEN}"}


def test_a_client_over_http_is_told_the_address_and_to_send_a_token(shell: Shell) -> None:
    shell.monkeypatch.setenv("SUBSTRATE_HTTP_PORT", "8500")
    (entry,) = shell.json("mcp-config", "--http")["mcpServers"].values()
    assert entry["url"] == "http://127.0.0.1:8500/mcp"
    assert entry["headers"] == {"Authorization": "Bearer ${SUBSTRATE_TOKEN}"}
