"""The stores that the suite runs on. A new store is one more entry of `KINDS`; no test is to know which one it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury.storage.api import Capabilities, StorageManager
from mercury.storage.memory import MemoryStore

from .threads import Threads


@dataclass(frozen=True)
class StoreKind:
    """How a kind of store is opened, and what of it a test has to know beside its capabilities."""

    #: Opens the store whose data lie in a folder; ``lock_timeout`` is in seconds.
    open: Callable[[Path, float], StorageManager]
    #: Two transactions may have written at the same time. False: the second writer waits for the first one's end.
    writes_side_by_side: bool = True
    #: Notices rows that are locked against the order, or changed without their lock.
    notices_lock_order: bool = True


KINDS = {
    "memory": StoreKind(lambda _folder, lock_timeout: MemoryStore(lock_timeout=lock_timeout)),
}


class StoreFactory:
    """Opens stores of one kind. The same name is the same data, if the store keeps any."""

    def __init__(self, kind: StoreKind, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._opened: list[StorageManager] = []

    def __call__(self, name: str = "store", *, lock_timeout: float = 10.0) -> StorageManager:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        store = self.kind.open(folder, lock_timeout)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> StoreKind:
    return KINDS[request.param]


@pytest.fixture
def store_factory(kind: StoreKind, tmp_path: Path) -> Iterator[StoreFactory]:
    factory = StoreFactory(kind, tmp_path)
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
