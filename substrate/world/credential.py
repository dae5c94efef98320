"""Who acts. A credential is made from a token, never from an argument that a model could write."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from uuid import UUID

from substrate.errors import NotAuthenticated
from substrate.world.ids import new_id

PREFIX = "sub_"


@dataclass(frozen=True, slots=True)
class Credential:
    """A principal of one house, and the token it came with. Without a token the process itself vouches for it."""

    principal: UUID
    house: UUID
    token: UUID | None = None
    #: Kept: every write looks up what is known of its credential, and hashing UUIDs is slow.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.principal, self.house, self.token)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Token:
    """A secret as it is handed out, once. Its text is `str(token)`; a repr does not show it."""

    id: UUID
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Token:
        return cls(new_id(), secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str) -> Token:
        """Raises `NotAuthenticated`, without repeating what it was given."""
        try:
            raw = base64.urlsafe_b64decode(text.removeprefix(PREFIX) + "=")
        except ValueError:
            raw = b""
        if not text.startswith(PREFIX) or len(raw) != 48:
            raise NotAuthenticated(f"this is not a token of ours; one starts with {PREFIX} and is 68 characters long")
        return cls(UUID(bytes=raw[:16]), raw[16:])

    @property
    def hash(self) -> bytes:
        # A plain digest is enough: the secret is 256 random bits, there is nothing to guess.
        return hashlib.sha256(self.secret).digest()

    def __str__(self) -> str:
        return PREFIX + base64.urlsafe_b64encode(self.id.bytes + self.secret).decode().rstrip("=")
