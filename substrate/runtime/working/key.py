"""The key of what working memory keeps encrypted. It is never beside the file.

It comes from the settings (`SUBSTRATE_WORKING_KEY`), from a file that only its owner can read
(`SUBSTRATE_WORKING_KEY_FILE`), or from the system's keyring, where there is one that can be used. Without a key nothing is
kept that needs one, and the log says so once.
"""

from __future__ import annotations

import base64
import logging
import os
import secrets
import threading
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from substrate.settings import Settings

log = logging.getLogger(__name__)

#: Bytes of the key, and of the number that is used once with it.
KEY, NONCE = 32, 12
#: How the key is called in the system's keyring.
SERVICE, NAME = "substrate", "working-memory"


class Key:
    """Seals and opens small secrets. The key is looked for when the first of them comes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._looked = False
        self._cipher: AESGCM | None = None

    def __repr__(self) -> str:
        return "Key()"

    def seal(self, secret: str, of: bytes) -> bytes | None:
        """The secret, encrypted and bound to `of`, whose it is; None where there is no key."""
        cipher = self._found()
        if cipher is None:
            return None
        nonce = secrets.token_bytes(NONCE)
        return nonce + cipher.encrypt(nonce, secret.encode(), of)

    def open(self, sealed: bytes, of: bytes) -> str | None:
        """The secret; None without the key it was sealed with, and where it was changed or is somebody else's."""
        cipher = self._found()
        if cipher is None:
            return None
        try:
            return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], of).decode()
        except (InvalidTag, ValueError):
            return None

    def _found(self) -> AESGCM | None:
        with self._lock:
            if not self._looked:
                self._looked = True
                try:
                    self._cipher = AESGCM(_key(self._settings))
                except _Unusable as why:
                    log.warning("tokens are not kept in working memory: %s", why)
            return self._cipher


class _Unusable(Exception):
    """Why there is no key."""


def _key(settings: Settings) -> bytes:
    if settings.working_key is not None:
        return _decoded(settings.working_key.get_secret_value(), "SUBSTRATE_WORKING_KEY")
    if settings.working_key_file is not None:
        return _from_file(settings)
    return _from_keyring()


def _decoded(text: str, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY:
        raise _Unusable(f"{source} is not {KEY} bytes in base64; make one with `openssl rand -base64 {KEY}`")
    return key


def _from_file(settings: Settings) -> bytes:
    path = settings.working_key_file
    try:
        fd = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(fd, encoding="ascii") as file:
            # Of the file that was opened: another may be put in its place meanwhile.
            if os.fstat(fd).st_mode & 0o077:
                raise _Unusable(f"{path} can be read by others; `chmod 600` it")
            return _decoded(file.read(1_000), str(path))
    except OSError as error:
        raise _Unusable(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _Unusable(f"{path} is not {KEY} bytes in base64") from None


def _from_keyring() -> bytes:
    nowhere = "there is no key; set SUBSTRATE_WORKING_KEY or SUBSTRATE_WORKING_KEY_FILE"
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise _Unusable(f"{nowhere}, or install substrate-memory[keyring]") from None
    if keyring.get_keyring().priority < 1:  # what is below that is none, or keeps its secrets in the open
        raise _Unusable(f"{nowhere}; the system has no keyring that can be used")
    try:
        return _kept_in(keyring.get_password, keyring.set_password)
    except (KeyringError, OSError, RuntimeError) as error:
        raise _Unusable(f"{nowhere}; the system's keyring does not answer ({type(error).__name__})") from None


def _kept_in(get: Callable[[str, str], str | None], put: Callable[[str, str, str], None]) -> bytes:
    """The key that the keyring has; a new one where it has none."""
    found = get(SERVICE, NAME)
    if found is None:
        put(SERVICE, NAME, base64.b64encode(secrets.token_bytes(KEY)).decode())
        found = get(SERVICE, NAME)  # of two processes that make one at once, both take the one that stands
    return _decoded(found or "", "the key in the system's keyring")
