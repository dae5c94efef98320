"""The server that `substrate up` leaves running, and `substrate serve`: real processes on a free port, and a home each."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from substrate.doors.cli.background import LARGEST_LOG, Background
from tests.shell import PROGRAM, Shell

ANY = ("--port", "0")


@pytest.fixture
def served(shell: Shell) -> Iterator[Shell]:
    """A house, and whatever server a test leaves running is stopped before the database goes."""
    shell.monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")  # the models are not what is looked at here
    yield shell
    Background(shell.home).stop()


def server(shell: Shell) -> dict[str, Any]:
    said = shell.run("status", "--json")
    return dict(json.loads(said.out)["server"])


def token(shell: Shell, name: str = "ana") -> str:
    return str(json.loads((shell.home / "credentials.json").read_text())["saved"][name]["token"])


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" in status.read_text()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def program(shell: Shell, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


# ------------------------------------------------------------------ in the background


def test_up_leaves_a_server_that_answers_once_and_down_leaves_no_process(served: Shell) -> None:
    first = served.json("up", *ANY)
    assert first["started"] is True
    address, pid = first["server"]["address"], first["server"]["pid"]
    assert address.startswith("http://127.0.0.1:")
    answer = httpx.get(f"{address}/v1/whoami", headers={"Authorization": f"Bearer {token(served)}"})
    assert answer.json()["name"] == "ana"
    assert os.getsid(pid) != os.getsid(0)

    again = served.json("up", *ANY)
    assert (again["started"], again["server"]["pid"]) == (False, pid)
    said = served("up", *ANY)
    assert [word for word in (address, f"{address}/mcp", "token issue --as ana", "curl") if word not in said] == []
    assert address in served("status")

    assert served.json("down") == {"stopped": True, "server": True, "database": False}
    assert is_gone(pid)
    assert server(served)["state"] == "stopped"
    assert served.run("status").code == 0, "that no server runs is not wrong"
    assert served.fails("down") == "invalid_input"


def test_a_server_that_was_killed_is_noticed_and_started_again(served: Shell) -> None:
    pid = served.json("up", *ANY)["server"]["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server(served)["state"] == "crashed")
    said = served.run("status")
    assert said.code == 1
    assert "ended unexpectedly" in said.out
    assert "substrate up" in said.out
    after = served.json("up", *ANY)
    assert after["started"] is True
    assert after["server"]["pid"] != pid
    assert (after["server"]["state"], after["server"]["problem"]) == ("serving", None)


def test_a_server_of_another_version_is_started_anew_and_one_of_ours_stays_where_it_is(served: Shell) -> None:
    pid = served.json("up", *ANY)["server"]["pid"]
    said = served.run("up", "--port", "1")
    assert said.code == 0
    assert "runs already" in said.err
    assert server(served)["pid"] == pid
    file = served.home / "serving" / "server.json"
    said = json.loads(file.read_text())
    del said["version"]  # as a version wrote it that did not say it, or said what we do not know
    file.write_text(json.dumps({**said, "something": "new"}))
    after = served.json("up", *ANY)
    assert after["started"] is True
    assert after["server"]["pid"] != pid
    assert is_gone(pid)


def test_two_who_start_it_at_once_start_one(served: Shell) -> None:
    with program(served, "up", *ANY, "--json") as one, program(served, "up", *ANY, "--json") as other:
        answers = [json.loads(process.communicate(timeout=60)[0]) for process in (one, other)]
    assert sorted(answer["started"] for answer in answers) == [False, True]
    assert len({answer["server"]["pid"] for answer in answers}) == 1


def test_the_process_id_of_a_stranger_in_the_record_of_a_dead_server_is_left_alone(served: Shell) -> None:
    folder = served.home / "serving"
    folder.mkdir()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        record = {
            "pid": stranger.pid,
            "since": "2026-01-01T00:00:00+00:00",
            "version": "1",
            "address": "http://127.0.0.1:1",
        }
        (folder / "server.json").write_text(json.dumps(record))
        assert server(served)["state"] == "crashed"
        assert served.fails("down") == "invalid_input"
        assert stranger.poll() is None
        stranger.kill()
    assert server(served)["state"] == "stopped"


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_the_setting(served: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = served.run("up", "--port", taken.getsockname()[1])
    assert said.code == 1
    assert "SUBSTRATE_HTTP_PORT" in said.err.splitlines()[-1]
    assert server(served)["state"] == "stopped"


def test_without_a_word_about_the_port_any_free_one_does_where_ours_is_taken(served: Shell) -> None:
    try:
        taken: socket.socket | None = socket.create_server(("127.0.0.1", 8420))
    except OSError:
        taken = None  # somebody else on this machine has it, which is as good
    try:
        said = served.run("up")
        assert said.code == 0, said
        assert "8420 is taken" in said.err
        assert not server(served)["address"].endswith(":8420")
    finally:
        if taken is not None:
            taken.close()


def test_a_log_that_was_written_while_it_served_holds_no_token_and_no_text(served: Shell) -> None:
    address = served.json("up", *ANY)["server"]["address"]
    secret = {"Authorization": f"Bearer {token(served)}"}
    httpx.post(f"{address}/v1/memories", headers=secret, json={"content": "the-secret-word"}).raise_for_status()
    httpx.post(f"{address}/v1/search", headers=secret, json={"query": "the-secret-word"}).raise_for_status()
    assert httpx.get(f"{address}/v1/whoami", headers={"Authorization": "Bearer sub_guessed"}).status_code == 401
    httpx.get(f"{address}/v1/memories", headers=secret, params={"key_prefix": "the-secret-word"})
    pid = server(served)["pid"]
    served("down")
    log = (served.home / "serving" / "server.log").read_text()
    assert "/v1/search" in log, "the log must tell of the requests, or it proves nothing"
    assert [word for word in (token(served), "sub_guessed", "the-secret-word") if word in log] == []
    assert is_gone(pid)


def test_the_log_is_kept_within_bounds(tmp_path: Path) -> None:
    folder = tmp_path / "serving"
    folder.mkdir()
    log = folder / "server.log"
    code = (
        "import sys; from pathlib import Path; from substrate.doors.cli.background import *;"
        "sys.stderr.write('x' * (LARGEST_LOG + 10)); sys.stderr.flush();"
        "Background(Path(sys.argv[1])).bound_log(); sys.stderr.write('after')"
    )
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stderr=file)
    assert log.read_text() == "after"
    assert (folder / "server.log.1").stat().st_size == LARGEST_LOG


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_the_server_does_not_inherit_the_credential_of_who_started_it(served: Shell) -> None:
    secret = token(served, "kate")
    served.monkeypatch.setenv("SUBSTRATE_TOKEN", secret)
    pid = served.json("up", *ANY)["server"]["pid"]
    assert secret.encode() not in Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()


# ------------------------------------------------------------------ in the foreground


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_says_where_and_ends_cleanly_at_a_signal(served: Shell, sent: signal.Signals) -> None:
    with program(served, "serve", *ANY, "--json") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["pid"] == process.pid
        assert httpx.get(f"{said['address']}/health/ready").status_code == 200
        assert server(served)["address"] == said["address"]
        assert served.fails("serve", *ANY) == "server_unavailable"
        assert served.json("up")["started"] is False, "a server that runs in the foreground is one"
        process.send_signal(sent)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert server(served)["state"] == "stopped"


def test_a_server_that_is_asked_to_end_before_it_listens_leaves_nothing_behind(served: Shell) -> None:
    with program(served, "up", "--foreground", *ANY) as process:
        eventually(lambda: server(served)["pid"] == process.pid)
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode in (0, 130)
    assert server(served)["state"] == "stopped"


def test_without_a_server_only_the_database_is_looked_after(served: Shell) -> None:
    assert served.json("up", "--no-serve")["server"]["state"] == "stopped"
    assert not (served.home / "serving").exists()
