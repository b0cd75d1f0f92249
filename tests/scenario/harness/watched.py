"""A store that crashes or fails where a story wants it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercury.errors import TransientStorageError
from mercury.storage.api import Capabilities, Told, Topic
from mercury.storage.claims import Claim, Seeker
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.store import MemoryTransaction
from mercury.storage.records import SequenceKey
from mercury.storage.upkeep import Pauses

if TYPE_CHECKING:
    from .node import Node


class Crash(BaseException):
    """The process is gone. Not an `Exception`: nothing may handle it."""


class _WatchedTransaction:
    def __init__(self, store: WatchedStore, inner: MemoryTransaction) -> None:
        self._store = store
        self._inner = inner

    def __enter__(self) -> MemoryTransaction:
        self._store.open += 1
        return self._inner.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._store.open -= 1
        self._store.leave(self._inner, error)


class WatchedStore:
    """The in-memory store of one life of a node: counts commits, and crashes or fails where it is told to."""

    capabilities = Capabilities(durable=True)

    def __init__(self, inner: MemoryStore, node: Node) -> None:
        self.inner = inner
        self._node = node
        #: Transactions that are open now.
        self.open = 0

    def transaction(self) -> _WatchedTransaction:
        return _WatchedTransaction(self, self.inner.transaction())

    def leave(self, inner: MemoryTransaction, error: BaseException | None) -> None:
        node = self._node
        if isinstance(error, AssertionError):
            node.checks.violated(f"{type(error).__name__}: {error}")
        mishap: BaseException | None = None
        crash_after = False
        if error is None:
            node.commits += 1
            if node.commits in node.crash_before_commit:
                mishap = Crash(f"before commit {node.commits}")
            elif node.commits in node.failing_commits:
                mishap = TransientStorageError(f"commit {node.commits} fails")
            crash_after = node.commits in node.crash_after_commit
        left_with = error or mishap
        inner.__exit__(type(left_with) if left_with else None, left_with, None)
        if mishap is not None:
            raise mishap
        if crash_after:
            raise Crash(f"after commit {node.commits}")

    def due_rmd(self, now: float, limit: int) -> list[str]:
        return self.inner.due_rmd(now, limit)

    def due_invoker(self, now: float, limit: int, seeker: Seeker | None = None) -> dict[str, str]:
        return self.inner.due_invoker(now, limit, seeker)

    def stuck_invoker(self, now: float, limit: int, seeker: Seeker | None = None) -> list[str]:
        return self.inner.stuck_invoker(now, limit, seeker)

    def due_rms(self, now: float, limit: int, owner: str | None = None) -> list[SequenceKey]:
        return self.inner.due_rms(now, limit, owner)

    def next_due(self, topic: Topic, owner: str | None = None) -> float | None:
        return self.inner.next_due(topic, owner)

    def bring_forward(self, now: float, pauses: Pauses) -> int:
        return self.inner.bring_forward(now, pauses)

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        return self.inner.claim(resource, owner, now, lease)

    def release(self, claim: Claim) -> None:
        self.inner.release(claim)

    def listen(self, listener: Told, others: Told | None = None) -> None:
        self.inner.listen(listener, others)

    def close(self) -> None:
        self.inner.close()
