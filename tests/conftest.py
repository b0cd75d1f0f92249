"""Fixtures for all tests."""

import os

import pytest

from tests.acceptance.processes import COMMANDS

pytest_plugins = ("tests.temporary", "tests.order", "tests.postgres", "tests.stores")


def pytest_configure(config: pytest.Config) -> None:
    """No test leaves a store's file in the folder that it is run in, unless it asks for one by name."""
    os.environ["MERCURY_STORE"] = "memory:"


def pytest_unconfigure() -> None:
    COMMANDS.close()
