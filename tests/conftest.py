"""Fixtures for all tests."""

import gc
import logging
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.acceptance.processes import COMMANDS
from tests.prepared import COLLECTED_AFTER

pytest_plugins = ("tests.temporary", "tests.order", "tests.postgres", "tests.stores")


def pytest_configure(config: pytest.Config) -> None:
    """No test leaves a store's file in the folder that it is run in, unless it asks for one by name."""
    os.environ["MERCURY_STORE"] = "memory:"
    # Collections every 700 objects, among all that imports and tests keep, took about 5 % of the CPU time.
    gc.set_threshold(COLLECTED_AFTER)
    # How long an example takes says how busy the machine is.
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")


def pytest_unconfigure() -> None:
    COMMANDS.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, bool | None, bool | None]:
    """A command that a test runs in its own process sets the log's level, which is not that of the tests after it."""
    root = logging.getLogger()
    before = root.level
    try:
        return (yield)
    finally:
        root.setLevel(before)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.CollectReport | pytest.TestReport,
) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Half of a surrogate pair, which tests log and compare, cannot be sent to the process that collects reports."""
    data = yield
    return _in_utf8(data) if report.sections or report.longrepr else data


def _in_utf8(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {name: _in_utf8(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_in_utf8, value))
        case _:
            return value
