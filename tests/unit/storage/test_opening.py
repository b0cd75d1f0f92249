"""Opening a store by its URL."""

from __future__ import annotations

import pytest

from mercury.errors import ConfigurationError
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_store


def test_memory_is_opened_anew_each_time() -> None:
    first, second = open_store("memory:"), open_store("memory:")
    assert isinstance(first, MemoryStore)
    assert first is not second


@pytest.mark.parametrize("url", ["", "memory", "nonsense://db/orders", "postgres"])
def test_table_that_names_no_store_is_reported(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a store"):
        open_store(url)
