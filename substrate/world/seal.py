"""Seals: the head of a house, signed with a key that the database never sees.

Whoever can write every table can also compute every hash anew. A seal taken before, kept elsewhere, and signed with
Ed25519, is what such a rewrite (and a tail cut off together with its head) does not fit. It detects, it does not prevent.
"""

from __future__ import annotations

import base64
import os
from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from pydantic import Field, ValidationError

from substrate.errors import InvalidInput
from substrate.world.canonical import canonical
from substrate.world.model import Time, Value

#: Signed along with the fields, so that the key's signature under anything else is never a seal.
_PURPOSE = b"substrate seal v1\n"
_HEX = r"^[0-9a-f]{64}$"


class Seal(Value):
    """What was true of a house when it was sealed: at `seq` the chain had this hash. Export it as JSON, and keep it elsewhere."""

    house: UUID
    seq: Annotated[int, Field(ge=1)]
    hash: Annotated[str, Field(pattern=_HEX)]
    recorded_at: Time
    sealed_at: Time
    public_key: str
    signature: str = ""

    def to_json(self) -> str:
        return canonical(self.model_dump(mode="json"))

    @classmethod
    def parse(cls, text: str | bytes) -> Seal:
        """The inverse of `to_json`. Raises `InvalidInput`; whether it is genuine, only `verify` says."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise InvalidInput("this is not a seal; give the JSON that sealing printed") from None

    def objection(self, house: UUID, trusted: str | None) -> str | None:
        """Why this seal proves nothing about the house, or None if it is genuine."""
        if self.house != house:
            return f"the seal is one of house {self.house}"
        if trusted is None or self.public_key != trusted:
            return f"signed with the key {self.public_key}, which is not the one trusted here"
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.public_key, validate=True))
            key.verify(base64.b64decode(self.signature, validate=True), self._signed())
        except (InvalidSignature, ValueError):
            return "the signature does not fit: the seal was forged or damaged"
        return None

    def _signed(self) -> bytes:
        return _PURPOSE + canonical(self.model_dump(mode="json", exclude={"signature"})).encode()


class SealKey:
    """The private key, in a file of its own: never in the database, and readable by its owner alone."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = base64.b64encode(key.public_key().public_bytes_raw()).decode()

    @classmethod
    def load(cls, home: Path) -> SealKey | None:
        """The key under `home`, or None if none was made yet. Raises `InvalidInput` for a file that is no such key."""
        path = key_path(home)
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput(f"{path} is not an Ed25519 key in PEM; put the right one there, or move it away")
        return cls(key)

    @classmethod
    def load_or_create(cls, home: Path) -> SealKey:
        """The key under `home`, made now if there is none. Of two processes that make it at once, one wins."""
        if (found := cls.load(home)) is not None:
            return found
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        # Written whole under another name, then linked: the name appears with all its bytes, or not at all.
        draft = home / f".seal.key.{os.getpid()}.{os.urandom(4).hex()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, key_path(home))
        except FileExistsError:
            pass  # another process was faster, and its key is the one
        finally:
            draft.unlink()
        made = cls.load(home)
        if made is None:
            raise InvalidInput(f"{key_path(home)} vanished while it was made")
        return made

    def seal(self, house: UUID, seq: int, head: bytes, recorded_at: datetime, sealed_at: datetime) -> Seal:
        unsigned = Seal(
            house=house, seq=seq, hash=head.hex(), recorded_at=recorded_at, sealed_at=sealed_at, public_key=self.public
        )
        signature = base64.b64encode(self._key.sign(unsigned._signed())).decode()  # noqa: SLF001 - its own class
        return unsigned.model_copy(update={"signature": signature})


def key_path(home: Path) -> Path:
    return home / "seal.key"


def trusted_key(home: Path, given: str | None) -> str:
    """The public key that seals must be signed with: the one given, else that of this home's own key."""
    if given is not None:
        return given
    own = SealKey.load(home)
    if own is None:
        raise InvalidInput("there is no seal key here; give the public key that you trust")
    return own.public
