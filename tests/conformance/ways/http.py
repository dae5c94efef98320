"""The HTTP API, with httpx: a server on loopback that all tokens share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import UUID

import httpx

from tests.conformance.door import Door, Marks, Probe, Refused, Seen, Way


class HttpDoor(Door):
    def __init__(self, client: httpx.Client) -> None:
        super().__init__()
        self._client = client

    def ask(self, method: str, path: str, **how: Any) -> Any:
        """The document that is answered. Status and headers are written down, too."""
        answer = self._client.request(method, path, **how)
        headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
        self.heard.append(f"{answer.status_code} {headers} {answer.text}")
        assert answer.status_code < 500, answer.text
        assert answer.status_code != httpx.codes.METHOD_NOT_ALLOWED, f"{method} {path}"
        if answer.is_error:
            assert answer.json()["detail"] != "there is no such path", f"{method} {path}"
            raise Refused(answer.json()["code"], answer.json()["detail"])
        return answer.json() if answer.content else None

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        headers = {} if event_id is None else {"Idempotency-Key": str(event_id)}
        body = {"content": content, "key": key, "scope": "house" if house else "own", "visible": True}
        return str(self.ask("POST", "/v1/memories", json=body, headers=headers)["memory"])

    def recall(self, query: str) -> list[Seen]:
        found = self.ask("POST", "/v1/search", json={"query": query})["results"]
        return [Seen(one["memory"], one["content"], one.get("key")) for one in found]

    def _catch_up(self, written: Mapping[str, Any]) -> None:
        self._client.post("/v1/search", json={"query": "anything", "at_least": written["seq"]}).raise_for_status()

    def forget(self, ident: str) -> None:
        self._catch_up(self.ask("DELETE", f"/v1/memories/{ident}"))

    def get(self, ident: str) -> Seen:
        return _seen(self.ask("GET", f"/v1/memories/{ident}"))

    def get_by_key(self, key: str) -> Seen:
        return _seen(self.ask("GET", "/v1/memories/by-key", params={"key": key}))

    def listed(self) -> list[Seen]:
        return [_seen(one) for one in self.ask("GET", "/v1/memories", params={"limit": 1_000})["memories"]]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        headers = {} if expected_version is None else {"If-Match": f'"{expected_version}"'}
        self._catch_up(self.ask("PATCH", f"/v1/memories/{ident}", json={"content": content}, headers=headers))

    def why(self, ident: str) -> None:
        self.ask("GET", f"/v1/memories/{ident}/why")

    def history(self, ident: str) -> list[str]:
        return [change["type"] for change in self.ask("GET", f"/v1/memories/{ident}/history")["changes"]]

    def propose(self, ident: str) -> None:
        self.ask("POST", "/v1/promotions", json={"memory": ident})

    def link(self, ident: str, relation: str, other: str) -> None:
        self.ask("PUT", f"/v1/memories/{ident}/links/{relation}/{other}", json={})

    def linked(self, ident: str) -> list[str]:
        return [link["to_id"] for link in self.ask("GET", f"/v1/memories/{ident}/links")["links"]]


def _seen(one: Mapping[str, Any]) -> Seen:
    return Seen(one["id"], one["content"], one["key"], one["version"])


def _derived(door: HttpDoor, marks: Marks) -> object:
    evidence = {"method": "inferred", "derived_from": [{"memory": marks.memory, "version": 1}]}
    return door.ask("POST", "/v1/memories", json={"content": "mine", "evidence": evidence})


def _search(door: HttpDoor, marks: Marks, **how: object) -> object:
    return door.ask("POST", "/v1/search", json={"query": marks.word, **how})


PROBES: Mapping[str, Probe] = {
    "a version of it, if it is": lambda d, m: d.ask(
        "GET", f"/v1/memories/{m.memory}", headers={"If-None-Match": '"2"'}
    ),
    "restore": lambda d, m: d.ask("POST", f"/v1/memories/{m.forgotten}/restore"),
    "reinforce": lambda d, m: d.ask("POST", f"/v1/memories/{m.memory}/reinforce"),
    "supersede": lambda d, m: d.ask("POST", f"/v1/memories/{m.memory}/supersede", json={"content": "mine"}),
    "set_tier": lambda d, m: d.ask("PUT", f"/v1/memories/{m.memory}/tier", json={"tier": "hot"}),
    "hold": lambda d, m: d.ask("PUT", f"/v1/memories/{m.memory}/hold", json={"held": True}),
    "neighbours": lambda d, m: d.ask("GET", f"/v1/memories/{m.memory}/neighbours"),
    "unlink": lambda d, m: d.ask("DELETE", f"/v1/memories/{m.memory}/links/about/{m.forgotten}"),
    "erase": lambda d, m: d.ask("POST", "/v1/erasures", json={"memory": m.memory}),
    "derive from it": _derived,
    "its past": lambda d, m: d.ask("GET", f"/v1/memories/{m.memory}", params={"as_of": m.position}),
    "what was known then": lambda d, m: d.ask("GET", "/v1/memories/as-of", params={"when": m.position}),
    "a search of then": lambda d, m: _search(d, m, as_of=m.position),
    "a search at their position": lambda d, m: _search(d, m, at_least=m.position),
    "a search by key": lambda d, m: _search(d, m, key=m.key, status="any"),
    "a search of what they taught": lambda d, m: _search(d, m, taught_by=m.agent),
    "a search in their scope": lambda d, m: _search(d, m, scope=m.agent),
    "a list of their scope": lambda d, m: d.ask("GET", "/v1/memories", params={"scope": m.agent}),
    "a list by tag": lambda d, m: d.ask("GET", "/v1/memories", params={"tags": m.tag, "status": "any"}),
    "a list from their cursor": lambda d, m: d.ask("GET", "/v1/memories", params={"cursor": m.cursor, "limit": 1}),
    "headers of their scope": lambda d, m: d.ask("GET", "/v1/manifest", params={"scope": m.agent}),
    "the stream": lambda d, m: d.ask("GET", "/v1/stream", params={"after": m.position - 1}),
    "changes of their scope": lambda d, m: d.ask(
        "GET", "/v1/diff", params={"since": 1, "until": m.position, "scope": m.agent}
    ),
    "remember in their scope": lambda d, m: d.ask("POST", "/v1/memories", json={"content": "mine", "scope": m.agent}),
    "their session": lambda d, m: d.ask("GET", f"/v1/sessions/{m.session}"),
    "its turns": lambda d, m: d.ask("GET", f"/v1/sessions/{m.session}/turns", params={"group": m.agent}),
    "sessions of theirs": lambda d, m: d.ask("GET", "/v1/sessions", params={"group": m.agent}),
    "their run": lambda d, m: d.ask("GET", f"/v1/runs/{m.run}"),
    "what happened in it": lambda d, m: d.ask("GET", f"/v1/runs/{m.run}/events"),
    "runs of theirs": lambda d, m: d.ask("GET", "/v1/runs", params={"agent": m.agent}),
    "end their run": lambda d, m: d.ask("POST", f"/v1/runs/{m.run}/finish", json={}),
    "their reminder": lambda d, m: d.ask("GET", f"/v1/reminders/{m.reminder}"),
    "cancel their reminder": lambda d, m: d.ask("DELETE", f"/v1/reminders/{m.reminder}"),
    "their proposal": lambda d, m: d.ask("GET", f"/v1/promotions/{m.proposal}"),
    "approve it": lambda d, m: d.ask("POST", f"/v1/promotions/{m.proposal}/approve", json={}),
    "a right on their scope": lambda d, m: d.ask("PUT", f"/v1/scopes/{m.agent}/grants/{m.agent}", json={"rights": "r"}),
    "grants on their scope": lambda d, m: d.ask("GET", f"/v1/scopes/{m.agent}/grants"),
    "a token of theirs": lambda d, m: d.ask("POST", "/v1/tokens", json={"agent": m.agent}),
    "as mem0 has it": lambda d, m: d.ask("GET", f"/memories/{m.memory}"),
    "its history, as mem0 has it": lambda d, m: d.ask("GET", f"/memories/{m.memory}/history"),
    "all of theirs, as mem0 has it": lambda d, m: d.ask("GET", "/memories", params={"user_id": m.agent}),
    "a search, as mem0 has it": lambda d, m: d.ask("POST", "/search", json={"query": m.word, "user_id": m.agent}),
    "delete it, as mem0 has it": lambda d, m: d.ask("DELETE", f"/memories/{m.memory}"),
    "metrics": lambda d, _: d.ask("GET", "/v1/projections"),
}


class HttpWay(Way):
    name = "http"
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    @contextmanager
    def door(self, token: str) -> Iterator[HttpDoor]:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=self.premises.url, headers=headers, timeout=20) as client:
            yield HttpDoor(client)
