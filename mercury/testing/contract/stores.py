"""The stores that a test opens, and what of them it has to know beside their capabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mercury.storage.api import StorageManager

Test = TypeVar("Test", bound=Callable[..., object])


class OpenStore(Protocol):
    """Opens a store of the kind that is tested."""

    def __call__(self, name: str, *, lock_timeout: float) -> StorageManager:
        """Open the store of a name. The same name is the same data, if the store keeps any; a new one is empty.

        :param lock_timeout: seconds after which waiting for a lock raises `TransientStorageError`.
        """


@dataclass(frozen=True)
class Traits:
    """What of a kind of store a test has to know beside its capabilities."""

    #: Two transactions may have written at the same time. False: the second writer waits for the first one's end.
    writes_side_by_side: bool = True
    #: Notices rows that are locked against the order, or changed without their lock.
    notices_lock_order: bool = True
    #: How many walks the model takes: each has a store of its own, and a database costs more than a dictionary.
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
        """Whether it has a trait or a capability."""
        return bool(getattr(self.traits, name) if hasattr(self.traits, name) else getattr(store.capabilities, name))

    def close(self) -> None:
        for store in self._opened:
            store.close()


def needs(*names: str) -> Callable[[Test], Test]:
    """The decorated test is skipped for stores without these capabilities or traits."""

    def decorate(test: Test) -> Test:
        vars(test)["needs"] = names
        return test

    return decorate


def needed(test: object) -> tuple[str, ...]:
    """What `needs` says of a test."""
    names: tuple[str, ...] = getattr(test, "needs", ())
    return names
