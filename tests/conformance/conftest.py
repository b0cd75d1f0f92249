"""The stores of Mercury that run the store contract of `mercury.testing`. A new store is a new entry of `KINDS`,
and of `tests.stores.KINDS`.

For a store outside Mercury, write a subclass of `mercury.testing.StoreContract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.testing.contract.outbox import Outbox
from mercury.testing.contract.stores import StoreFactory, Traits
from mercury.testing.contract.suite import made_for
from mercury.testing.contract.threads import Threads
from tests.stores import urls_of


@dataclass(frozen=True)
class StoreKind:
    """How a kind of store is opened."""

    #: Opens the store with this URL; the lock time-out is in seconds.
    open: Callable[[str, float], StorageManager]
    traits: Traits = field(default_factory=Traits)


def _memory(_url: str, lock_timeout: float) -> StorageManager:
    return MemoryStore(lock_timeout=lock_timeout)


def _sql(url: str, lock_timeout: float) -> StorageManager:
    # The suite says what the time is; that leases go by the database's clock has tests of its own.
    return open_sql_store(url, lock_timeout=lock_timeout, database_clock=False)


def fill(url: str) -> None:
    """Mercury's tables in an empty database, without a session left in it."""
    open_sql_store(url).close()


#: Where they are: `tests.stores.KINDS`.
KINDS = {
    "memory": StoreKind(_memory),
    "sqlite": StoreKind(_sql, Traits(writes_side_by_side=False, walks=25)),
    "postgres": StoreKind(_sql, Traits(walks=8)),
}


@pytest.fixture(params=list(KINDS))
def store_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    kind, urls = KINDS[request.param], urls_of(request.param, request, tmp_path, fill)
    places: dict[str, str] = {}

    def open_store(name: str, *, lock_timeout: float) -> StorageManager:
        if name not in places:
            places[name] = urls()
        return kind.open(places[name], lock_timeout)

    factory = StoreFactory(open_store, kind.traits)
    yield factory
    factory.close()


@pytest.fixture
def store(request: pytest.FixtureRequest, store_factory: StoreFactory) -> StorageManager:
    """An empty store, with what the test's `needs` asks for."""
    return made_for(request, store_factory)


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Other threads; a test that leaves one behind fails."""
    with Threads() as started:
        yield started


@pytest.fixture
def outbox(store: StorageManager) -> Outbox:
    return Outbox(store)
