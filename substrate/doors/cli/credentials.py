"""Tokens saved on this machine: `<home>/credentials.json`, readable by its owner alone, replaced as a whole."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from substrate.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Saved:
    """A token under a name. Agent and house are noted for people; what counts is the token, which no repr shows."""

    name: str
    agent: str
    house: str
    house_name: str
    token: str = field(repr=False)


class Credentials:
    """The file. Reading never creates it; each change reads, changes and replaces it under a lock."""

    def __init__(self, home: Path) -> None:
        self.path = home / "credentials.json"

    @property
    def current(self) -> Saved | None:
        """The credential in use, if one was chosen."""
        content = self._read()
        name = content["current"]
        return self._saved(content, name) if name in content["saved"] else None

    def all(self) -> list[Saved]:
        """Every saved credential, in the order they were saved."""
        content = self._read()
        return [self._saved(content, name) for name in content["saved"]]

    def get(self, name: str) -> Saved:
        """The one saved under this name. Raises `InvalidInput` that lists those there are."""
        content = self._read()
        if name not in content["saved"]:
            known = ", ".join(content["saved"]) or "none yet"
            raise InvalidInput(f"no credential is saved as {name!r} in {self.path}; there are: {known}")
        return self._saved(content, name)

    def save(self, wanted: Saved, *, use: bool) -> Saved:
        """Keep a token, under its name or the next free one like it; with `use` it is the one in use from now on."""
        with self._changing() as content:
            name = _free_name(wanted, content["saved"])
            content["saved"][name] = {key: value for key, value in asdict(wanted).items() if key != "name"}
            if use:
                content["current"] = name
        return self.get(name)

    def use(self, name: str) -> Saved:
        """Make this the credential in use."""
        found = self.get(name)
        with self._changing() as content:
            content["current"] = name
        return found

    def drop(self, name: str) -> Saved:
        """Forget a saved token here. It stays valid: to end that, revoke it."""
        found = self.get(name)
        with self._changing() as content:
            content["saved"].pop(name, None)
            if content["current"] == name:
                content["current"] = None
        return found

    # -------------------------------------------------------------- how

    def _saved(self, content: dict[str, Any], name: str) -> Saved:
        try:
            return Saved(name=name, **content["saved"][name])
        except TypeError:
            raise self._damaged() from None

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"current": None, "saved": {}}
        except (ValueError, OSError):
            raise self._damaged() from None
        if not isinstance(content, dict) or not isinstance(content.get("saved"), dict) or "current" not in content:
            raise self._damaged()
        return content

    def _damaged(self) -> InvalidInput:
        return InvalidInput(f"{self.path} cannot be read as saved credentials; restore it, or move it away")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        from substrate.world.server.folders import make_folder
        from substrate.world.server.lock import Waiting, locked

        # As root the embedded server runs under another account, which must be able to pass through the home.
        make_folder(self.path.parent, 0o711 if sys.platform != "win32" and os.geteuid() == 0 else 0o700)
        with locked(self.path.with_suffix(".lock"), Waiting(None)):
            content = self._read()
            yield content
            self._write(json.dumps(content, indent=2, ensure_ascii=False))

    def _write(self, text: str) -> None:
        draft = self.path.with_name(f".credentials.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            # Born with its mode: there is no moment in which others could read it.
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)


def _free_name(wanted: Saved, taken: dict[str, Any]) -> str:
    """`ana`, `ana@home`, `ana@home-2` …: another agent's saved token is never overwritten, the same agent's is."""
    longer = f"{wanted.name}@{wanted.house_name}"
    candidates = [wanted.name, longer, *(f"{longer}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken or taken[name].get("agent") == wanted.agent)
