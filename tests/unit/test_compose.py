"""docker-compose.yml, as far as it can be judged without Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


@pytest.mark.parametrize("service", SERVICES)
def test_every_port_is_published_on_loopback_only(service: str) -> None:
    assert SERVICES[service]["ports"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service]["ports"])


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_a_health_check(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_keeps_its_data_in_a_named_volume(service: str) -> None:
    sources = {volume.split(":")[0] for volume in SERVICES[service]["volumes"]}
    assert sources & set(COMPOSE["volumes"])


def test_postgres_18_starts_by_default_with_its_data_where_18_wants_it() -> None:
    postgres = SERVICES["postgres"]
    assert "profiles" not in postgres
    assert postgres["image"] == "postgres:18"
    assert "postgres-data:/var/lib/postgresql" in postgres["volumes"]


def test_kafka_starts_only_when_its_profile_is_asked_for() -> None:
    assert SERVICES["kafka"]["profiles"] == ["kafka"]


def test_no_password_has_a_default() -> None:
    passwords = {
        name: value for name, value in SERVICES["postgres"]["environment"].items() if name.endswith("_PASSWORD")
    }
    assert set(passwords) == {"POSTGRES_PASSWORD", "SUBSTRATE_OWNER_PASSWORD", "SUBSTRATE_APP_PASSWORD"}
    assert all(value.startswith("${SUBSTRATE_") and ":?" in value for value in passwords.values())


def test_mounted_files_exist() -> None:
    mounted = [volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]]
    folders = [ROOT / source for source in mounted if source.startswith(".")]
    assert folders
    assert all(any(folder.iterdir()) for folder in folders)


def test_the_application_role_of_the_init_script_has_no_power_of_its_own() -> None:
    script = (ROOT / "compose" / "postgres" / "10-roles.sql").read_text(encoding="utf-8")
    (statement,) = [line for line in script.splitlines() if line.startswith("CREATE ROLE substrate_app ")]
    assert "NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS" in statement
