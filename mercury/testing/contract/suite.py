"""`StoreContract`: the whole suite as one class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from mercury.storage.api import StorageManager
from mercury.testing.contract import TESTS
from mercury.testing.contract.outbox import Outbox
from mercury.testing.contract.stores import OpenStore, StoreFactory, Traits, needed
from mercury.testing.contract.threads import Threads


class _Fixtures:
    """The fixtures of the tests."""

    #: Whether two transactions can write at the same time; otherwise the second writer waits for the end of the first.
    writes_side_by_side: bool = True
    #: Whether the store raises an error if rows are locked against the lock order, or changed without their lock.
    notices_lock_order: bool = True
    #: The number of random runs of the test against a model, each with a store of its own.
    walks: int = 150

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Opens stores of the kind that is tested; see `OpenStore`."""
        raise NotImplementedError("the test class needs a fixture open_store: see mercury.testing.StoreContract")

    @pytest.fixture
    def store_factory(self, open_store: OpenStore) -> Iterator[StoreFactory]:
        traits = Traits(self.writes_side_by_side, self.notices_lock_order, self.walks)
        factory = StoreFactory(open_store, traits)
        yield factory
        factory.close()

    @pytest.fixture
    def store(self, request: pytest.FixtureRequest, store_factory: StoreFactory) -> StorageManager:
        return made_for(request, store_factory)

    @pytest.fixture
    def threads(self) -> Iterator[Threads]:
        with Threads() as started:
            yield started

    @pytest.fixture
    def outbox(self, store: StorageManager) -> Outbox:
        return Outbox(store)


def made_for(request: pytest.FixtureRequest, store_factory: StoreFactory) -> StorageManager:
    """An empty store; the test is skipped if the store lacks a capability that the test needs."""
    made = store_factory()
    for name in needed(request.function):
        if not store_factory.has(made, name):
            pytest.skip(f"this store does not have {name!r}")
    return made


def contract_tests() -> dict[str, Callable[..., None]]:
    """All tests of the contract by name."""
    found: dict[str, Callable[..., None]] = {}
    for file in TESTS:
        module = import_module(f"mercury.testing.contract.{file}")
        for name, value in vars(module).items():
            if name.startswith("test_") and value.__module__ == module.__name__:
                found[name] = value
    return found


class StoreContract(_Fixtures):
    """The tests that every store must pass, for a test class of your own.

    The class needs a fixture ``open_store``. It returns a function, which is called as ``open_store(name,
    lock_timeout=seconds)`` and returns a `StorageManager`. Within a test, stores of one name have the same data, if the
    store is durable. The suite closes the stores. Tests of capabilities (`Capabilities`, and the attributes of this
    class) that a store does not have are skipped.

    pytest and hypothesis are needed. docs/stores.md has an example.
    """


for _name, _test in contract_tests().items():
    setattr(StoreContract, _name, staticmethod(_test))
