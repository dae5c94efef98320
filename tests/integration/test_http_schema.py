"""Whatever is sent by the OpenAPI document, or against it, is answered as the document says, and never with a 5xx."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from substrate.doors.http.app import document
from tests.served import Served

CHECKS = [checks.not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Its answer has no end; `test_http_stream` reads it.
ENDLESS = "/v1/stream/events"


@pytest.fixture(scope="module")
def there(server: Served) -> dict[str, Any]:
    """One of each, by the name of its parameter: else next to nothing would be found."""
    with server.client(server.owner) as owner:

        def made(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = owner.post(path, json=body)
            assert answer.status_code < 300, answer.text
            found: dict[str, Any] = answer.json()
            return found

        memory = made("/v1/memories", {"content": "the cat is called Miez", "tier": "hot", "visible": True})["memory"]
        return {
            "memory": memory,
            "to": made("/v1/memories", {"content": "the cat is three"})["memory"],
            "proposal": made("/v1/promotions", {"memory": memory})["id"],
            "scope": made("/v1/scopes", {"kind": "group", "name": "kitchen"})["id"],
            "session": made("/v1/sessions", {"id": "s-1"})["id"],
            "run": made("/v1/runs", {"name": "tidy up"})["id"],
            "reminder": made("/v1/reminders", {"message": "feed the cat", "due": "2h"})["id"],
            "token": made("/v1/tokens", {})["id"],
        }


def operations(*, every_limit: bool) -> schemathesis.BaseSchema:
    """All operations. With `every_limit` each bound of each field is tried, and methods that no path has: thousands."""
    found = schemathesis.openapi.from_dict(document()).exclude(path=ENDLESS)
    found.config.phases.coverage.enabled = every_limit
    return found


some, many = operations(every_limit=False), operations(every_limit=True)
bounded = partial(settings, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@some.parametrize()
@bounded(max_examples=10)
def test_no_answer_is_undocumented(case: schemathesis.Case[Any], server: Served, there: dict[str, Any]) -> None:
    sent(case, server, there)


@pytest.mark.long
@many.parametrize()
@bounded(max_examples=100)
def test_no_answer_is_undocumented_however_long_one_asks(
    case: schemathesis.Case[Any], server: Served, there: dict[str, Any]
) -> None:
    sent(case, server, there)


def sent(case: schemathesis.Case[Any], server: Served, there: dict[str, Any]) -> None:
    names = {name: value for name, value in there.items() if name in case.path_parameters}
    # Never the house or the owner themselves, nor a room that the others need: that would end all of this.
    if case.operation.label == "DELETE /v1/scopes/{scope}":
        names["scope"] = str(uuid4())
    case.path_parameters.update(names)
    headers = {"Authorization": f"Bearer {server.owner}"}
    case.call_and_validate(server.url, headers=headers, checks=CHECKS, timeout=20)


def test_the_owner_is_still_there_after_all_that(server: Served) -> None:
    with server.client(server.owner) as owner:
        assert owner.get("/v1/whoami").json()["reaches"][0]["rights"] == "rwx"
