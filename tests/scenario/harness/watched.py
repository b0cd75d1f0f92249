"""A store that records errors by which Mercury's code reports its own defects."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mercury.storage.api import StorageManager, Transaction
from mercury.testing import SimulatedStore

if TYPE_CHECKING:
    from .node import Node


class WatchedStore(SimulatedStore):
    """The store of a node between two starts."""

    def __init__(self, inner: StorageManager, node: Node) -> None:
        super().__init__(inner)
        self._node = node

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        if isinstance(error, AssertionError):
            self._node.checks.violated(f"{type(error).__name__}: {error}")
        super().leave(inner, error)

    def carry_on(self, former: WatchedStore) -> None:
        """Take over the commit count and the planned faults of the store before the restart."""
        self.commits = former.commits
        self.failing_commits = former.failing_commits
        self.crash_before_commit = former.crash_before_commit
        self.crash_after_commit = former.crash_after_commit
