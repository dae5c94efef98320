"""Versions of memories as entity tags: `ETag` says which one an answer is, `If-Match` which one is expected."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Response

IfMatch = Annotated[
    str | None,
    Header(
        pattern=r'^(\*|"[0-9]{1,18}")$',
        description='The version that is expected, as in `ETag`: `"3"`; another is a 412.',
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(description="The version that is known already; if it is still that one, the answer is a 304.")
]


def tag(version: int) -> str:
    return f'"{version}"'


async def expected_version(if_match: IfMatch = None) -> int | None:
    """The version that the caller expects, if it is one and not any."""
    return None if if_match is None or if_match == "*" else int(if_match.strip('"'))


ExpectedVersion = Annotated[int | None, Depends(expected_version)]


def unchanged(version: int, if_none_match: str | None) -> Response | None:
    """A 304, where the caller has this version already."""
    if if_none_match is None:
        return None
    known = {one.strip().removeprefix("W/") for one in if_none_match.split(",")}
    return Response(status_code=304, headers={"ETag": tag(version)}) if known & {tag(version), "*"} else None
