"""Opens the stores of a test, and skips tests for which a store lacks a capability or a trait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mercury.storage.api import StorageManager

Test = TypeVar("Test", bound=Callable[..., object])


class OpenStore(Protocol):
    """Opens a store of the kind that is tested."""

    def __call__(self, name: str, *, lock_timeout: float) -> StorageManager:
        """Open a store. Stores of one name have the same data, if the store is durable; a store of a new name is empty.

        :param lock_timeout: seconds after which waiting for a lock raises `TransientStorageError`.
        """


@dataclass(frozen=True)
class Traits:
    """Properties of a kind of store that tests need and that are not among its capabilities."""

    #: Whether two transactions can write at the same time; otherwise the second writer waits for the end of the first.
    writes_side_by_side: bool = True
    #: Whether the store raises an error if rows are locked against the lock order, or changed without their lock.
    notices_lock_order: bool = True
    #: The number of random runs of `model`. Each has a store of its own, which for a database takes longer.
    walks: int = 150


class StoreFactory:
    """Opens stores of one kind, and closes them after the test."""

    def __init__(self, open_store: OpenStore, traits: Traits) -> None:
        self.traits = traits
        self._open_store = open_store
        self._opened: list[StorageManager] = []

    def __call__(self, name: str = "store", *, lock_timeout: float = 10.0) -> StorageManager:
        store = self._open_store(name, lock_timeout=lock_timeout)
        self._opened.append(store)
        return store

    def has(self, store: StorageManager, name: str) -> bool:
        """Whether a store has a trait or a capability."""
        return bool(getattr(self.traits, name) if hasattr(self.traits, name) else getattr(store.capabilities, name))

    def close(self) -> None:
        for store in self._opened:
            store.close()


def needs(*names: str) -> Callable[[Test], Test]:
    """Skip the decorated test for stores without these capabilities or traits."""

    def decorate(test: Test) -> Test:
        vars(test)["needs"] = names
        return test

    return decorate


def needed(test: object) -> tuple[str, ...]:
    """The capabilities and traits that `needs` gives a test."""
    names: tuple[str, ...] = getattr(test, "needs", ())
    return names
