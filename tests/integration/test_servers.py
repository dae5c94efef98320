"""The ground the other tests stand on: their servers and databases."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from substrate.errors import ServerUnavailable
from tests import servers
from tests.conftest import FreshDatabase
from tests.servers import Cluster, DatabaseUrls

ROOT = Path(__file__).parents[2]

HOLD_A_SERVER = """
import sys
from tests import servers
with servers.embedded_cluster() as cluster:
    print(cluster.embedded.home, flush=True)
    sys.stdin.read()
"""


@pytest.mark.world
def test_each_database_is_a_copy_that_others_do_not_see(fresh_database: FreshDatabase) -> None:
    with fresh_database() as one, fresh_database() as other:
        with psycopg.connect(one.owner) as connection:
            connection.execute("CREATE TABLE substrate.only_here ()")
        with psycopg.connect(other.owner) as connection:
            found = connection.execute("SELECT to_regclass('substrate.only_here')").fetchone()
    assert found == (None,)


@pytest.mark.world
def test_the_application_role_has_no_power_of_its_own(database: DatabaseUrls) -> None:
    with psycopg.connect(database.app) as connection:
        row = connection.execute(
            "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,"
            "       pg_has_role(current_user, (SELECT datdba FROM pg_database WHERE datname = current_database()), 'USAGE')"
            " FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
    assert row == (False, False, False, False, False)


def test_a_database_goes_although_somebody_is_connected(fresh_database: FreshDatabase) -> None:
    with fresh_database() as urls:
        lingering = psycopg.connect(urls.app)
    with lingering, pytest.raises(psycopg.OperationalError):
        lingering.execute("SELECT 1")


def test_a_given_server_is_left_as_it_was_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT rolname FROM pg_roles UNION ALL SELECT datname FROM pg_database ORDER BY 1"
    monkeypatch.setenv(servers.GIVEN_URL, cluster.superuser_url("postgres"))
    with psycopg.connect(cluster.superuser_url("postgres"), autocommit=True) as connection:
        before = connection.execute(query).fetchall()
        with servers.cluster("auto") as given, given.database() as urls, psycopg.connect(urls.owner) as owner:
            assert given.origin == "given"
            owner.execute("CREATE TABLE ours ()")
        assert connection.execute(query).fetchall() == before


def test_a_given_server_that_is_not_there_is_an_error_and_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(servers.GIVEN_URL, "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")
    with pytest.raises(ServerUnavailable, match=servers.GIVEN_URL), servers.cluster("auto"):
        pass


def test_without_any_server_the_error_names_every_way_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(servers.GIVEN_URL, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(servers, "find_binaries", lambda _source: None)
    with pytest.raises(servers.NoServer) as caught, servers.cluster("auto"):
        pass
    assert all(word in str(caught.value) for word in (servers.GIVEN_URL, "docker", "wheel", "system"))


def test_the_server_of_a_killed_test_run_is_stopped_and_removed() -> None:
    command = [sys.executable, "-c", HOLD_A_SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        home = run.stdout.readline().strip()
        assert Path(home).exists()
        run.send_signal(signal.SIGKILL)
        # The reaper has inherited the pipe and is the last to leave it.
        run.stdout.read()
    assert not Path(home).exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:old@db.example:6543/postgres?sslmode=require",
        "postgresql://me@/postgres?host=/run/a%20folder&port=5433",
        "host=/tmp user=me dbname=postgres",
    ],
)
def test_a_url_for_another_role_leads_to_the_same_server(url: str) -> None:
    role = servers.Role("röle", "p@ss/wörd:?&%")
    before = conninfo_to_dict(url)
    after = conninfo_to_dict(servers.url_as(url, "my db", role))
    assert (after["user"], after["password"], after["dbname"]) == (role.name, role.password, "my db")
    kept = {"host", "port", "sslmode"} & before.keys()
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
