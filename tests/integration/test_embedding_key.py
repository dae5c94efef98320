"""The key of an embeddings server: where it comes from, and that it shows nowhere."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from projections.embedding import Embedder, load_embedder
from projections.embedding.reference import resolved
from substrate.errors import Misconfigured, SubstrateError
from substrate.settings import Settings
from tests.embeddings_server import Answer, Request, Served, serving, status

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(4) as served:
        yield served


def settings(url: str, key: str) -> Settings:
    return Settings(
        embedder="http",
        embedding_base_url=url,
        embedding_model="m",
        embedding_dimensions=4,
        embedding_timeout=5,
        embedding_api_key=SecretStr(key),
    )


def loaded(url: str, key: str) -> Embedder:
    embedder = load_embedder(settings(url, key))
    assert embedder is not None
    return embedder


@pytest.mark.parametrize("written", [KEY, "${MY_KEY}", "${file:KEY_FILE}", "sk-${MY_REST}"])
def test_the_key_is_taken_as_it_is_from_a_variable_or_from_a_file(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("MY_REST", KEY.removeprefix("sk-"))
    (tmp_path / "key").write_text(KEY + "\n")
    loaded(server.url, written.replace("KEY_FILE", str(tmp_path / "key"))).close()
    assert [request.key for request in server.requests] == [f"Bearer {KEY}"]


def test_without_a_key_no_authorization_is_sent(server: Served) -> None:
    embedder = load_embedder(settings(server.url, KEY).model_copy(update={"embedding_api_key": None}))
    assert embedder is not None
    embedder.close()
    assert [request.key for request in server.requests] == [None]


def test_a_key_that_is_replaced_in_its_file_is_used_from_then_on(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("old")
    embedder = loaded(server.url, f"${{file:{file}}}")
    file.write_text("new")
    embedder.query("a")
    embedder.close()
    assert [request.key for request in server.requests] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${NO_SUCH_VARIABLE}", "environment variable NO_SUCH_VARIABLE, which is not set"),
        ("${file:/no/such/file}", "the file /no/such/file, which cannot be read: No such file"),
        ("${file:/}", "the file /, which cannot be read: Is a directory"),
        ("${file:EMPTY}", "which is empty"),
        ("${file:BINARY}", "which is not text"),
        (f"${{{KEY}}}", r"neither \${VARIABLE} nor \${file:/path}"),
        ("${file:}", r"neither \${VARIABLE} nor \${file:/path}"),
        (f"{KEY}\nX-Other: header", "no HTTP header can carry"),
        (f"{KEY}é", "no HTTP header can carry"),
        ("", "is empty"),
    ],
)
def test_a_reference_that_leads_nowhere_stops_the_start_and_is_named_without_the_secret(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    (tmp_path / "EMPTY").write_text(" \n")
    (tmp_path / "BINARY").write_bytes(KEY.encode() + b"\xff")
    written = written.replace("EMPTY", f"{tmp_path}/EMPTY").replace("BINARY", f"{tmp_path}/BINARY")
    with pytest.raises(Misconfigured, match=said) as caught:
        load_embedder(settings(server.url, written))
    assert "SUBSTRATE_EMBEDDING_API_KEY" in str(caught.value)
    assert KEY not in everything_about(caught.value)
    assert server.requests == []


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(Misconfigured, match="SUBSTRATE_EMBEDDING_API_KEY") as caught:
        load_embedder(settings(f"http://me:{KEY}@127.0.0.1/v1", "key"))
    assert KEY not in everything_about(caught.value)


@pytest.mark.parametrize("code", [400, 401, 429, 500])
def test_the_key_shows_in_no_error_log_or_repr_even_if_the_server_repeats_it(
    server: Served, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    def repeating(request: Request) -> Answer:
        return status(code, {"X-Key": "elsewhere", "Retry-After": "99"}, f"bad key {request.key}".encode())(request)

    server.always = repeating
    with caplog.at_level(logging.DEBUG):
        embedder = loaded(server.url, KEY)
        errors = [caught(lambda: embedder.documents(["a"])), caught(lambda: embedder.query("a"))]
        embedder.close()
    assert server.requests[0].key == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in repr(embedder) + str(embedder) + repr(vars(embedder))
    assert KEY not in repr(settings(server.url, KEY))
    assert all(KEY not in everything_about(error) for error in errors)


def test_the_key_shows_in_no_error_of_a_server_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    with serving(4) as gone:
        url = gone.url
    with caplog.at_level(logging.DEBUG):
        embedder = loaded(url, KEY)
        error = caught(lambda: embedder.documents(["a"]))
        embedder.close()
    assert KEY not in caplog.text + everything_about(error)


def test_the_look_for_secrets_finds_one_where_an_error_is_careless() -> None:
    with pytest.raises(Misconfigured) as careless:
        raise Misconfigured("the key cannot be used") from ValueError(f"Illegal header value {KEY}")
    assert KEY in everything_about(careless.value)


def test_a_secret_without_references_is_itself() -> None:
    assert resolved(SecretStr("a$b{c}"), "X") == "a$b{c}"


def caught(ask: Callable[[], object]) -> SubstrateError:
    with pytest.raises(SubstrateError) as error:
        ask()
    return error.value


def everything_about(error: BaseException) -> str:
    """What a log, a crash reporter or another process would see of it."""
    shown = "".join(traceback.format_exception(error))
    return shown + repr(error) + repr(vars(error)) + repr(pickle.dumps(error.args))
