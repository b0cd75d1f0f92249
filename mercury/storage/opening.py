"""Opening a store by its URL."""

from __future__ import annotations

from mercury.errors import ConfigurationError
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore


def open_store(url: str) -> StorageManager:
    """The store a URL names: ``memory:``.

    :raises ConfigurationError: the URL names no store that there is.
    """
    if url == "memory:":
        return MemoryStore()
    raise ConfigurationError(f"not a store: {url!r} (memory: is what there is)")
