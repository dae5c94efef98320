"""Who comes in over HTTP, and what is not there for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import pytest

from tests.served import Served, newcomer


def me(client: httpx.Client) -> str:
    found: str = client.get("/v1/whoami").json()["agent"]
    return found


@pytest.mark.parametrize("sent", [None, "Bearer", "Bearer x", "Basic eDp5", f"Bearer sub_{'A' * 64}", "Bearer sub_é"])
def test_without_a_good_token_nothing_is_answered_and_nothing_said(server: Served, sent: str | None) -> None:
    headers = {} if sent is None else {b"Authorization": sent.encode()}
    with server.client(None) as client:
        answers = [client.get("/v1/memories", headers=headers), client.post("/v1/search", json={}, headers=headers),
                   client.get(f"/v1/memories/{uuid4()}", headers=headers), client.get("/metrics", headers=headers),
                   client.post("/search", json={"query": "x"}, headers=headers)]  # fmt: skip
    for answer in answers:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert ("invalid_token" in answer.headers["www-authenticate"]) is (sent is not None)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "not_authenticated"


def test_a_token_says_who_one_is_and_what_one_reaches(server: Served) -> None:
    with server.client(server.owner) as owner:
        found = owner.get("/v1/whoami").json()
        assert (found["name"], found["house"]) == ("ana", str(server.house))
        assert {one["scope"]: one["rights"] for one in found["reaches"]}[str(server.house)] == "rwx"


def test_a_token_is_shown_once(server: Served) -> None:
    with newcomer(server) as kate:
        issued = kate.post("/v1/tokens", json={"rights": "r"}).json()
        listed = kate.get("/v1/tokens")
        assert issued["id"] in [one["id"] for one in listed.json()["tokens"]]
        assert issued["token"] not in listed.text
        assert "hash" not in listed.text


def test_a_narrower_token_may_read_and_not_write(server: Served) -> None:
    with newcomer(server) as kate:
        kate.post("/v1/memories", json={"content": "the cat is called Miez", "visible": True})
        narrow = kate.post("/v1/tokens", json={"rights": "r"}).json()["token"]
        with server.client(narrow) as reader:
            assert len(reader.post("/v1/search", json={"query": "cat"}).json()["results"]) == 1
            refused = reader.post("/v1/memories", json={"content": "no"})
            assert (refused.status_code, refused.json()["code"]) == (403, "denied")
            wider = reader.post("/v1/tokens", json={"rights": "rwx"})
            assert wider.status_code in (403, 404, 422)


def test_a_token_that_is_revoked_is_useless_with_the_next_request(server: Served) -> None:
    with newcomer(server) as kate:
        issued = kate.post("/v1/tokens", json={}).json()
        with server.client(issued["token"]) as other:
            assert other.get("/v1/whoami").status_code == 200
            assert kate.delete(f"/v1/tokens/{issued['id']}").status_code == 200
            assert other.get("/v1/whoami").status_code == 401
            assert other.post("/v1/search", json={"query": "x"}).status_code == 401


def test_a_token_that_has_expired_is_refused(server: Served) -> None:
    with newcomer(server) as kate:
        past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        issued = kate.post("/v1/tokens", json={"expires_at": past})
        assert issued.status_code == 201
        with server.client(issued.json()["token"]) as other:
            assert other.get("/v1/whoami").status_code == 401


def test_hidden_and_absent_give_the_same_answer(server: Served) -> None:
    with newcomer(server) as kate, newcomer(server) as leo:
        secret = leo.post("/v1/memories", json={"content": "a secret", "key": "k", "visible": True}).json()["memory"]
        leo.post("/v1/sessions", json={"id": "talk"})
        leos = me(leo)
        nobody = str(uuid4())
        pairs = [
            (f"/v1/memories/{secret}", f"/v1/memories/{nobody}"),
            (f"/v1/memories/{secret}/history", f"/v1/memories/{nobody}/history"),
            (f"/v1/memories/{secret}/why", f"/v1/memories/{nobody}/why"),
            (f"/v1/memories/{secret}/links", f"/v1/memories/{nobody}/links"),
            (f"/v1/memories?scope={leos}", f"/v1/memories?scope={nobody}"),
            (f"/v1/memories/by-key?key=k&scope={leos}", f"/v1/memories/by-key?key=k&scope={nobody}"),
            (f"/v1/manifest?scope={leos}", f"/v1/manifest?scope={nobody}"),
            (f"/v1/sessions/talk?group={leos}", f"/v1/sessions/talk?group={nobody}"),
            (f"/v1/sessions/talk/turns?group={leos}", f"/v1/sessions/talk/turns?group={nobody}"),
            (f"/memories/{secret}", f"/memories/{nobody}"),
        ]
        for hidden, absent in pairs:
            there, not_there = kate.get(hidden), kate.get(absent)
            assert there.status_code == not_there.status_code == 404, hidden
            assert _said(there, secret, leos) == _said(not_there, nobody), hidden
        assert "secret" not in kate.post("/v1/search", json={"query": "secret"}).text
        assert "secret" not in kate.get("/v1/stream").text


def _said(answer: httpx.Response, *ids: str) -> str:
    """The answer with the ids taken out that who asked had given."""
    text = answer.text
    for one in ids:
        text = text.replace(one, "…")
    return text


def test_what_one_sees_and_may_not_change_is_denied(server: Served) -> None:
    with newcomer(server) as kate, newcomer(server) as leo:
        shared = leo.post("/v1/memories", json={"content": "for all", "scope": "house"}).json()["memory"]
        refused = kate.patch(f"/v1/memories/{shared}", json={"content": "mine now"})
        assert (refused.status_code, refused.json()["code"]) == (403, "denied")


# ------------------------------------------------------------------ scopes, grants, promotion


def test_a_room_is_made_furnished_and_closed(server: Served) -> None:
    with server.client(server.owner) as owner:
        name = f"room-{uuid4()}"
        room = owner.post("/v1/scopes", json={"kind": "group", "name": name, "members": "r"}).json()
        assert (room["kind"], room["settings"]["members"]) == ("group", "r")
        path = f"/v1/scopes/{room['id']}"
        assert owner.put(f"{path}/name", json={"name": f"{name}!"}).json()["name"] == f"{name}!"
        changed = owner.patch(f"{path}/settings", json={"members": "rw", "writes_per_minute": 5}).json()["settings"]
        assert (changed["members"], changed["writes_per_minute"]) == ("rw", 5)
        inner = owner.post("/v1/scopes", json={"kind": "group", "name": f"{name}.2"}).json()["id"]
        assert owner.put(f"/v1/scopes/{inner}/parent", json={"parent": room["id"]}).json()["parent_id"] == room["id"]
        assert {one["status"] for one in owner.delete(path).json()["scopes"]} == {"removed"}


def test_a_grant_opens_a_room_and_taking_it_back_closes_it_at_once(server: Served) -> None:
    with server.client(server.owner) as owner, newcomer(server) as kate:
        room = owner.post("/v1/scopes", json={"kind": "group", "name": f"room-{uuid4()}"}).json()["id"]
        owner.put(f"/v1/scopes/{room}/grants/own", json={"rights": "rwx"})
        written = owner.post("/v1/memories", json={"content": "in the room", "scope": room}).json()
        assert kate.get(f"/v1/memories/{written['memory']}").status_code == 404
        granted = owner.put(f"/v1/scopes/{room}/grants/{me(kate)}", json={"rights": "r"})
        assert granted.status_code == 200
        assert kate.get(f"/v1/memories/{written['memory']}").status_code == 200
        listed = owner.get(f"/v1/scopes/{room}/grants").json()["grants"]
        assert {"grantee": me(kate), "rights": "r"} in listed
        owner.delete(f"/v1/scopes/{room}/grants/{me(kate)}")
        assert kate.get(f"/v1/memories/{written['memory']}").status_code == 404


def test_an_idempotent_scope_is_made_once(server: Served) -> None:
    with server.client(server.owner) as owner:
        body, key = {"kind": "group", "name": f"room-{uuid4()}"}, {"Idempotency-Key": str(uuid4())}
        first, again = (owner.post("/v1/scopes", json=body, headers=key) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json()["id"] == again.json()["id"]


def test_a_private_memory_reaches_the_house_when_its_owner_approves(server: Served) -> None:
    with server.client(server.owner) as owner, newcomer(server) as kate:
        memory = kate.post("/v1/memories", json={"content": "the boiler is old"}).json()["memory"]
        proposal = kate.post("/v1/promotions", json={"memory": memory, "reason": "all should know"}).json()
        assert kate.post(f"/v1/promotions/{proposal['id']}/approve").status_code == 403
        assert proposal["id"] in [one["id"] for one in owner.get("/v1/promotions").json()["proposals"]]
        approved = owner.post(f"/v1/promotions/{proposal['id']}/approve")
        assert approved.status_code == 201
        promoted = owner.get(f"/v1/memories/{approved.json()['memory']}").json()
        assert (promoted["content"], promoted["parent_id"]) == ("the boiler is old", str(server.house))
        late = owner.post(f"/v1/promotions/{proposal['id']}/decline", json={"reason": "no"})
        assert (late.status_code, late.json()["code"]) == (409, "wrong_state")
