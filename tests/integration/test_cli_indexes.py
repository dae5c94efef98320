"""Keeping the local indexes from the command line: status, rebuild, dead letters."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from projections.folder import Folder
from projections.sqlite import connect
from substrate.world.world import World
from tests.embeddings_server import serving
from tests.servers import DatabaseUrls
from tests.shell import PROGRAM, Shell

pytestmark = pytest.mark.world
ALL = ["documents", "fulltext", "graph", "hot", "recency", "vector"]


@pytest.fixture
def indexed(shell: Shell) -> Shell:
    """A house with a memory, and a runtime that has indexes of it."""
    shell("remember", "Indent with spaces", "--scope", "house", "--key", "indent")
    shell("recall", "indent")
    return shell


def folder(shell: Shell, runtime: str = "local") -> Path:
    (found,) = (path for path in (shell.home / "runtimes" / runtime).iterdir() if path.is_dir())
    return found


def runtimes(shell: Shell) -> dict[str, Any]:
    return {one["name"]: one for one in shell.json("status")["runtimes"]}


# ------------------------------------------------------------------ rebuild


def test_a_rebuild_says_what_it_built_and_how_fast(indexed: Shell) -> None:
    before = set(folder(indexed).glob("*.db"))
    built = indexed.json("rebuild")
    assert sorted(built["projections"]) == ALL
    assert (built["ok"], built["memories"], built["pending"], built["resumed"]) == (True, 1, 0, False)
    assert built["events"] > 0
    assert built["rate"] > 0
    assert not before & set(folder(indexed).glob("*.db"))
    said = indexed("rebuild", "fulltext")
    assert said.startswith("built documents, fulltext in runtime local")
    assert "events/s" in said
    assert "from the beginning" in said
    assert indexed.json("recall", "indent")["results"][0]["content"] == "Indent with spaces"


def test_an_unknown_projection_is_named_with_those_there_are(indexed: Shell) -> None:
    assert indexed.fails("rebuild", "fulltxt") == "invalid_input"
    assert "fulltext" in indexed.run("rebuild", "fulltxt").err


def test_a_rebuild_beside_another_one_says_that_it_has_to_wait(indexed: Shell) -> None:
    with Folder(folder(indexed)).locked("rebuild"):
        assert indexed.fails("rebuild") == "index_unavailable"
        assert "wait for it" in indexed.run("rebuild").err


def test_a_person_sees_a_bar_with_the_rate_and_the_time_left(indexed: Shell) -> None:
    ours, theirs = pty.openpty()
    try:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        done = subprocess.run([*PROGRAM, "rebuild"], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True)
        shown = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"built documents" in done.stdout
    assert "rebuilding" in shown
    assert "events/s" in shown
    assert "left" in shown


def test_indexes_that_are_gone_or_damaged_are_built_anew_by_the_next_recall(indexed: Shell) -> None:
    for file in folder(indexed).glob("fulltext*.db*"):
        file.unlink()
    (documents,) = folder(indexed).glob("documents*.db")
    documents.write_bytes(b"nonsense" * 4096)
    assert indexed.json("recall", "indent")["results"][0]["content"] == "Indent with spaces"
    for file in folder(indexed).iterdir():
        file.unlink()
    assert indexed.json("recall", "indent")["lacking"] == []


# ------------------------------------------------------------------ doctor


def test_the_doctor_finds_a_memory_that_differs_and_repairs_only_that(indexed: Shell) -> None:
    indexed("remember", "The cat is called Miez", "--key", "cat")
    assert "the indexes are as the truth is" in indexed("doctor")
    (documents,) = folder(indexed).glob("documents*.db")
    with connect(documents) as db:
        db.execute("DELETE FROM memories WHERE key = 'cat'")
    db.close()
    looked = indexed.run("doctor", "--dry-run", "--json")
    assert looked.code == 1
    assert indexed.json("get", "cat")["id"] in {one["memory"] for one in json.loads(looked.out)["differences"]}
    said = indexed("doctor")
    assert "repaired" in said
    (after,) = folder(indexed).glob("documents*.db")
    assert after == documents
    assert indexed.json("recall", "cat", "--no-wait")["results"][0]["content"] == "The cat is called Miez"


def test_the_doctor_builds_a_damaged_file_anew(indexed: Shell) -> None:
    (fulltext,) = folder(indexed).glob("fulltext*.db")
    fulltext.write_bytes(b"nonsense" * 4096)
    report = indexed.json("doctor")
    assert set(report["damaged"]) == {"fulltext"}
    assert indexed.json("doctor")["damaged"] == {}


# ------------------------------------------------------------------ another embedding space


def test_another_space_is_built_compared_and_then_used(indexed: Shell) -> None:
    with serving(dimensions=4) as server:
        for name, value in (("BASE_URL", server.url), ("MODEL", "m"), ("DIMENSIONS", "4")):
            indexed.monkeypatch.setenv(f"SUBSTRATE_EMBEDDING_{name}", value)
        tried = indexed.json("reembed", "--space", "http", "--dry-run")
        assert (tried["new"], tried["embedded"], tried["switched"]) == ("m@4", 1, False)
        assert runtimes(indexed)["local"]["embedder"] == tried["old"]
        said = indexed("reembed", "--space", "http")
        assert "the space m@4 is in use" in said
        assert "1, from what was asked" in said
        assert runtimes(indexed)["local"]["embedder"] == "m@4"
        assert indexed.json("recall", "indent", "--mode", "vector")["lacking"] == []
        assert indexed.fails("reembed", "--space", "http") == "invalid_input"
    assert indexed.fails("reembed", "--space", "none") == "invalid_input"
    assert indexed.fails("reembed", "--space", "nonsense") == "misconfigured"


def test_who_sets_another_embedder_in_the_environment_is_told_that_it_goes_back(indexed: Shell) -> None:
    indexed.monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")
    said = indexed.run("reembed", "--space", "static")
    assert said.code == 0
    assert "the embedder is set to none (SUBSTRATE_EMBEDDER" in said.err


# ------------------------------------------------------------------ status


def test_status_shows_every_runtime_and_how_far_each_index_is(indexed: Shell) -> None:
    indexed("remember", "later")
    indexed("recall", "later", "--runtime", "desk")
    found = runtimes(indexed)
    assert set(found) == {"local", "desk"}
    head = indexed.json("status")["houses"][0]["head"].rpartition(":")[2]
    assert sorted(one["name"] for one in found["desk"]["projections"]) == ALL
    assert {one["lag"] for one in found["desk"]["projections"]} == {0}
    assert {one["position"] for one in found["desk"]["projections"]} == {int(head)}
    assert {one["lag"] for one in found["local"]["projections"]} == {1}
    assert {one["pending"] + one["dead_letters"] for one in found["local"]["projections"]} == {0}
    assert found["desk"]["house_name"] == "home"
    assert found["desk"]["silent_for"] >= 0
    said = indexed("status")
    assert [word for word in ("local", "desk", *ALL, "lag", "vectors to come", "s ago") if word not in said] == []


def test_before_the_first_recall_status_says_that_there_is_no_index_yet(shell: Shell) -> None:
    assert shell.json("status")["runtimes"] == []
    assert "substrate recall" in shell("status")


def test_the_operator_reads_reports_of_other_versions_with_care(indexed: Shell, database: DatabaseUrls) -> None:
    with psycopg.connect(database.superuser) as connection:
        connection.execute(
            "UPDATE substrate.runtimes SET state = %s::jsonb",
            (json.dumps({"process": "many", "projections": [7, {"name": "odd", "position": None}], "new": 1}),),
        )
    with World.open(app_url=database.app) as world:
        (report,) = world.operator().runtimes()
    assert (report.process, report.agents, report.embedder) == (None, 0, None)
    assert [(one.name, one.position, one.lag) for one in report.projections] == [("odd", 0, report.head)]
    assert "odd" in indexed("status")


# ------------------------------------------------------------------ dead letters


def test_an_event_that_cannot_be_applied_is_listed_fails_the_rebuild_and_is_tried_again(
    indexed: Shell, database: DatabaseUrls
) -> None:
    kept = indexed.json("remember", "The cat is called Miez")
    with psycopg.connect(database.superuser) as connection:
        (seq, data) = connection.execute(
            "SELECT seq, data FROM substrate.events WHERE subject_id = %s", (kept["memory"],)
        ).fetchone() or (0, "")
        connection.execute("UPDATE substrate.events SET data = '[]' WHERE seq = %s", (seq,))
    said = indexed.run("rebuild")
    assert said.code == 1
    assert "1 event could not be applied; `substrate dead-letters` shows them" in said.out
    assert json.loads(indexed.run("rebuild", "--json").out)["dead_letters"] == 1
    # The rest goes on.
    assert indexed.json("recall", "indent")["results"][0]["content"] == "Indent with spaces"

    listed = indexed.run("dead-letters", "--json")
    (letter,) = json.loads(listed.out)["dead_letters"]
    assert listed.code == 1
    assert (letter["seq"], letter["memory"], letter["type"]) == (seq, kept["memory"], "MemoryLearned")
    assert "--retry" in indexed.run("dead-letters").out
    assert indexed.run("dead-letters", "--retry").code == 1
    assert "substrate dead-letters" in indexed("status")

    with psycopg.connect(database.superuser) as connection:
        connection.execute("UPDATE substrate.events SET data = %s WHERE seq = %s", (data, seq))
    assert indexed.json("dead-letters", "--retry") == {"ok": True, "dead_letters": []}
    assert "no dead letters" in indexed("dead-letters")
    assert indexed.json("recall", "cat")["results"][0]["content"] == "The cat is called Miez"
