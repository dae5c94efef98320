"""Fixtures of the tests with processes that die."""

from tests.integration.conftest import house

__all__ = ["house"]
