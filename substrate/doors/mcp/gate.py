"""What is let through to the SDK: JSON-RPC messages that it knows, and nothing else.

The SDK writes what it cannot validate to the log of the process, with all that was in it. So whatever it would not accept is
answered here, in words that quote nothing. This server asks its clients for nothing, so no answer of theirs is wanted either.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from mcp import types
from pydantic import ValidationError
from pydantic_core import from_json

METHODS = frozenset(one.model_fields["method"].default for one in get_args(types.ClientRequestType))


class Refusal(NamedTuple):
    """The JSON-RPC error that a message is answered with. `ident` is None where it could not be read."""

    ident: str | int | None
    code: int
    message: str

    @property
    def malformed(self) -> bool:
        """It is not even a request."""
        return self.code in (types.PARSE_ERROR, types.INVALID_REQUEST)

    def body(self) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.ident, "error": {"code": self.code, "message": self.message}}


def admitted(raw: bytes) -> types.JSONRPCMessage | Refusal | None:
    """The message, or why it is refused; None for what needs no answer and is of no use."""
    try:
        # Stricter than the standard library: bounded depth, no lone surrogates and no NaN, which could not be answered.
        document = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return Refusal(None, types.PARSE_ERROR, "this is not JSON in UTF-8, or it is nested too deeply")
    try:
        message = types.JSONRPCMessage.model_validate(document)
    except ValidationError:
        return Refusal(None, types.INVALID_REQUEST, "this is not a message of JSON-RPC 2.0")
    match message.root:
        case types.JSONRPCRequest() as request:
            return _refusal(request) or message
        case types.JSONRPCNotification() as notification:
            return message if _valid(types.ClientNotification, notification) else None
    return None


def _refusal(request: types.JSONRPCRequest) -> Refusal | None:
    if request.method not in METHODS:
        return Refusal(request.id, types.METHOD_NOT_FOUND, "there is no such method")
    if not _valid(types.ClientRequest, request):
        return Refusal(request.id, types.INVALID_PARAMS, "the parameters are not those of this method")
    return None


def _valid(
    kind: type[types.ClientRequest | types.ClientNotification],
    message: types.JSONRPCRequest | types.JSONRPCNotification,
) -> bool:
    try:
        kind.model_validate(message.model_dump(by_alias=True, mode="json", exclude_none=True))
    except ValueError:
        return False
    return True
