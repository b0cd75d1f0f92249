"""Locks that others hold can be left out instead of waiting for them."""

from __future__ import annotations

import pytest

from mercury.storage.api import LockOrderError
from mercury.testing.contract.builders import rmd_record
from mercury.testing.contract.locking import SHORT, add_one, attempt
from mercury.testing.contract.stores import StoreFactory
from mercury.testing.contract.threads import Threads, result


def test_destination_sequences_that_others_have_locked_can_be_left_out(
    store_factory: StoreFactory, threads: Threads
) -> None:
    """A store that locks all of its rows at once waits for them here, too."""
    store = store_factory(lock_timeout=SHORT)
    with store.transaction() as tx:
        tx.rmd.insert(*(rmd_record(f"urn:rmd:{number}") for number in range(3)))
    found: list[str] = []

    def change() -> None:
        with store.transaction() as tx:
            free = tx.rmd.lock([*(f"urn:rmd:{number}" for number in range(3)), "urn:unknown"], only_free=True)
            found[:] = free
            for record in free.values():
                tx.rmd.save(record)
            others = tx.rmd.read_many([f"urn:rmd:{number}" for number in range(3)]).keys() - free.keys()
            for name in others:
                with pytest.raises(LockOrderError):
                    tx.rmd.save(tx.rmd.read_many([name])[name])

    with store.transaction() as tx:
        tx.rmd.lock(["urn:rmd:1"])
        if result(threads.start(lambda: attempt(change))) == "done":
            assert found == ["urn:rmd:0", "urn:rmd:2"]
    change()
    assert found == ["urn:rmd:0", "urn:rmd:1", "urn:rmd:2"]
    assert add_one(store, "urn:rmd:1") == 1
