"""The bytes on disk after `erase(…, now=True)`: what goes, what needs more rights, and that the answer says so."""

from __future__ import annotations

import secrets
from uuid import UUID

import psycopg
import pytest

from substrate.errors import InvalidInput
from substrate.world.scrub import WITH_TEXT, scrub
from substrate.world.world import Agent, World
from tests.secrets_in import files_with
from tests.servers import Cluster, DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def files(cluster: Cluster) -> Cluster:
    if cluster.embedded is None:
        pytest.skip("the files of this server are out of reach")
    return cluster


def written(world: World, secret: str, words: int) -> tuple[Agent, UUID]:
    """An agent and a memory among others, with the secret where an index and, if long, a TOAST table keep it too."""
    owner = world.found_house("home", "ana").owner
    for number in range(5):
        owner.remember(f"before {number}")
    # At both ends and incompressible, so that it is met whatever Postgres does with long values.
    text = " ".join([secret, *(secrets.token_hex(200) for _ in range(words)), secret])
    memory = owner.remember(text, key=f"{secret} key", title=f"{secret} title", tags=[secret]).memory
    for number in range(5):
        owner.remember(f"after {number}")
    return owner, memory


@pytest.mark.parametrize("words", [1, 120])
def test_after_erasing_now_no_file_of_the_server_holds_the_bytes(
    files: Cluster, database: DatabaseUrls, words: int
) -> None:
    secret = f"hush{secrets.token_hex(8)}"
    with World.open(app_url=database.app, owner_url=database.superuser) as world:
        owner, memory = written(world, secret, words)
        with psycopg.connect(database.superuser, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        assert files_with(secret, files, "base")
        assert files_with(secret, files, "pg_wal")

        receipt = owner.erase(memory, now=True)

    assert files_with(secret, files, "base") == set()
    assert files_with(secret, files, "pg_wal") == set()
    assert all(store.done for store in receipt.stores if "file" in store.store or store.store == "write-ahead log")


def test_erasing_without_now_leaves_bytes_and_says_so(files: Cluster, database: DatabaseUrls, world: World) -> None:
    """The null control, and the reason for rewriting tables: a plain VACUUM leaves a key in its index."""
    secret = f"hush{secrets.token_hex(8)}"
    owner, memory = written(world, secret, 1)
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        receipt = owner.erase(memory)
        for table in WITH_TEXT:
            connection.execute(f"VACUUM substrate.{table}".encode())
        connection.execute("CHECKPOINT")
    assert files_with(secret, files, "base")
    assert {store.store for store in receipt.stores if not store.done} >= {"table files", "write-ahead log"}


def test_the_owner_rewrites_tables_and_is_told_that_the_log_needs_more(
    files: Cluster, database: DatabaseUrls, world: World
) -> None:
    secret = f"hush{secrets.token_hex(8)}"
    owner, memory = written(world, secret, 1)
    receipt = owner.erase(memory, now=True)
    stores = {store.store: store for store in receipt.stores}
    assert all(stores[f"table file of {table}"].done for table in WITH_TEXT)
    assert not stores["write-ahead log"].done
    assert "pg_checkpoint" in stores["write-ahead log"].mechanism
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    assert files_with(secret, files, "base") == set()


def test_a_transaction_that_still_sees_the_text_is_reported(database: DatabaseUrls, world: World) -> None:
    owner, memory = written(world, "hush", 1)
    with psycopg.connect(database.superuser) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class LIMIT 1")
        receipt = owner.erase(memory, now=True)
        kept = [store for store in receipt.stores if store.store == "table file of memories"]
        assert [store.done for store in kept] == [False]
        assert "older transaction" in kept[0].mechanism
    assert all(store.done for store in scrub(database.owner) if store.store.startswith("table"))


def test_a_role_that_may_nothing_gets_reasons_and_no_error(database: DatabaseUrls, world: World) -> None:
    assert not any(store.done for store in scrub(database.app))


def test_now_without_the_owners_url_is_refused_before_anything_is_erased(database: DatabaseUrls) -> None:
    with World.open(app_url=database.app) as world:
        owner, memory = written(world, "hush", 1)
        with pytest.raises(InvalidInput, match="owner"):
            owner.erase(memory, now=True)
        assert "hush" in (owner.get(memory).content or "")
