"""Among source keys that are due, those with a higher priority come first, and none waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from mercury.storage.api import StorageManager
from mercury.storage.records import Channel
from mercury.storage.turns import HEAD_START
from mercury.testing.contract.builders import NOW, channel, rms_record, row

Make: TypeAlias = Callable[..., Any]


def named(name: str, priority: int = 0) -> Channel:
    return channel(name, priority=priority)


def waits(store: StorageManager, name: str, priority: int = 0, since: float = NOW) -> None:
    """A key with a row that waits for a number."""
    with store.transaction() as tx:
        tx.rms.append(row(f"row {name}", named(name, priority), created_at=since))


def is_due(store: StorageManager, name: str, priority: int = 0, since: float = NOW) -> None:
    """A key with a sequence that is due."""
    with store.transaction() as tx:
        tx.rms.insert(rms_record(f"rms {name}", named(name, priority), due=since))


def first(store: StorageManager, limit: int = 100) -> Sequence[str]:
    return [key.name for key in store.due_rms(NOW + 1000, limit)]


@pytest.mark.parametrize("make", [waits, is_due])
def test_a_higher_priority_comes_first(store: StorageManager, make: Make) -> None:
    for name, priority in (("none", 0), ("low", 1), ("high", 9), ("middle", 5)):
        make(store, name, priority)
    assert first(store) == ["high", "middle", "low", "none"]
    assert first(store, 2) == ["high", "middle"]


@pytest.mark.parametrize("make", [waits, is_due])
def test_of_many_keys_the_one_with_a_priority_is_found(store: StorageManager, make: Make) -> None:
    for number in range(20):
        make(store, f"none {number}", since=NOW + number / 100)
    make(store, "high", 9, since=NOW + 1)
    assert first(store, 4)[0] == "high"


@pytest.mark.parametrize("make", [waits, is_due])
def test_a_key_that_has_waited_long_comes_before_a_new_one_with_a_priority(store: StorageManager, make: Make) -> None:
    make(store, "old", since=NOW)
    make(store, "new", 2, since=NOW + 2 * HEAD_START + 1)
    make(store, "newer", 9, since=NOW + 5 * HEAD_START)
    assert first(store) == ["newer", "old", "new"]


@pytest.mark.parametrize("make", [waits, is_due])
def test_keys_of_one_priority_keep_their_order(store: StorageManager, make: Make) -> None:
    for number in range(5):
        make(store, str(number), 3, since=NOW + number)
    assert first(store) == list("01234")
