"""What is inside the embedded server's data folder: initdb, configuration, roles and the database."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from substrate.errors import ServerUnavailable
from substrate.world.server.account import Account
from substrate.world.server.binaries import Binaries
from substrate.world.server.folders import Place, make_folder, sync_folder, write_private

SUPERUSER = "postgres"
OWNER = "substrate_owner"
APP = "substrate_app"
DATABASE = "substrate"

#: The application role may do nothing here; migrations grant it what it needs.
ROLE_RIGHTS: dict[str, LiteralString] = {
    OWNER: "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOREPLICATION CREATEROLE",
    APP: "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOREPLICATION NOCREATEROLE",
}

SETTINGS = {
    # An acknowledged write survives a power cut. These are PostgreSQL's defaults, written down so that they stay.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "password_encryption": "scram-sha-256",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "1GB",
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",
    "timezone": "UTC",
    # The log tells the life of the server and nothing of its content. A statement, a parameter, a DETAIL ("Key
    # (title)=(…) already exists", "Failed process was running: …") and even an ERROR itself may quote a memory,
    # so errors and warnings stay out: the client who caused one is told, and pg_stat_database counts bad checksums.
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_min_messages": "log",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_checkpoints": "off",
}


@dataclass(frozen=True, slots=True)
class Passwords:
    """One password per role, made once; never shown."""

    superuser: str = field(repr=False)
    owner: str = field(repr=False)
    app: str = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Passwords:
        """Raises FileNotFoundError before the first start."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise ServerUnavailable(f"{path} does not hold the server's passwords; restore it from a backup") from None

    @classmethod
    def make(cls, path: Path) -> Passwords:
        made = cls(*(secrets.token_urlsafe(32) for _ in range(3)))
        write_private(path, json.dumps(asdict(made), indent=2))
        return made


def url(place: Place, role: str, password: str, dbname: str) -> str:
    """A libpq URL of this server, password included."""
    login = f"{quote(role, safe='')}:{quote(password, safe='')}"
    if place.socket is None:
        return f"postgresql://{login}@127.0.0.1:{place.port}/{quote(dbname, safe='')}"
    return f"postgresql://{login}@/{quote(dbname, safe='')}?host={quote(str(place.socket), safe='')}&port={place.port}"


def server_environment() -> dict[str, str]:
    """As little as the programs need: a server must not inherit our tokens, or settings meant for our libpq."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def initialise(binaries: Binaries, place: Place, account: Account, passwords: Passwords, lock: int) -> None:
    """Make the data folder: complete and in its place, or not at all."""
    make_folder(place.staging, owner=account)
    password_file = place.staging / "password"
    write_private(password_file, passwords.superuser, account)
    draft = place.staging / "data"
    _initdb(binaries, draft, password_file, account, lock)
    with (draft / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write("\ninclude 'substrate.conf'\n")
        conf.flush()
        os.fsync(conf.fileno())
    configure(place, draft, account)
    try:
        draft.rename(place.data)
    except OSError as error:
        raise ServerUnavailable(f"{place.data} is not a complete data folder: move it away ({error})") from error
    sync_folder(place.folder)
    shutil.rmtree(place.staging)


def _initdb(binaries: Binaries, draft: Path, password_file: Path, account: Account, lock: int) -> None:
    complaint = ""
    for locale in _locales(binaries.major):
        done = subprocess.run(
            [
                *(binaries.program("initdb"), "-D", draft, "-U", SUPERUSER, f"--pwfile={password_file}", "-E", "UTF8"),
                *("--data-checksums", "--auth-local=scram-sha-256", "--auth-host=scram-sha-256", *locale),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=draft.parent,
            env=server_environment(),
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
            start_new_session=True,
            # It holds our lock too: if we are killed, nobody touches the staging folder before initdb has ended.
            pass_fds=(lock,) if sys.platform != "win32" else (),
        )
        if done.returncode == 0:
            return
        complaint = done.stderr.strip()
        shutil.rmtree(draft, ignore_errors=True)
    raise ServerUnavailable(f"initdb ({binaries.version}, as {account.name}) could not make a data folder: {complaint}")


def _locales(major: int) -> list[list[str]]:
    """Unicode case rules without a language's sort order: the same on every machine."""
    if major >= 17:
        return [["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]]
    return [["--locale=C.UTF-8"], ["--locale=C"]]  # not every system has the first


def configure(place: Place, data: Path, account: Account) -> None:
    """Write our settings. ALTER SYSTEM still has the last word, and the next start checks what matters."""
    settings = SETTINGS | {"port": str(place.port)}
    if place.socket is None:
        settings |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    else:
        # A list of names, so the one name is quoted inside the quoted value.
        directory = '"' + str(place.socket).replace('"', '""') + '"'
        settings |= {"listen_addresses": "", "unix_socket_directories": directory, "unix_socket_permissions": "0700"}
    lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
    write_private(data / "substrate.conf", "".join(("# Written at each start; use ALTER SYSTEM.\n", *lines)), account)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def prepare(connection: psycopg.Connection[tuple[object, ...]], passwords: Passwords, inside: str) -> None:
    """Create the roles and the database that are missing: a first start may have died after any of them.

    `inside` is the superuser's URL of the database itself.
    """
    roles = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")}
    if OWNER not in roles:
        _create_role(connection, OWNER, passwords.owner)
    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
        create = sql.SQL("CREATE DATABASE {} OWNER {}")
        connection.execute(create.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))
    # Last, because a login of this role is how everybody sees that all the rest is there.
    if APP not in roles:
        _allow_scrubbing(inside)
        _create_role(connection, APP, passwords.app)


def _allow_scrubbing(inside: str) -> None:
    """What `erase --now` takes, besides owning the tables: to run through the write-ahead log."""
    owner = sql.Identifier(OWNER)
    with psycopg.connect(inside, autocommit=True) as connection:
        connection.execute(sql.SQL("GRANT pg_checkpoint, pg_monitor TO {}").format(owner))
        connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION pg_switch_wal() TO {}").format(owner))


def _create_role(connection: psycopg.Connection[tuple[object, ...]], role: str, password: str) -> None:
    # The server gets the SCRAM verifier, never the password.
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    create = sql.SQL("CREATE ROLE {} {} PASSWORD {}")
    connection.execute(create.format(sql.Identifier(role), sql.SQL(ROLE_RIGHTS[role]), sql.Literal(verifier)))
