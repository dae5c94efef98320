"""The server as a process: where it listens, and how it ends."""

from __future__ import annotations

import ipaddress
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from substrate.doors.http.serving import check_address, serve
from substrate.errors import Misconfigured, Unavailable
from substrate.settings import Settings
from tests.hosts import runtime
from tests.outage import outage
from tests.served import TIMEOUT
from tests.servers import Cluster, DatabaseUrls
from tests.signals import until

PROGRAM = """
import sys
from substrate.doors.http.serving import serve
from substrate.runtime.runtime import Runtime

with Runtime.open("desk") as runtime:
    founded = runtime.world.found_house("home", "ana")
    serve(runtime, on_ready=lambda address: print(address, founded.token, flush=True))
print("closed", flush=True)
"""


@contextmanager
def process(urls: DatabaseUrls, home: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A process that serves; its address, and the token of the owner of a house."""
    environment = {
        **os.environ, "SUBSTRATE_DATABASE_URL": urls.app, "SUBSTRATE_HOME": str(home), "SUBSTRATE_EMBEDDER": "none",
        "SUBSTRATE_HTTP_PORT": "0", **settings,
    }  # fmt: skip
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            address, token = started.stdout.readline().split()
            yield started, address, token
        finally:
            started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_though_readers_are_there(
    database: DatabaseUrls, tmp_path: Path, number: signal.Signals
) -> None:
    with process(database, tmp_path) as (started, address, token):
        headers = {"Authorization": f"Bearer {token}"}
        with (
            httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT) as client,
            client.stream("GET", "/v1/stream/events") as events,
        ):
            lines = events.iter_lines()
            while not next(lines).startswith("id:"):
                pass
            started.send_signal(number)
            assert all(isinstance(line, str) for line in lines)  # to its end, without an error
        out, _ = started.communicate(timeout=TIMEOUT)
        assert (started.returncode, out) == (0, "closed\n")


def test_tls_is_served_with_a_certificate(database: DatabaseUrls, tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    tls = {"SUBSTRATE_HTTP_TLS_CERT": str(certificate), "SUBSTRATE_HTTP_TLS_KEY": str(key)}
    with process(database, tmp_path, **tls) as (_, address, _):
        assert address.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{address}/health/live", verify=trusting, timeout=TIMEOUT).json() == {"status": "live"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"http_host": "0.0.0.0"}, "SUBSTRATE_HTTP_REMOTE"),
        ({"http_host": "192.0.2.1"}, "SUBSTRATE_HTTP_REMOTE"),
        ({"http_host": "memory.example"}, "SUBSTRATE_HTTP_REMOTE"),
        ({"http_host": "::"}, "SUBSTRATE_HTTP_REMOTE"),
        ({"http_host": "0.0.0.0", "http_remote": True}, "SUBSTRATE_HTTP_TRUSTED_PROXY"),
        ({"http_tls_cert": "c.pem"}, "SUBSTRATE_HTTP_TLS_KEY"),
    ],
)
def test_another_address_is_refused_unless_it_is_meant_and_protected(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        check_address(Settings(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"http_host": "127.0.0.1"},
        {"http_host": "::1"},
        {"http_host": "localhost"},
        {"http_host": "0.0.0.0", "http_remote": True, "http_trusted_proxy": "10.0.0.1"},
        {"http_host": "0.0.0.0", "http_remote": True, "http_tls_cert": "c.pem", "http_tls_key": "k.pem"},
    ],
)
def test_this_machine_and_what_is_protected_is_allowed(settings: dict[str, Any]) -> None:
    check_address(Settings(**settings))


def test_a_certificate_that_cannot_be_used_is_said_before_anything_starts(
    database: DatabaseUrls, tmp_path: Path
) -> None:
    certificate, _ = _certificate(tmp_path)
    wrong = {"http_tls_cert": certificate, "http_tls_key": tmp_path / "none"}
    with runtime(database, tmp_path) as desk, pytest.raises(Misconfigured, match="SUBSTRATE_HTTP_TLS_KEY"):
        serve(desk, desk.settings.model_copy(update=wrong))


def test_an_address_that_is_taken_is_said_at_once(database: DatabaseUrls, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk, process(database, tmp_path / "other") as (_, address, _):
        taken = desk.settings.model_copy(update={"http_port": int(address.rsplit(":", 1)[1])})
        with pytest.raises(Unavailable, match="SUBSTRATE_HTTP_PORT"):
            serve(desk, taken)


def test_a_server_without_its_database_lives_and_is_not_ready(
    cluster: Cluster, database: DatabaseUrls, tmp_path: Path
) -> None:
    with process(database, tmp_path) as (_, address, token), httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        assert client.get("/health/ready").status_code == 200
        with outage(cluster, database):
            until(lambda: client.get("/health/ready").status_code == 503)
            assert client.get("/health/ready").json() == {"status": "not_ready"}
            assert client.get("/health/live").status_code == 200
        until(lambda: client.get("/health/ready").status_code == 200)
        answer = client.get("/v1/whoami", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody else vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    secret.write_bytes(pem)
    return certificate, secret
