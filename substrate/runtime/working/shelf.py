"""What working memory keeps for one owner: an agent of a house, or the runtime itself.

The owner comes from the credential; there is no way to name another one's things.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import apsw
from pydantic import SecretStr

from projections.sqlite import rows
from substrate import durations
from substrate.errors import InvalidInput
from substrate.runtime.working.file import WorkingFile
from substrate.runtime.working.key import Key

#: Characters of a name, bytes of a value, and how many values one owner has; beyond that those go that expire first.
MOST_NAME, MOST_BYTES, MOST_KEPT = 500, 65_536, 1_000
#: Bytes of a turn of a conversation.
MOST_TURN = 1_048_576
LONGEST = timedelta(days=3_650)
#: How long turns stay at hand where nobody says.
RECENT_FOR = timedelta(hours=24)
TimeToLive = timedelta | str | float


class Offset(NamedTuple):
    """Where a reader was, and the hash that the stream had there, if it was told."""

    seq: int
    hash: bytes | None = None


class Shelf:
    """The things of one owner. Everything here raises `WorkingMemoryUnavailable` where the file cannot be used.

    | to go on where one was       | `offset`, `move` |
    | to do a thing once           | `seen` |
    | to keep a value for a while  | `put`, `get`, `drop` |
    | to have turns at hand        | `put_turns`, `recent`, `forget_session` |
    | to keep a secret for a while | `keep_token`, `token`, `drop_token` |
    """

    def __init__(self, file: WorkingFile, key: Key, owner: bytes) -> None:
        self._file = file
        self._key = key
        self._owner = owner

    # -------------------------------------------------------------- offsets

    def offset(self, reader: str) -> Offset | None:
        """Where a reader of this name was; None if that is not known, and it begins at the beginning."""
        key = self._owner + _name(reader).encode()
        value = self._one("SELECT value FROM offsets WHERE owner = ? AND reader = ?", reader, key=key)
        return None if value is None else Offset(int.from_bytes(value[:8]), value[8:] or None)

    def move(self, reader: str, seq: int, stream_hash: bytes | None = None) -> None:
        """The reader has been through the stream up to `seq`."""
        if not 0 <= seq < 2**63:
            raise InvalidInput(f"seq: {seq} is not a position")
        value = packed(self._owner + _name(reader).encode(), seq.to_bytes(8) + (stream_hash or b""))
        self._change("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", reader, value)

    # -------------------------------------------------------------- once

    def seen(self, key: str, ttl: TimeToLive) -> bool:
        """Whether this key was seen before, within the time that was given then. From now on it was.

        Of all processes and threads that ask for one key at once, one is told False.
        """
        now = time.time()
        # The digest of it: what comes in from outside may say more than that it came.
        digest = hashlib.sha256(self._owner + _name(key).encode()).digest()
        statement = (
            "INSERT INTO seen VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE until <= ?"
        )

        def note(db: apsw.Connection) -> bool:
            db.execute(statement, (digest, self._owner, now + seconds(ttl), now))
            return db.changes() == 0

        return self._file.write(note)

    # -------------------------------------------------------------- values

    def put(self, name: str, value: Any, ttl: TimeToLive) -> None:
        """Keep a value, anything that JSON can say, for so long; one of the same name is replaced."""
        stored = packed(self._owner + _name(name).encode(), _json(value))
        until = time.time() + seconds(ttl)

        def keep(db: apsw.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", (self._owner, name, stored, until))
            db.execute(
                "DELETE FROM kept WHERE owner = ?1 AND name IN (SELECT name FROM kept WHERE owner = ?1"
                " ORDER BY until DESC LIMIT -1 OFFSET ?2)",
                (self._owner, MOST_KEPT),
            )

        self._file.write(keep)

    def get(self, name: str, default: Any = None) -> Any:
        """A value that was put, if its time is not over."""
        key = self._owner + _name(name).encode()
        statement = "SELECT value FROM kept WHERE owner = ? AND name = ? AND until > ?"
        value = self._one(statement, name, time.time(), key=key)
        return default if value is None else json.loads(value)

    def drop(self, name: str) -> None:
        """Keep it no longer; no error where it is not there."""
        self._change("DELETE FROM kept WHERE owner = ? AND name = ?", _name(name))

    # -------------------------------------------------------------- recent turns

    def put_turns(
        self, session: str, turns: Mapping[int, Any], *, most: int = 50, ttl: TimeToLive = RECENT_FOR
    ) -> None:
        """Have turns of a session at hand, by their numbers; the last `most` of it stay."""
        until, key = time.time() + seconds(ttl), self._owner + _name(session).encode()
        stored = [
            (self._owner, session, number, packed(_turn(key, number), _json(turn, MOST_TURN)), until)
            for number, turn in turns.items()
        ]

        def put(db: apsw.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO recent VALUES (?, ?, ?, ?, ?)", stored)
            db.execute(
                "DELETE FROM recent WHERE owner = ?1 AND session = ?2 AND number <="
                " (SELECT max(number) FROM recent WHERE owner = ?1 AND session = ?2) - ?3",
                (self._owner, session, most),
            )
            db.execute("UPDATE recent SET until = ? WHERE owner = ? AND session = ?", (until, self._owner, session))

        self._file.write(put)

    def recent(self, session: str, most: int = 50) -> dict[int, Any]:
        """The last turns of a session that are at hand, oldest first, by number. It is a cache: there may be more."""
        key = self._owner + _name(session).encode()
        statement = "SELECT number, value FROM recent WHERE owner = ? AND session = ? AND until > ? ORDER BY number DESC LIMIT ?"

        def read(db: apsw.Connection) -> dict[int, bytes]:
            found = rows(db, statement, (self._owner, session, time.time(), most))
            return {number: unpacked(_turn(key, number), value) for number, value in reversed(found)}

        return {number: json.loads(value) for number, value in self._file.read(read).items()}

    def forget_session(self, session: str, numbers: Iterable[int] | None = None) -> None:
        """Have nothing of a session at hand any more, or none of these turns; no byte of them stays."""
        which = "DELETE FROM recent WHERE owner = ? AND session = ?"
        if numbers is None:
            self._change(which, _name(session))
        else:
            gone = [(self._owner, _name(session), number) for number in numbers]
            self._file.change(which + " AND number = ?", *gone)
        self._file.scrub()

    # -------------------------------------------------------------- tokens

    def keep_token(self, name: str, secret: str | SecretStr, ttl: TimeToLive) -> bool:
        """Keep a secret for so long, encrypted. False, and not kept, where there is no key to do that with."""
        text = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
        until = time.time() + seconds(ttl)
        sealed = self._key.seal(text, self._owner + _name(name).encode())
        if sealed is None:
            return False
        if len(sealed) > MOST_BYTES:
            raise InvalidInput(f"secret: it is longer than {MOST_BYTES} bytes")
        self._change("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", name, sealed, until)
        return True

    def token(self, name: str) -> SecretStr | None:
        """A secret that was kept; None where its time is over, or the key is not the one it was kept with."""
        found = self._one(
            "SELECT value FROM tokens WHERE owner = ? AND name = ? AND until > ?", _name(name), time.time()
        )
        opened = None if found is None else self._key.open(found, self._owner + name.encode())
        return None if opened is None else SecretStr(opened)

    def drop_token(self, name: str) -> None:
        """Keep it no longer; no error where it is not there."""
        self._change("DELETE FROM tokens WHERE owner = ? AND name = ?", _name(name))
        self._file.scrub()

    # -------------------------------------------------------------- the file

    def _one(self, statement: str, *bindings: Any, key: bytes | None = None) -> Any:
        def read(db: apsw.Connection) -> Any:
            found = rows(db, statement, (self._owner, *bindings))
            if not found or key is None:
                return found[0][0] if found else None
            return unpacked(key, found[0][0])  # in here, where one that is not what it was has the file replaced

        return self._file.read(read)

    def _change(self, statement: str, *bindings: Any) -> None:
        self._file.change(statement, (self._owner, *bindings))


def packed(key: bytes, value: bytes) -> bytes:
    """A value as it is stored: with a number of it and of what it is kept under."""
    return zlib.crc32(value, zlib.crc32(key)).to_bytes(4) + value


def unpacked(key: bytes, stored: object) -> bytes:
    """The value. One bit of it may be another, and SQLite would not notice: then it is as good as gone."""
    if not isinstance(stored, bytes) or packed(key, stored[4:]) != stored:
        raise apsw.CorruptError("a value is not what was stored")
    return stored[4:]


def seconds(ttl: TimeToLive) -> float:
    """A time to live in seconds. Raises `InvalidInput`."""
    try:
        given = durations.parse(ttl) if isinstance(ttl, str) else ttl
        found = given if isinstance(given, timedelta) else timedelta(seconds=given)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"ttl: {error}") from None
    if not timedelta() < found <= LONGEST:
        raise InvalidInput(f"ttl: {durations.shown(found)} is not more than nothing and at most ten years")
    return found.total_seconds()


def _name(given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= MOST_NAME:
        raise InvalidInput(f"give a name of 1 to {MOST_NAME} characters")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInput("a name holds half a character; give whole ones") from None
    return given


def _json(value: Any, most: int = MOST_BYTES) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the value is not one that JSON can say ({type(error).__name__})") from None
    if len(text) > most:
        raise InvalidInput(f"the value is longer than {most} bytes; working memory is for small ones")
    return text


def _turn(key: bytes, number: int) -> bytes:
    return key + number.to_bytes(8, signed=True)
