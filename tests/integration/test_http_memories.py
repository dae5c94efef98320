"""Memories over HTTP: what every other door does, in HTTP's own words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.served import Served, newcomer


def remembered(client: httpx.Client, content: str, **more: Any) -> Any:
    answer = client.post("/v1/memories", json={"content": content, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_what_is_remembered_is_found_with_its_origin_and_without_a_score(server: Served) -> None:
    with newcomer(server) as kate:
        remembered(kate, "the cat is called Miez", tags=["pets"], visible=True)
        answer = kate.post("/v1/search", json={"query": "cat"}).json()
        (found,) = answer["results"]
        assert (found["content"], found["origin"], found["tags"]) == ("the cat is called Miez", "own", ["pets"])
        assert "score" not in found
        assert "sources" not in answer


def test_scores_are_told_to_who_asks_for_an_explanation(server: Served) -> None:
    with newcomer(server) as kate:
        remembered(kate, "the cat is called Miez", visible=True)
        (found,) = kate.post("/v1/search", json={"query": "cat", "explain": True}).json()["results"]
        assert found["score"] > 0


def test_a_search_at_least_at_the_position_of_a_write_sees_it(server: Served) -> None:
    with newcomer(server) as kate:
        seq = remembered(kate, "the kettle is new")["seq"]
        found = kate.post("/v1/search", json={"query": "kettle", "at_least": seq}).json()
        assert [one["content"] for one in found["results"]] == ["the kettle is new"]
        assert found["position"] >= seq


def test_a_position_that_is_nowhere_is_refused_at_once(server: Served) -> None:
    with newcomer(server) as kate:
        answer = kate.post("/v1/search", json={"query": "kettle", "at_least": 10**9, "timeout": 30})
        assert (answer.status_code, answer.json()["code"]) == (409, "stream_fault")


def test_filters_hold_before_the_limit(server: Served) -> None:
    with newcomer(server) as kate:
        for number in range(5):
            remembered(kate, f"the cat did thing {number}", tags=["noise"])
        remembered(kate, "the cat sleeps", tags=["calm"], kind="observation", visible=True)
        asked = {"query": "cat", "limit": 1, "tags": ["calm"], "kind": ["observation"]}
        assert [one["content"] for one in kate.post("/v1/search", json=asked).json()["results"]] == ["the cat sleeps"]


def test_a_memory_has_its_version_as_etag_and_is_not_sent_twice(server: Served) -> None:
    with newcomer(server) as kate:
        path = f"/v1/memories/{remembered(kate, 'the cat is called Miez')['memory']}"
        first = kate.get(path)
        assert first.headers["etag"] == '"1"'
        again = kate.get(path, headers={"If-None-Match": '"1"'})
        assert (again.status_code, again.content) == (304, b"")
        kate.patch(path, json={"title": "cat"})
        assert kate.get(path, headers={"If-None-Match": '"1"'}).status_code == 200


def test_a_revision_with_if_match_is_refused_when_somebody_was_faster(server: Served) -> None:
    with newcomer(server) as kate:
        path = f"/v1/memories/{remembered(kate, 'the cat is three')['memory']}"
        first = kate.patch(path, json={"content": "the cat is four"}, headers={"If-Match": '"1"'})
        assert (first.status_code, first.headers["etag"]) == (200, '"2"')
        late = kate.patch(path, json={"content": "the cat is five"}, headers={"If-Match": '"1"'})
        assert (late.status_code, late.json()["code"]) == (412, "stale")
        assert kate.get(path).json()["content"] == "the cat is four"


def test_a_null_takes_a_value_away_and_what_is_not_sent_stays(server: Served) -> None:
    with newcomer(server) as kate:
        path = f"/v1/memories/{remembered(kate, 'the cat is three', title='cat', tags=['pets'])['memory']}"
        kate.patch(path, json={"title": None})
        found = kate.get(path).json()
        assert (found["title"], found["tags"], found["content"]) == (None, ["pets"], "the cat is three")


def test_a_memory_lives_through_all_its_changes(server: Served) -> None:
    with newcomer(server) as kate:
        path = f"/v1/memories/{remembered(kate, 'the cat is three')['memory']}"
        assert kate.post(f"{path}/reinforce").json()["version"] == 2
        assert kate.put(f"{path}/tier", json={"tier": "hot"}).json()["version"] == 3
        assert kate.delete(path, params={"reason": "wrong"}).json()["version"] == 4
        assert kate.post(f"{path}/restore").json()["version"] == 5
        newer = kate.post(f"{path}/supersede", json={"content": "the cat is four"})
        assert newer.status_code == 201
        assert kate.get(path).json()["superseded_by"] == newer.json()["memory"]
        types = [one["type"] for one in kate.get(f"{path}/history").json()["changes"]]
        assert types == ["MemoryLearned", "MemoryReinforced", "TierChanged", "MemoryForgotten", "MemoryRestored",
                         "MemorySuperseded"]  # fmt: skip


def test_links_lead_from_one_memory_to_another(server: Served) -> None:
    with newcomer(server) as kate:
        cat, bowl = (remembered(kate, said, visible=True)["memory"] for said in ("the cat", "the bowl"))
        linked = kate.put(f"/v1/memories/{cat}/links/uses/{bowl}", json={"weight": 2})
        assert linked.status_code == 200
        (link,) = kate.get(f"/v1/memories/{cat}/links").json()["links"]
        assert (link["relation"], link["to_id"], link["weight"]) == ("uses", bowl, 2)
        kate.post("/v1/search", json={"query": "cat", "at_least": linked.json()["seq"]})
        (near,) = kate.get(f"/v1/memories/{cat}/neighbours").json()["neighbours"]
        assert (near["memory"], near["content"]) == (bowl, "the bowl")
        kate.delete(f"/v1/memories/{cat}/links/uses/{bowl}")
        assert kate.get(f"/v1/memories/{cat}/links").json() == {"links": []}


def test_why_leads_to_the_evidence(server: Served) -> None:
    with newcomer(server) as kate:
        evidence = {"method": "told", "session": "s-1", "messages": ["m-1"], "quote": "she is called Miez"}
        memory = remembered(kate, "the cat is called Miez", evidence=evidence)["memory"]
        why = kate.get(f"/v1/memories/{memory}/why").json()
        assert why["grounds"][0]["evidence"]["session"] == "s-1"
        assert why["grounds"][0]["quote"] == "she is called Miez"
        derived = {"derived_from": [{"memory": memory, "version": 1}]}
        summary = remembered(kate, "there is a cat", evidence=derived)["memory"]
        assert kate.get(f"/v1/memories/{summary}/why").json()["derived_from"][0]["memory"]["id"] == memory


def test_the_past_is_answered_as_it_was(server: Served) -> None:
    with newcomer(server) as kate:
        written = remembered(kate, "the cat is three")
        path = f"/v1/memories/{written['memory']}"
        kate.patch(path, json={"content": "the cat is four"})
        assert kate.get(path, params={"as_of": written["seq"]}).json()["content"] == "the cat is three"
        assert kate.get(path, params={"as_of": written["recorded_at"]}).json()["content"] == "the cat is three"
        then = kate.get("/v1/memories/as-of", params={"when": written["seq"], "scope": "own"}).json()
        assert [one["content"] for one in then["memories"]] == ["the cat is three"]
        changed = kate.get("/v1/diff", params={"since": written["seq"], "until": written["seq"] + 1}).json()["changed"]
        assert changed[0]["fields"]["content"] == {"old": "the cat is three", "new": "the cat is four"}


def test_pages_by_cursor_hold_each_memory_once(server: Served) -> None:
    with newcomer(server) as kate:
        said = [remembered(kate, f"thing {number}")["memory"] for number in range(7)]
        found: list[str] = []
        asked: dict[str, str | int] | None = {"scope": "own", "limit": 3}
        while asked is not None:
            page = kate.get("/v1/memories", params=asked).json()
            found += [one["id"] for one in page["memories"]]
            asked = None if page["next"] is None else {**asked, "cursor": page["next"]}
        assert found == said[::-1]


@pytest.mark.parametrize("cursor", ["x", "e30=", "WzEsMl0=", "WyIyMDI2IiwgIngiXQ==", "\x00", "é", "=" * 3_000])
def test_a_cursor_that_nobody_gave_is_refused(server: Served, cursor: str) -> None:
    with newcomer(server) as kate:
        for path in ("/v1/memories", "/v1/sessions", "/v1/runs"):
            answer = kate.get(path, params={"cursor": cursor})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), path


def test_a_key_names_a_memory_and_the_nearest_wins(server: Served) -> None:
    with newcomer(server) as kate:
        key = f"cat-{uuid4()}"
        remembered(kate, "of the house", key=key, scope="house")
        remembered(kate, "my own", key=key)
        assert kate.get("/v1/memories/by-key", params={"key": key}).json()["content"] == "my own"
        there = kate.get("/v1/memories/by-key", params={"key": key, "scope": "house"}).json()
        assert there["content"] == "of the house"
        again = kate.post("/v1/memories", json={"content": "another", "key": key})
        assert (again.status_code, again.json()["code"]) == (409, "duplicate_key")


def test_one_of_many_that_fails_does_not_keep_the_others(server: Served) -> None:
    with newcomer(server) as kate:
        body = {"memories": [{"content": "one"}, {"content": "two", "scope": str(uuid4())}, {"content": "three"}]}
        first, second, third = kate.post("/v1/memories/batch", json=body).json()["results"]
        assert (first["version"], second["code"], third["version"]) == (1, "not_found", 1)


# ------------------------------------------------------------------ sending again


def test_the_same_key_gives_the_first_answer_and_writes_nothing_twice(server: Served) -> None:
    with newcomer(server) as kate:
        key = {"Idempotency-Key": "k-1"}
        first = kate.post("/v1/memories", json={"content": "the cat is called Miez", "tags": ["a"]}, headers=key).json()
        again = kate.post("/v1/memories", json={"content": "the cat is called Miez", "tags": ["a"]}, headers=key).json()
        assert again == first | {"repeated": True}
        assert len(kate.get("/v1/memories", params={"scope": "own"}).json()["memories"]) == 1


def test_the_same_key_with_another_payload_is_a_conflict(server: Served) -> None:
    with newcomer(server) as kate:
        key = {"Idempotency-Key": "k-1"}
        kate.post("/v1/memories", json={"content": "the cat is called Miez"}, headers=key)
        other = kate.post("/v1/memories", json={"content": "the dog is called Rex"}, headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
        assert other.json()["detail"].startswith("this Idempotency-Key was used before")


def test_the_same_key_of_two_agents_is_two_events(server: Served) -> None:
    key = {"Idempotency-Key": "k-1"}
    with newcomer(server) as kate, newcomer(server) as leo:
        mine, other = (one.post("/v1/memories", json={"content": "hello"}, headers=key).json() for one in (kate, leo))
        assert mine["memory"] != other["memory"]
        assert not other["repeated"]


def test_the_same_key_for_two_memories_is_two_events(server: Served) -> None:
    with newcomer(server) as kate:
        key = {"Idempotency-Key": "k-1"}
        for one in ("first", "second"):
            path = f"/v1/memories/{remembered(kate, one)['memory']}"
            assert kate.patch(path, json={"title": "t"}, headers=key).json()["repeated"] is False
            assert kate.patch(path, json={"title": "t"}, headers=key).json()["repeated"] is True


def test_repeats_at_the_same_time_write_once(server: Served) -> None:
    with newcomer(server) as kate, ThreadPoolExecutor(8) as threads:

        def send(_: int) -> Any:
            key = {"Idempotency-Key": "k-many"}
            answer = kate.post("/v1/memories", json={"content": "once", "tags": ["x"]}, headers=key)
            assert answer.status_code == 201, answer.text
            return answer.json()

        answers = list(threads.map(send, range(16)))
        assert len({one["memory"] for one in answers}) == 1
        assert len(kate.get("/v1/memories", params={"scope": "own"}).json()["memories"]) == 1


# ------------------------------------------------------------------ for mem0's users


def test_the_routes_of_mem0_answer_in_its_shapes(server: Served) -> None:
    with newcomer(server) as kate:
        said = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "I like tea"}]
        added = kate.post("/memories", json={"messages": said, "user_id": "alice", "metadata": {"topic": "drinks"}})
        (one,) = added.json()["results"]
        assert (one["memory"], one["event"]) == ("I like tea", "ADD")
        item = kate.get(f"/memories/{one['id']}").json()
        assert (item["memory"], item["user_id"], item["metadata"]) == ("I like tea", "alice", {"topic": "drinks"})
        assert [r["id"] for r in kate.get("/memories", params={"user_id": "alice"}).json()["results"]] == [one["id"]]
        assert kate.get("/memories", params={"user_id": "bob"}).json() == {"results": []}
        found = kate.post("/search", json={"query": "tea", "user_id": "alice"}).json()["results"]
        assert [r["memory"] for r in found] == ["I like tea"]
        assert kate.put(f"/memories/{one['id']}", json={"text": "I like coffee"}).status_code == 200
        kate.delete(f"/memories/{one['id']}")
        assert kate.get(f"/memories/{one['id']}").status_code == 404
        steps = kate.get(f"/memories/{one['id']}/history").json()
        assert [(s["event"], s["old_memory"], s["new_memory"]) for s in steps] == [
            ("ADD", None, "I like tea"),
            ("UPDATE", "I like tea", "I like coffee"),
            ("DELETE", "I like coffee", None),
        ]


def test_a_user_id_in_a_body_widens_nothing(server: Served) -> None:
    with newcomer(server) as kate, newcomer(server) as leo:
        me = leo.get("/v1/whoami").json()["agent"]
        (one,) = leo.post(
            "/memories", json={"messages": [{"role": "user", "content": "a secret"}], "user_id": me}
        ).json()["results"]
        for label in ("user_id", "agent_id", "run_id"):
            assert kate.get("/memories", params={label: me}).json() == {"results": []}
            assert kate.post("/search", json={"query": "secret", label: me}).json() == {"results": []}
        assert kate.get(f"/memories/{one['id']}").status_code == 404
        kate.post("/memories", json={"messages": [{"role": "user", "content": "mine"}], "user_id": me, "agent_id": me})
        assert [r["memory"] for r in leo.get("/memories", params={"user_id": me}).json()["results"]] == ["a secret"]
