"""The tokens that working memory keeps: encrypted with a key that is elsewhere, or not at all."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from substrate.runtime.working import WorkingMemory
from substrate.runtime.working.file import TABLES
from tests.hosts import bytes_under
from tests.working import KATE, KEY, SECRET, fill, held, working


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[WorkingMemory]:
    with working(tmp_path) as made:
        yield made


# -------------------------------------------------------------- secrets


def test_a_token_is_nowhere_in_the_open(opened: WorkingMemory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    mine = opened.of(KATE)
    assert mine.keep_token("mail", SecretStr(SECRET), "1h")
    token = mine.token("mail")
    assert token is not None
    assert token.get_secret_value() == SECRET
    assert SECRET.encode() not in bytes_under(opened.file.path.parent)
    said = caplog.text + repr(token) + repr(mine) + repr(opened) + repr(vars(opened)) + repr(vars(vars(opened)["_key"]))
    assert SECRET not in said
    assert KEY.get_secret_value() not in said
    mine.put("value", SECRET, "1h")  # the null control: what is not encrypted is found
    assert SECRET.encode() in bytes_under(opened.file.path.parent)


def test_with_another_key_a_token_is_as_if_it_were_not_there(opened: WorkingMemory, tmp_path: Path) -> None:
    fill(opened)
    opened.close()
    with working(tmp_path, working_key=SecretStr(base64.b64encode(b"k" * 32).decode())) as later:
        assert held(later) == dict.fromkeys(TABLES, True) | {"tokens": False}
        assert later.of(KATE).keep_token("mail", "another", "1h")
        assert later.of(KATE).token("mail") == SecretStr("another")


@pytest.mark.parametrize("key", ["none", "malformed", "short", "file for all", "no file", "not text"])
def test_without_a_key_that_can_be_used_tokens_are_not_kept_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"\xff\xfe" if key == "not text" else base64.b64encode(bytes(32)))
    path.chmod(0o644 if key == "file for all" else 0o600)
    chosen: dict[str, dict[str, Any]] = {
        "none": {"working_key": None},
        "malformed": {"working_key": SecretStr("the secret, nearly")},
        "short": {"working_key": SecretStr("c2hvcnQ=")},
        "no file": {"working_key": None, "working_key_file": tmp_path / "elsewhere"},
    }
    with working(tmp_path, **chosen.get(key, {"working_key": None, "working_key_file": path})) as memory:
        for _ in range(3):
            assert not memory.of(KATE).keep_token("mail", SECRET, "1h")
            assert memory.of(KATE).token("mail") is None
        memory.of(KATE).put("value", 1, "1h")
    (said,) = [record.getMessage() for record in caplog.records]
    assert "tokens are not kept" in said
    assert "nearly" not in said


def test_the_key_may_come_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    path.chmod(0o600)
    found = None
    for _ in range(2):
        with working(tmp_path, working_key=None, working_key_file=path) as memory:
            found = memory.of(KATE).token("mail")
            memory.of(KATE).keep_token("mail", SECRET, "1h")
    assert found == SecretStr(SECRET)


def test_the_key_may_come_from_the_keyring_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backend import KeyringBackend

    class Chest(KeyringBackend):
        priority = 5
        things: dict[tuple[str, str], str] = {}  # noqa: RUF012

        def get_password(self, service: str, username: str) -> str | None:
            return self.things.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.things[service, username] = password

    monkeypatch.setattr(keyring.core, "_keyring_backend", Chest())  # type: ignore[no-untyped-call]
    found = None
    for _ in range(2):
        with working(tmp_path, working_key=None) as memory:
            found = memory.of(KATE).token("mail")
            memory.of(KATE).keep_token("mail", SECRET, "1h")
    assert found == SecretStr(SECRET)
    assert len(Chest.things) == 1
    assert next(iter(Chest.things.values())).encode() not in bytes_under(tmp_path)
