"""Logs: one document a line, that says where; never content, a query or a secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.errors import DuplicateKey, NotAuthenticated, NotFound, SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.observing import logs
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

CONTENT, QUERY = "swordfish-content", "swordfish-query"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All that our loggers write, as JSON lines."""
    stream = io.StringIO()
    logs.configure("json", "DEBUG", runtime="desk", stream=stream)
    yield stream
    logs.unconfigure()


def lines(written: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def busy(desk: Runtime, kate: HostedAgent, world: World) -> str:
    """Everything an agent does, and much that goes wrong on the way. Returns a token that was used."""
    token = kate.issue_token()
    again = desk.agent(token)
    with again.run(f"about {CONTENT}", session="s-1") as run:
        run.agent.remember(CONTENT, key=CONTENT, visible=True)
        with pytest.raises(DuplicateKey):
            run.agent.remember(CONTENT, key=CONTENT)
        run.step(CONTENT, query=QUERY)
        run.agent.recall(QUERY)
        run.agent.recall(CONTENT, mode="vector")
    with pytest.raises(RuntimeError), again.run(f"about {CONTENT}"):
        raise RuntimeError(CONTENT)
    with pytest.raises(NotFound):
        kate.get(CONTENT)
    with pytest.raises(NotAuthenticated):
        world.agent(token[:-6] + "AAAAAA")
    kate.catch_up()
    # What is damaged is found and built anew; what is erased is forgotten everywhere.
    indexes = kate._resident.indexes
    for path in indexes.folder.path.glob("fulltext*.db"):
        path.write_bytes(CONTENT.encode() * 1_000)
    desk.run_log.local.close()
    desk.run_log.local.path.write_bytes(CONTENT.encode() * 1_000)
    kate.recall(QUERY)
    kate.run("after the damage").finish()
    kate.catch_up()
    memory = kate.recall(CONTENT).results[0].memory
    kate.erase(memory)
    kate.catch_up()
    return token


def complain(error: BaseException, logger: str) -> None:
    """As code does that was surprised."""
    log = logging.getLogger(logger)
    log.warning("it failed: %s", error)
    try:
        raise error  # noqa: TRY301 - that is the point
    except Exception:
        log.exception("it failed")


def test_a_busy_day_leaves_no_content_query_or_secret_in_the_logs(  # noqa: PLR0917 - all that can hold a log
    written: io.StringIO, world: World, house: House, database: DatabaseUrls, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    with runtime(database, tmp_path, follow=True) as desk:
        token = busy(desk, hosted(desk, house.kate), world)
        complain(DuplicateKey(f"there is a key {CONTENT!r} already"), "substrate.test")
        complain(ValueError(QUERY), "projections.test")
    # What our own code logs holds nothing even as it is, before it is made safe.
    raw = [record.getMessage() for record in caplog.records if not record.name.endswith(".test")]
    said = [*written.getvalue().splitlines(), *raw, *capfd.readouterr()]
    assert any("damaged" in line for line in said)
    password = database.app.split(":")[2].split("@")[0]
    for secret in (CONTENT, QUERY, token, token[20:], password):
        assert [line for line in said if secret in line] == []


def test_a_line_says_where_it_was_written(
    written: io.StringIO, house: House, database: DatabaseUrls, tmp_path: Path
) -> None:
    log = logging.getLogger("substrate.test")
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        log.info("outside")
        with kate.run("work", session="s-1") as run:
            log.info("inside %s", 7)
        log.info("outside again")
    outside, inside, again = (line for line in lines(written) if line["logger"] == "substrate.test")
    assert inside.items() >= {
        "message": "inside 7", "level": "info", "runtime": "desk", "house": str(kate.house), "session": "s-1",
        "run": str(run.id),
    }.items()  # fmt: skip
    assert {"at", "message", "level", "logger", "runtime"} == set(outside) == set(again)


@pytest.mark.parametrize("form", ["json", "text"])
def test_errors_are_described_by_kind_and_place(form: logs.LogFormat) -> None:
    stream = io.StringIO()
    logs.configure(form, "INFO", stream=stream)
    errors: list[BaseException] = [
        SubstrateError(f"the key {CONTENT!r} and the owner's {QUERY!r} are in the way; choose others"),
        SubstrateError("cannot reach postgresql://kate:hunter2@localhost/db with password=hunter2"),
        ValueError(CONTENT),
        OSError(28, "No space left on device", f"/{CONTENT}"),
    ]
    try:
        for error in errors:
            complain(error, "substrate.test")
        logging.getLogger("substrate.test").debug("not at this level")
    finally:
        logs.unconfigure()
    said = stream.getvalue()
    assert len(said.splitlines()) == 2 * len(errors)
    assert not {CONTENT, QUERY, "hunter2"} & {word for word in (CONTENT, QUERY, "hunter2") if word in said}
    for kept in (
        "the key '…' are in the way; choose others",
        "ValueError",
        "No space left on device",
        "postgresql:…localhost/db",
    ):
        assert kept in said, said
    if form == "json":
        found = [json.loads(line) for line in said.splitlines()]
        assert found[1]["error"]["at"][-1].startswith(f"{__name__}.complain")


def test_configured_twice_each_line_is_written_once_and_others_are_left_alone(
    database: DatabaseUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = list(logging.getLogger().handlers)
    try:
        for _ in range(2):
            with runtime(database, tmp_path, log="text", log_level="WARNING"):
                pass
        logging.getLogger("substrate.test").warning("once")
        assert logging.getLogger().handlers == root
    finally:
        logs.unconfigure()
    assert capsys.readouterr().err.count("once") == 1
    assert logging.getLogger("substrate").propagate
