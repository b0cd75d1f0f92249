"""A console over an empty store, in a real server; and one browser for all tests of a process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mercury.console.console import Console
from mercury.operations.operator import Operations
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock

from .browsing import Browser, console_of, serving
from .prepared import Prepared, copied, prepare

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

#: Of a page.
WIDTH = 1240


@pytest.fixture(scope="session")
def driver() -> Iterator[WebDriver]:
    from .chromium import chromium  # noqa: PLC0415  most tests need no browser, and some run alone, for a mutant

    with chromium(width=WIDTH) as made:
        yield made


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    folder: Path = tmp_path_factory.mktemp("console")
    with contextlib.closing(open_sql_store(f"sqlite:///{folder / 'shop.db'}")) as opened:
        yield opened


@pytest.fixture
def console(store: SqlStore, clock: FakeClock) -> Console:
    return console_of(store, clock)


@pytest.fixture
def browser(console: Console) -> Iterator[Browser]:
    with serving(console.application()) as url:
        yield Browser(url)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def prepared(made: Prepared, tmp_path: Path) -> Prepared:
    """A copy of the prepared store, which the test may change."""
    return copied(made, tmp_path)


@pytest.fixture
def prepared_store(prepared: Prepared) -> Iterator[SqlStore]:
    with contextlib.closing(open_sql_store(prepared.url)) as opened:
        yield opened


@pytest.fixture
def operations(prepared_store: SqlStore, prepared: Prepared) -> Operations:
    return Operations(prepared_store, prepared.clock)
