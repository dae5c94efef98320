"""Fixtures: one house for each door, and the tests made for those doors that have what they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from tests.conformance.audit import Findings, audit
from tests.conformance.door import Way
from tests.conformance.household import Household
from tests.conformance.premises import Premises, premises
from tests.conformance.ways import WAYS
from tests.conftest import FreshDatabase


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*traits): made only for the doors that have all of this")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" not in metafunc.fixturenames:
        return
    wanted = {trait for mark in metafunc.definition.iter_markers("needs") for trait in mark.args}
    chosen = [name for name, way in WAYS.items() if not wanted & way.lacks]
    metafunc.parametrize("way", chosen, indirect=True, scope="package")


@pytest.fixture(scope="package")
def grounds(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Premises]:
    with fresh_database() as urls, premises(urls, tmp_path_factory.mktemp("conformance")) as made:
        yield made


@pytest.fixture(scope="package")
def way(request: pytest.FixtureRequest, grounds: Premises) -> Way:
    return WAYS[request.param](grounds)


@pytest.fixture(scope="package")
def audited(home: Household) -> Findings:
    """What kate learns at the door, of somebody who has told the house nothing. That there are others, all know."""
    return audit(type(home.way), home.kate, home.another("rosa"), home.another("otto").id)


@pytest.fixture(scope="package")
def audited_from_outside(home: Household) -> Findings:
    """What somebody of another house learns, who owns all there is there, and knows of nobody here."""
    return audit(type(home.way), home.come_in(home.elsewhere()), home.another("rosa"), uuid4())


@pytest.fixture(scope="package")
def home(way: Way) -> Iterator[Household]:
    with ExitStack() as stack:
        yield Household(way, stack)
