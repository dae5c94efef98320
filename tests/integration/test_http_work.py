"""Sessions, runs and reminders over HTTP, and the indexes of the server."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from substrate.doors.http.run_handles import RunHandles
from substrate.errors import LimitExceeded
from tests.conftest import FreshDatabase
from tests.served import Served, newcomer, served
from tests.signals import until


def test_what_is_said_in_a_session_is_kept_in_order(server: Served) -> None:
    with newcomer(server) as kate:
        opened = kate.post("/v1/sessions", json={"id": "talk"})
        assert (opened.status_code, opened.json()["turns"]) == (201, 0)
        said = [{"role": "user", "content": f"thing {number}"} for number in range(5)]
        added = kate.post("/v1/sessions/talk/turns", json={"turns": said}).json()["turns"]
        assert [one["number"] for one in added] == [1, 2, 3, 4, 5]
        page = kate.get("/v1/sessions/talk/turns", params={"limit": 2}).json()
        assert ([one["number"] for one in page["turns"]], page["before"]) == ([4, 5], 4)
        first = kate.get("/v1/sessions/talk/turns", params={"limit": 3, "before": page["before"]}).json()
        assert ([one["content"] for one in first["turns"]], first["before"]) == (
            ["thing 0", "thing 1", "thing 2"],
            None,
        )
        assert [one["id"] for one in kate.get("/v1/sessions").json()["sessions"]] == ["talk"]
        assert kate.post("/v1/sessions/talk/close").json()["closed_at"] is not None


def test_a_turn_that_is_sent_again_is_there_once(server: Served) -> None:
    with newcomer(server) as kate:
        kate.post("/v1/sessions", json={"id": "talk"})
        body, key = {"turns": [{"role": "user", "content": "hello"}]}, {"Idempotency-Key": "t-1"}
        kate.post("/v1/sessions/talk/turns", json=body, headers=key)
        (again,) = kate.post("/v1/sessions/talk/turns", json=body, headers=key).json()["turns"]
        assert (again["number"], again["repeated"]) == (1, True)
        other = kate.post("/v1/sessions/talk/turns", json={"turns": [{"role": "user", "content": "x"}]}, headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def test_to_read_or_to_speak_in_a_session_does_not_begin_one(server: Served) -> None:
    with newcomer(server) as kate:
        assert kate.get("/v1/sessions/none").status_code == 404
        turns = {"turns": [{"role": "user", "content": "hello"}]}
        assert kate.post("/v1/sessions/none/turns", json=turns).status_code == 404
        assert kate.get("/v1/sessions").json()["sessions"] == []


def test_a_context_holds_what_is_known_and_what_was_said(server: Served) -> None:
    with newcomer(server) as kate:
        kate.post("/v1/memories", json={"content": "the cat is called Miez", "visible": True})
        kate.post("/v1/sessions", json={"id": "talk"})
        kate.post("/v1/sessions/talk/turns", json={"turns": [{"role": "user", "content": "who is the cat?"}]})
        found = kate.post("/v1/sessions/talk/context", json={"budget": 2_000}).json()
        assert "Miez" in found["text"]
        assert found["messages"][-1]["content"] == "who is the cat?"
        assert found["tokens"] <= 2_000


def test_a_run_is_told_of_and_looked_at(server: Served) -> None:
    with newcomer(server) as kate:
        run = kate.post("/v1/runs", json={"name": "answer mail", "session": "s-1"}).json()
        path = f"/v1/runs/{run['id']}"
        assert kate.post(f"{path}/events", json={"text": "read the letter", "data": {"pages": 2}}).status_code == 204
        assert kate.post(f"{path}/events", json={"kind": "tool_call", "text": "send_mail"}).status_code == 204
        evidence = {"run": run["id"]}
        memory = kate.post("/v1/memories", json={"content": "rent is due", "evidence": evidence}).json()["memory"]
        assert kate.post(f"{path}/finish", json={"status": "ok"}).json()["status"] == "ok"
        kinds = [one["kind"] for one in kate.get(f"{path}/events").json()["events"]]
        assert kinds == ["started", "step", "tool_call", "finished"]
        assert kate.get(f"/v1/memories/{memory}/why").json()["grounds"][0]["ran"]["name"] == "answer mail"
        assert [one["id"] for one in kate.get("/v1/runs").json()["runs"]] == [run["id"]]
        late = kate.post(f"{path}/events", json={"text": "one more"})
        assert (late.status_code, late.json()["code"]) == (409, "wrong_state")


def test_nobody_speaks_in_anothers_run(server: Served) -> None:
    with newcomer(server) as kate, newcomer(server) as leo:
        run = kate.post("/v1/runs", json={"name": "mine"}).json()["id"]
        hidden = leo.post(f"/v1/runs/{run}/events", json={"text": "hello"})
        absent = leo.post(f"/v1/runs/{uuid4()}/events", json={"text": "hello"})
        assert (hidden.status_code, absent.status_code) == (404, 404)
        reader = kate.post("/v1/tokens", json={"rights": "r"}).json()["token"]
        with server.client(reader) as narrow:
            assert narrow.post(f"/v1/runs/{run}/events", json={"text": "hello"}).status_code in (403, 409)
        assert kate.post(f"/v1/runs/{run}/finish").status_code == 200


def test_one_agent_does_not_take_the_runs_of_all(server: Served) -> None:
    kate, leo = server.runtime.agent(server.kate), server.runtime.agent(server.leo)
    handles = RunHandles(most_each=1)
    first = handles.add(kate.run("one"))
    with pytest.raises(LimitExceeded, match="of this agent"):
        handles.add(kate.run("two"))
    theirs = handles.add(leo.run("theirs"))
    handles.drop(first.id)
    for run in (first, theirs, handles.add(kate.run("three"))):
        run.finish()


def test_a_reminder_comes_into_the_inbox_and_is_read_there(server: Served) -> None:
    with newcomer(server) as kate:
        key = {"Idempotency-Key": "r-1"}
        body = {"message": "feed the cat", "due": "0s"}
        made, again = (kate.post("/v1/reminders", json=body, headers=key).json()["id"] for _ in range(2))
        assert made == again
        until(lambda: bool(kate.get("/v1/inbox").json()["deliveries"]))
        (found,) = kate.get("/v1/inbox").json()["deliveries"]
        assert (found["message"], found["reminder"]) == ("feed the cat", made)
        assert kate.post("/v1/inbox/read", json={"deliveries": [found["delivery_id"]]}).json() == {"marked": 1}
        assert kate.get("/v1/inbox").json()["deliveries"] == []


def test_a_reminder_is_due_at_a_time_by_the_clock_that_is_said(server: Served) -> None:
    with newcomer(server) as kate:
        asked = [{"due": "2030-01-31T09:00:00Z"}, {"due": "2030-01-31T09:00", "zone": "Europe/Berlin"}]
        first, second = (kate.post("/v1/reminders", json={"message": "the bins", **one}).json() for one in asked)
        assert (first["due_at"], second["due_at"]) == ("2030-01-31T09:00:00Z", "2030-01-31T08:00:00Z")
        moved = kate.put(f"/v1/reminders/{first['id']}/due", json={"due": "2030-02-01T10:00:00+01:00"})
        assert moved.json()["due_at"] == "2030-02-01T09:00:00Z"
        for bad in ("tomorrow", "2030-01-31T09:00"):
            refused = kate.post("/v1/reminders", json={"message": "the bins", "due": bad})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


def test_a_reminder_can_be_moved_and_cancelled(server: Served) -> None:
    with newcomer(server) as kate:
        path = f"/v1/reminders/{kate.post('/v1/reminders', json={'message': 'later', 'due': '2h'}).json()['id']}"
        due = kate.get(path).json()["due_at"]
        assert kate.put(f"{path}/due", json={"due": "3h"}).json()["due_at"] > due
        assert kate.post(f"{path}/snooze", json={"by": "10m"}).json()["due_at"] < due
        assert kate.delete(path).json()["state"] == "cancelled"
        late = kate.post(f"{path}/snooze")
        assert (late.status_code, late.json()["code"]) == (409, "wrong_state")


# ------------------------------------------------------------------ the server itself


def test_health_is_told_without_a_token_and_says_nothing_more(server: Served) -> None:
    with server.client(None) as client:
        assert client.get("/health/live").json() == {"status": "live"}
        assert client.get("/health/ready").json() == {"status": "ready"}


def test_metrics_are_for_who_manages_the_house_and_of_that_house_alone(server: Served) -> None:
    other = server.runtime.world.found_house("other", "eve")
    with server.client(other.token) as eve, newcomer(server) as kate, server.client(server.owner) as owner:
        eve.post("/v1/memories", json={"content": "hello", "visible": True})
        assert kate.get("/metrics").status_code == 403
        found = owner.get("/metrics")
        assert found.headers["content-type"].startswith("text/plain")
        assert f'substrate_stream_head{{house="{server.house}"}}' in found.text
        assert str(other.house.id) not in found.text
        assert "\nsubstrate_appends_total " not in found.text, "it counts what eve does, too"
        scrape = owner.post("/v1/tokens", json={"rights": "x"}).json()["token"]
    with server.client(scrape) as prometheus:
        assert prometheus.get("/metrics").status_code == 200
        assert prometheus.get("/v1/memories").json()["memories"] == []


def test_a_server_of_one_house_tells_what_it_counts(fresh_database: FreshDatabase, tmp_path: Path) -> None:
    with fresh_database() as urls, served(urls, tmp_path) as server, server.client(server.owner) as owner:
        owner.post("/v1/memories", json={"content": "hello"})
        assert "\nsubstrate_appends_total 1.0\n" in owner.get("/metrics").text


def test_indexes_say_where_they_are_and_counts_only_to_who_manages(server: Served) -> None:
    with newcomer(server) as kate, server.client(server.owner) as owner:
        seq = kate.post("/v1/memories", json={"content": "hello", "visible": True}).json()["seq"]
        found = {one["name"]: one for one in kate.get("/v1/projections").json()["projections"]}
        assert found["documents"]["position"] >= seq
        assert found["documents"]["pending"] is None
        assert kate.get("/v1/projections/dead-letters").status_code == 403
        assert owner.get("/v1/projections/dead-letters").json() == {"dead_letters": []}
        assert {one["dead_letters"] for one in owner.get("/v1/projections").json()["projections"]} == {0}


def test_a_rebuild_is_started_and_watched_by_who_manages_the_house(server: Served) -> None:
    with newcomer(server) as kate, server.client(server.owner) as owner:
        kate.post("/v1/memories", json={"content": "the cat is called Miez", "visible": True})
        assert kate.post("/v1/projections/rebuild").status_code == 403
        assert owner.post("/v1/projections/rebuild", json={"projections": ["nothing"]}).status_code == 422
        started = owner.post("/v1/projections/rebuild", json={"projections": ["fulltext"]})
        assert (started.status_code, started.json()["state"]) == (202, "running")
        until(lambda: owner.get("/v1/projections/rebuild").json()["state"] != "running")
        done = owner.get("/v1/projections/rebuild").json()
        assert (done["state"], done["id"]) == ("done", started.json()["id"])
        assert done["report"]["events"] > 0
        assert len(kate.post("/v1/search", json={"query": "cat"}).json()["results"]) == 1


def test_a_source_is_retracted_and_brought_back(server: Served) -> None:
    with server.client(server.owner) as owner:
        session = f"s-{uuid4()}"
        body = {"content": "the moon is cheese", "evidence": {"session": session}}
        path = f"/v1/memories/{owner.post('/v1/memories', json=body).json()['memory']}"
        done = owner.post("/v1/retractions", json={"by": "session", "value": session}).json()
        assert owner.get(path).json()["status"] == "forgotten"
        undone = owner.post(f"/v1/retractions/{done['correlation']}/undo")
        assert undone.status_code == 200
        assert owner.get(path).json()["status"] == "active"
