"""`from substrate import …` is small, complete and cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import substrate

SURFACE = [
    "Agent", "AsyncAgent", "AsyncRuntime", "Event", "Evidence", "HostedAgent", "Link", "Memory", "NewMemory", "Operator",
    "Position", "Proposal", "Receipt", "Rights", "Runtime", "Scope", "Seal", "Settings", "Source", "SubstrateError",
    "Toolbox", "World", "errors",
]  # fmt: skip


def test_the_public_names_are_exactly_these() -> None:
    assert substrate.__all__ == SURFACE


@pytest.mark.parametrize("name", SURFACE)
def test_each_public_name_is_there_and_says_what_it_promises(name: str) -> None:
    assert getattr(substrate, name).__doc__
    assert name in dir(substrate)


def test_another_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = substrate.Nonsense


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_the_package_loads_none_of_what_is_behind_it() -> None:
    heavy = {"psycopg", "sqlalchemy", "pydantic", "typer", "rich", "substrate.world.world", "substrate.doors.cli"}
    assert not heavy & loaded_by("import substrate")


def test_importing_the_projections_needs_nothing_of_the_package() -> None:
    assert "substrate.world.world" not in loaded_by("import projections")


def test_every_error_is_of_the_one_tree_and_has_a_word_of_its_own_for_machines() -> None:
    def tree(error: type[substrate.SubstrateError]) -> list[type[substrate.SubstrateError]]:
        return [error, *(below for child in error.__subclasses__() for below in tree(child))]

    codes = [error.code for error in tree(substrate.SubstrateError) if error.__module__ == "substrate.errors"]
    assert len(codes) == len(set(codes))
