"""The stream over HTTP: pages, and events as they happen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx
import pytest

from substrate.doors.http.following import Followers
from substrate.errors import LimitExceeded
from tests.served import Served, newcomer


class Told(NamedTuple):
    """One server-sent event."""

    id: int | None
    type: str
    data: Any


@contextmanager
def following(client: httpx.Client, after: int = 0, **headers: str) -> Iterator[Iterator[Told]]:
    with client.stream("GET", "/v1/stream/events", params={"after": after}, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _told(response.iter_lines())


def _told(lines: Iterator[str]) -> Iterator[Told]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                ident = fields.get("id")
                yield Told(None if ident is None else int(ident), fields["event"], json.loads(fields["data"]))
            fields = {}


def wrote(client: httpx.Client, content: str) -> int:
    seq: int = client.post("/v1/memories", json={"content": content}).json()["seq"]
    return seq


def head(client: httpx.Client) -> int:
    found: int = client.get("/v1/stream", params={"limit": 1}).json()["head"]
    return found


def test_pages_go_on_where_the_last_one_ended(server: Served) -> None:
    with newcomer(server) as kate:
        first = head(kate)
        said = [wrote(kate, f"thing {number}") for number in range(5)]
        found, after = [], first
        while True:
            page = kate.get("/v1/stream", params={"after": after, "limit": 2}).json()
            found += [one["seq"] for one in page["events"]]
            after = page["through"]
            if after == page["head"]:
                break
        assert found == said


def test_a_log_that_is_not_the_one_that_was_read_is_noticed(server: Served) -> None:
    with newcomer(server) as kate:
        page = kate.get("/v1/stream", params={"limit": 3}).json()
        known = {"after": page["through"], "hash_after": page["hash"]}
        assert kate.get("/v1/stream", params=known).status_code == 200
        other = kate.get("/v1/stream", params=known | {"hash_after": "00" * 32})
        assert (other.status_code, other.json()["code"]) == (409, "stream_fault")
        assert kate.get("/v1/stream", params={"after": 10**9}).status_code == 409


def test_a_reader_gets_what_was_and_then_what_comes(server: Served) -> None:
    with newcomer(server) as kate:
        first = head(kate)
        before = wrote(kate, "before")
        with following(kate, first) as events:
            assert next(events).id == before
            after = wrote(kate, "after")
            told = next(events)
            assert (told.id, told.type, told.data["payload"]["content"]) == (after, "MemoryLearned", "after")


def test_a_reader_who_comes_back_misses_nothing_and_hears_nothing_twice(server: Served) -> None:
    with newcomer(server) as kate:
        first = head(kate)
        one = wrote(kate, "one")
        with following(kate, first) as events:
            last = next(events).id
        assert last == one
        two = wrote(kate, "two")
        with following(kate, 0, **{"Last-Event-ID": str(last)}) as events:
            assert next(events).id == two


def test_a_reader_hears_only_what_it_may_read(server: Served) -> None:
    with newcomer(server) as kate, newcomer(server) as leo:
        first = head(kate)
        with following(kate, first) as events:
            wrote(leo, "a secret of leo's")
            own = wrote(kate, "mine")
            assert next(events).id == own


def test_a_reader_whose_token_is_revoked_is_shown_out_at_once(server: Served) -> None:
    with newcomer(server) as kate:
        issued = kate.post("/v1/tokens", json={}).json()
        with server.client(issued["token"]) as other, following(other, head(kate)) as events:
            kate.delete(f"/v1/tokens/{issued['id']}")
            assert [(one.type, one.data["code"]) for one in events] == [("end", "not_found")]


def test_a_reader_who_asks_from_beyond_the_end_is_told_so(server: Served) -> None:
    with newcomer(server) as kate, following(kate, 10**9) as events:
        assert [(one.type, one.data["code"]) for one in events] == [("end", "stream_fault")]


@pytest.mark.parametrize("ident", ["x", "-1", "1.5", "9" * 30])
def test_a_last_event_id_that_nobody_gave_is_refused(server: Served, ident: str) -> None:
    with newcomer(server) as kate:
        answer = kate.get("/v1/stream/events", headers={"Last-Event-ID": ident})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_there_are_only_so_many_readers(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Followers, "join", _full)
    with newcomer(server) as kate:
        assert kate.get("/v1/stream/events").status_code == 429


def _full(followers: Followers, agent: UUID) -> None:
    followers._most = 0
    try:
        _join(followers, agent)
    finally:
        followers._most = 1_000


_join = Followers.join


def test_one_agent_does_not_take_the_places_of_all_readers(server: Served) -> None:
    kate, leo = uuid4(), uuid4()
    followers = Followers(server.runtime, most_each=1)
    followers.join(kate)
    with pytest.raises(LimitExceeded, match="of this agent"):
        followers.join(kate)
    followers.join(leo)
    followers.leave(kate)
    followers.join(kate)
    assert followers.count == 2
