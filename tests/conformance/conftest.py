"""The stores that the suite runs on. A new store is one more entry of `KINDS`; no test is to know which one it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury.storage.api import Capabilities, StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store

from .threads import Threads


@dataclass(frozen=True)
class StoreKind:
    """How a kind of store is opened, and what of it a test has to know beside its capabilities."""

    #: Opens the store whose data lie at a place; ``lock_timeout`` is in seconds.
    open: Callable[[str, float], StorageManager]
    #: The place is the URL of a PostgreSQL database; else a folder.
    in_postgres: bool = False
    #: Two transactions may have written at the same time. False: the second writer waits for the first one's end.
    writes_side_by_side: bool = True
    #: Notices rows that are locked against the order, or changed without their lock.
    notices_lock_order: bool = True
    #: How many walks the model takes: each has a store of its own, and a database costs more than a dictionary.
    walks: int = 150


def _sqlite(folder: str, lock_timeout: float) -> StorageManager:
    return open_sql_store(f"sqlite:///{folder}/store.sqlite", lock_timeout=lock_timeout)


def _postgres(url: str, lock_timeout: float) -> StorageManager:
    # The suite says what the time is; that leases go by the database's clock has tests of its own.
    return open_sql_store(url, lock_timeout=lock_timeout, database_clock=False)


def fill(url: str) -> None:
    """Mercury's tables in an empty database, without a session left in it."""
    open_sql_store(url).close()


KINDS = {
    "memory": StoreKind(lambda _folder, lock_timeout: MemoryStore(lock_timeout=lock_timeout)),
    "sqlite": StoreKind(_sqlite, writes_side_by_side=False, walks=25),
    "postgres": StoreKind(_postgres, in_postgres=True, walks=8),
}


class StoreFactory:
    """Opens stores of one kind. The same name is the same data, if the store keeps any."""

    def __init__(self, kind: StoreKind, new_place: Callable[[str], str]) -> None:
        self.kind = kind
        self._new_place = new_place
        self._places: dict[str, str] = {}
        self._opened: list[StorageManager] = []

    def __call__(self, name: str = "store", *, lock_timeout: float = 10.0) -> StorageManager:
        if name not in self._places:
            self._places[name] = self._new_place(name)
        store = self.kind.open(self._places[name], lock_timeout)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> StoreKind:
    return KINDS[request.param]


@pytest.fixture
def store_factory(kind: StoreKind, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StoreFactory]:
    def new_folder(name: str) -> str:
        (tmp_path / name).mkdir()
        return str(tmp_path / name)

    if kind.in_postgres:
        create: Callable[..., str] = request.getfixturevalue("postgres_database")
        factory = StoreFactory(kind, lambda _name: create(fill))
    else:
        factory = StoreFactory(kind, new_folder)
    yield factory
    factory.close()


@pytest.fixture
def store(request: pytest.FixtureRequest, store_factory: StoreFactory) -> StorageManager:
    """An empty store, with what the test's ``needs`` asks for."""
    made = store_factory()
    for marker in request.node.iter_markers("needs"):
        for name in marker.args:
            if not _has(made.capabilities, store_factory.kind, name):
                pytest.skip(f"this store does not say that it is {name!r}")
    return made


def _has(capabilities: Capabilities, kind: StoreKind, name: str) -> bool:
    return bool(getattr(kind, name) if hasattr(kind, name) else getattr(capabilities, name))


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Other threads; a test that leaves one behind fails."""
    with Threads() as started:
        yield started


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): skipped on stores without these capabilities")
