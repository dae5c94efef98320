"""What goes wrong over HTTP: one form for every error, and limits that hold."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from substrate.doors.http.bodies import DEEPEST
from substrate.doors.http.serving import serving
from substrate.runtime.agent import HostedAgent
from tests.conftest import FreshDatabase
from tests.served import Served, newcomer, served
from tests.signals import until


def test_a_path_that_is_not_there_is_a_problem(server: Served) -> None:
    with server.client(None) as client:
        answer = client.get("/v1/nothing")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        wrong = client.delete("/v1/memories")
        assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
        assert wrong.headers["allow"]


def test_all_that_is_wrong_is_named_and_what_was_sent_is_not_repeated(server: Served) -> None:
    with newcomer(server) as kate:
        secret = "correct horse battery staple"
        answer = kate.post("/v1/memories", json={"content": 5, "kind": secret, "unknown": secret, "tags": [secret * 9]})
        assert answer.status_code == 422
        assert {one["at"] for one in answer.json()["errors"]} == {
            "body.content", "body.kind", "body.unknown", "body.tags.0",
        }  # fmt: skip
        assert secret not in answer.text


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b'{"content": NaN}', b'{"content": "x", "confidence": ' + b"9" * 5_000 + b"}", b"[" * 100_000,
     b'{"content": "\\ud800"}', b'{"content": "a\\u0000b"}', b"null", b"[]", b'"x"'],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused(server: Served, body: bytes) -> None:
    with newcomer(server) as kate:
        answer = kate.post("/v1/memories", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_json_is_nested_so_deep_and_no_deeper(server: Served) -> None:
    with newcomer(server) as kate:
        kate.post("/v1/sessions", json={"id": "deep"})

        def say(depth: int) -> int:
            metadata = json.loads("[" * depth + '"[[[["' + "]" * depth)
            turn = {"role": "user", "content": "[" * 500, "metadata": {"x": metadata}}
            return kate.post("/v1/sessions/deep/turns", json={"turns": [turn]}).status_code

        around = 4  # the body, the list of turns, the turn, its metadata
        assert say(DEEPEST - around) == 201
        assert say(DEEPEST - around + 1) == 422


def test_a_text_that_is_too_long_is_told_apart_from_one_that_is_wrong(server: Served) -> None:
    with newcomer(server) as kate:
        answer = kate.post("/v1/memories", json={"content": "x" * 70_000})
        assert (answer.status_code, answer.json()["code"]) == (413, "content_too_large")


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(server: Served) -> None:
    most = server.runtime.settings.http_max_body_bytes
    with newcomer(server) as kate:
        whole = kate.post("/v1/memories", json={"content": "x" * most})
        assert (whole.status_code, whole.json()["code"]) == (413, "content_too_large")

        def parts() -> Iterator[bytes]:
            for _ in range(most // 60_000 + 2):
                yield b" " * 60_000

        chunked = kate.post("/v1/memories", content=parts(), headers={"Content-Type": "application/json"})
        assert chunked.status_code == 413
        assert chunked.headers["content-type"] == "application/problem+json"


def test_an_unexpected_error_says_nothing_of_its_cause(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the cat is called Miez")

    with newcomer(server) as kate:
        monkeypatch.setattr(HostedAgent, "get", fail)
        with caplog.at_level(logging.INFO):
            answer = kate.get(f"/v1/memories/{uuid4()}?as=secret-in-a-query")
            until(lambda: " 500 " in _ours(caplog))  # a line is written when its answer is sent
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    logged = _ours(caplog)
    assert "Miez" not in answer.text + logged
    assert "RuntimeError" in logged
    assert "secret-in-a-query" not in logged


def test_the_log_says_path_and_status_and_no_token(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    with newcomer(server) as kate, caplog.at_level(logging.INFO):
        kate.get("/v1/memories", params={"key_prefix": "hush"})
        until(lambda: "GET /v1/memories 200" in _ours(caplog))
        token = kate.headers["authorization"].removeprefix("Bearer ")
    assert "hush" not in _ours(caplog)
    assert token not in caplog.text


def _ours(caplog: pytest.LogCaptureFixture) -> str:
    """What the server wrote, and not the client, which is in the same process."""
    return "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith("http"))


def test_a_name_that_is_not_this_machines_is_not_served(server: Served) -> None:
    with newcomer(server) as kate:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""):
            assert kate.get("/v1/whoami", headers={"Host": host}).status_code in (400, 421), host
        for host in ("localhost", "localhost:1", "127.0.0.1:99", "[::1]:5"):
            assert kate.get("/v1/whoami", headers={"Host": host}).status_code == 200, host


def test_behind_a_trusted_proxy_the_server_has_the_names_of_the_proxy(server: Served) -> None:
    behind = server.runtime.settings.model_copy(update={"http_trusted_proxy": "127.0.0.1"})
    with serving(server.runtime, behind) as url, server._replace(url=url).client(server.kate) as kate:
        assert kate.get("/v1/whoami", headers={"Host": "memory.example"}).status_code == 200
        # A message of MCP that says nothing gets as far as to be read.
        named = {"Host": "memory.example", "Accept": "application/json, text/event-stream"}
        assert kate.post("/mcp", json={}, headers=named).status_code == 400
        assert kate.post("/mcp", json={}, headers={**named, "Origin": "https://evil.example"}).status_code == 403


def test_no_header_says_what_serves(server: Served) -> None:
    with server.client(None) as client:
        assert "server" not in client.get("/health/live").headers


def test_each_token_has_a_rate_of_its_own(fresh_database: FreshDatabase, tmp_path: Path) -> None:
    with fresh_database() as urls, served(urls, tmp_path, http_rate=3) as slow:
        with slow.client(slow.kate) as kate, slow.client(slow.leo) as leo:
            answers = [kate.get("/v1/whoami") for _ in range(12)]
            refused = [one for one in answers if one.status_code == 429]
            assert refused
            assert answers[0].status_code == 200
            assert (refused[0].json()["code"], int(refused[0].headers["retry-after"])) == ("limit_exceeded", 1)
            assert leo.get("/v1/whoami").status_code == 200
            assert kate.get("/health/live").status_code == 200
        quick = slow.runtime.settings.model_copy(update={"http_rate": 0})
        with serving(slow.runtime, quick) as url, slow._replace(url=url).client(slow.kate) as kate:
            assert {kate.get("/v1/whoami").status_code for _ in range(12)} == {200}


def test_a_limit_of_the_house_is_a_429(server: Served) -> None:
    with server.client(server.owner) as owner, newcomer(server) as kate:
        agent = kate.get("/v1/whoami").json()["agent"]
        owner.patch(f"/v1/scopes/{agent}/settings", json={"memories_max": 1})
        assert kate.post("/v1/memories", json={"content": "one"}).status_code == 201
        over = kate.post("/v1/memories", json={"content": "two"})
        assert (over.status_code, over.json()["code"]) == (429, "limit_exceeded")


def test_what_is_held_is_not_erased(server: Served) -> None:
    with server.client(server.owner) as owner:
        memory = owner.post("/v1/memories", json={"content": "evidence"}).json()["memory"]
        owner.put(f"/v1/memories/{memory}/hold", json={"held": True})
        held = owner.post("/v1/erasures", json={"memory": memory})
        assert (held.status_code, held.json()["code"]) == (423, "legal_hold")
        owner.put(f"/v1/memories/{memory}/hold", json={"held": False})
        erased = owner.post("/v1/erasures", json={"memory": memory}).json()
        assert erased["erased"] == [memory]
        assert owner.get(f"/v1/memories/{memory}").json()["content"] is None
