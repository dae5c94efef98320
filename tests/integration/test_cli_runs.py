"""Runs and metrics on the command line."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.doors.cli.credentials import Credentials
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from tests.servers import DatabaseUrls
from tests.shell import PROGRAM, Shell


@pytest.fixture
def ana(shell: Shell, database: DatabaseUrls) -> Iterator[HostedAgent]:
    """Who is logged in, in the runtime that the command line uses."""
    settings = Settings(home=shell.home, embedder="none")
    with Runtime.open("local", app_url=database.app, settings=settings, follow=False) as opened:
        current = Credentials(shell.home).current
        assert current is not None
        yield opened.agent(current.token)


def test_runs_are_listed_shown_and_drawn(ana: HostedAgent, shell: Shell) -> None:
    with ana.run("morning", session="s-1") as outer, ana.run("answer mail", shared=True) as inner:
        inner.tool_call("send_mail", to="bob")
    with pytest.raises(ValueError, match="no"), ana.run("broken"):
        raise ValueError("no")
    listed = shell.json("run", "list")
    assert [one["name"] for one in listed["runs"]] == ["broken", "answer mail", "morning"]
    assert [one["name"] for one in shell.json("run", "list", "--status", "failed")["runs"]] == ["broken"]
    assert [one["name"] for one in shell.json("run", "list", "--parent", outer.id)["runs"]] == ["answer mail"]
    assert "there is more: --page" in shell("run", "list", "-n", 1)
    shown = shell("run", "show", inner.id)
    assert "send_mail  to=bob" in shown
    assert "shared" in shown
    assert shell.json("run", "show", inner.id)["events"][1]["data"] == {"to": "bob"}
    drawn = shell("run", "tree", outer.id)
    assert "└── answer mail  ok  by ana" in drawn
    assert shell.json("run", "tree", outer.id)["children"][0]["run"]["id"] == str(inner.id)
    assert shell.fails("run", "show", "nonsense") == "not_found"
    assert shell.fails("run", "list", "--status", "asleep") == "unknown_kind"
    assert shell.fails("run", "list", "--since", "yesterday") == "invalid_input"


def test_another_sees_none_of_them(ana: HostedAgent, shell: Shell) -> None:
    with ana.run("own") as own, ana.run("shared", shared=True) as shared:
        pass
    with ana.run("public", shared=True, scope="house") as public:
        pass
    assert [one["name"] for one in shell.json("run", "list", "--as", "kate")["runs"]] == ["public"]
    for run in (own, shared):
        for verb in ("show", "tree", "tail"):
            assert shell.fails("run", verb, run.id, "--as", "kate") == "not_found"
    assert shell.json("run", "show", public.id, "--as", "kate")["run"]["status"] == "ok"


def test_why_names_the_run(ana: HostedAgent, shell: Shell) -> None:
    with ana.run("morning") as outer, ana.run("answer mail") as run:
        memory = run.agent.remember("the landlord comes on Monday", scope="house").memory
    said = shell("why", memory)
    assert "run: answer mail (ok, " in said
    assert f", in morning)  {run.id}" in said
    ran = shell.json("why", memory)["grounds"][0]["ran"]
    assert (ran["name"], ran["parent"], ran["parent_name"]) == ("answer mail", str(outer.id), "morning")
    assert shell.json("history", memory)[0]["ran"]["name"] == "answer mail"
    others = shell("why", memory, "--as", "kate")
    assert "answer mail" not in others
    assert f"run: {run.id}" in others


def test_tail_follows_a_run_to_its_end(ana: HostedAgent, shell: Shell) -> None:
    run = ana.run("slow", shared=True)
    run.step("first")
    ana._runtime.run_log.flush()
    process = subprocess.Popen([*PROGRAM, "run", "tail", str(run.id), "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    threading.Timer(0.1, run.step, ["second"]).run()
    run.finish()
    rest, _ = process.communicate(timeout=60)
    events = [*lines, *map(json.loads, rest.splitlines())]
    assert [(one["number"], one["text"]) for one in events] == [(1, None), (2, "first"), (3, "second"), (4, None)]
    assert process.returncode == 0
    assert "the run is over: ok" in shell("run", "tail", run.id)


def test_what_was_erased_elsewhere_is_not_shown(ana: HostedAgent, shell: Shell, tmp_path: Path) -> None:
    with ana.run("about swordfish", session="s-1") as run:
        run.step("swordfish")
    shell("erase", "--session", "s-1", "--yes")
    shown = shell("run", "show", run.id)
    assert "swordfish" not in shown
    assert "(its text was erased)" in shown
    assert b"swordfish" not in b"".join(
        path.read_bytes() for path in (shell.home / "runtimes" / "local").glob("runs.*")
    )


def test_metrics_are_printed(ana: HostedAgent, shell: Shell) -> None:
    ana.remember("something", visible=True)
    said = shell("metrics")
    assert f'substrate_projection_lag{{house="{ana.house}",projection="documents"}} 0.0' in said
    assert "substrate_stream_head{" in shell.json("metrics")["text"]
