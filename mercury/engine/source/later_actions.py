"""Work in a transaction of the application, whose actions after the commit are called in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercury.storage.api import Transaction


class LaterActions:
    """A transaction whose actions after the commit are collected, and left to the caller."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        #: In their order.
        self.actions: list[Callable[[], None]] = []

    def after_commit(self, action: Callable[[], None]) -> None:
        """As `Transaction.after_commit`."""
        self.actions.append(action)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)
