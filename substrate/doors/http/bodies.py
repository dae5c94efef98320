"""Bodies as they are read: JSON and nothing beside it, and not nested without end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from substrate.doors.http import problems

#: Objects and lists within each other; nothing of ours needs more than a few.
DEEPEST = 64
#: Texts, and what is no bracket; a bracket of one kind counts as the other.
# Possessive, and the last quote may be missing: so it never looks at anything twice, whatever is sent.
_QUOTED, _NO_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL), re.compile(r"[^\[\]{}]+")
_ONE_KIND = str.maketrans("{}", "[]")


class Body(BaseModel):
    """Base of what is sent: a name that is not known is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid")


def router(tag: str) -> APIRouter:
    """The routes of one noun."""
    return APIRouter(tags=[tag], route_class=CheckedRoute, responses=problems.documented())


class CheckedJson(Request):
    """A request whose JSON is refused if it is nested too deeply, or says what JSON cannot."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class CheckedRoute(APIRoute):
    """A route that reads its body as `CheckedJson`."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            answer: Response = await handle(CheckedJson(request.scope, request.receive))
            return answer

        return checked


def read_json(body: bytes) -> Any:
    """What a body says. Raises `json.JSONDecodeError` for whatever is wrong with it: too deep, too long a number, NaN."""
    try:
        text = body.decode()
        if _too_deep(text):
            raise _refused("it is nested too deeply, or not closed")
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise _refused("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise _refused("a number in it has too many digits, or is none") from None


def _too_deep(text: str) -> bool:
    # Few brackets cannot be deep, and counting them is quick; only who has many is looked at closely.
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    # Nothing is looked at a character at a time: this runs in the loop, before anybody was asked for a token.
    left = _NO_BRACKETS.sub("", _QUOTED.sub("", text)).translate(_ONE_KIND)
    for _ in range(DEEPEST):
        if "[]" not in left:
            break
        left = left.replace("[]", "")  # the innermost
    return bool(left)


def _no_constant(_: str) -> NoReturn:
    raise _refused("NaN and Infinity are no JSON")


def _refused(why: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(why, "", 0)
