"""A wrapper around a store that controls how its transactions end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from mercury.storage.api import (
    BeforeCommit,
    Capabilities,
    CommitListener,
    KeyListener,
    StorageManager,
    Topic,
    Transaction,
)
from mercury.storage.claims import Claim, WorkFilter
from mercury.storage.gauges import MOST_ROWS, Gauges
from mercury.storage.maintenance import Pauses
from mercury.storage.nodes import Node, Traffic
from mercury.storage.records import SequenceKey


class _WrappedTransaction:
    """Enters the inner store's transaction, and leaves it through `WrappedStore.leave`."""

    def __init__(self, store: WrappedStore, inner: AbstractContextManager[Transaction]) -> None:
        self._store = store
        self._inner = inner

    def __enter__(self) -> Transaction:
        self._store.open += 1
        return self._inner.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._store.open -= 1
        self._store.leave(self._inner, error)


class WrappedStore:
    """A `StorageManager` that passes every call to an inner store; subclasses override `leave`.

    It counts as durable: the inner store's committed state survives a simulated crash.
    """

    def __init__(self, inner: StorageManager) -> None:
        self.inner = inner
        self.capabilities = Capabilities(durable=True, delivers_on_arrival=inner.capabilities.delivers_on_arrival)
        #: The number of open transactions.
        self.open = 0

    @property
    def id(self) -> str | None:
        return self.inner.id

    @property
    def history_since(self) -> float:
        return self.inner.history_since

    def active_member(self, now: float) -> tuple[Claim, float] | None:
        return self.inner.active_member(now)

    def transaction(self, before_commit: BeforeCommit | None = None) -> AbstractContextManager[Transaction]:
        return _WrappedTransaction(self, self.inner.transaction(before_commit))

    def join(self, work: object) -> AbstractContextManager[Transaction]:
        return self.inner.join(work)

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        """End a transaction.

        :param error: the exception that left the block; ``None`` = none did.
        """
        inner.__exit__(type(error) if error else None, error, None)

    def due_rmd(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        return self.inner.due_rmd(now, limit, work_filter)

    def due_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> dict[str, str]:
        return self.inner.due_invoker(now, limit, work_filter)

    def stuck_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        return self.inner.stuck_invoker(now, limit, work_filter)

    def due_rms(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
        return self.inner.due_rms(now, limit, work_filter)

    def next_due(self, topic: Topic, work_filter: WorkFilter | None = None) -> float | None:
        return self.inner.next_due(topic, work_filter)

    def work_due(self, now: float, work_filter: WorkFilter | None = None) -> dict[Topic, float]:
        return self.inner.work_due(now, work_filter)

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        return self.inner.claim(resource, owner, now, lease)

    def claim_all(self, resources: Collection[str], owner: str, now: float, lease: float) -> list[Claim]:
        return self.inner.claim_all(resources, owner, now, lease)

    def release(self, claim: Claim) -> None:
        self.inner.release(claim)

    def guard_all(self, claim: Claim | None) -> None:
        self.inner.guard_all(claim)

    def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
        return self.inner.sweep(
            kept_before=kept_before, idle_before=idle_before, limit=limit, audit_before=audit_before
        )

    def count_commits(self, counter: Callable[[int], None]) -> None:
        self.inner.count_commits(counter)

    def gauges(self, now: float, most: int = MOST_ROWS) -> Gauges:
        return self.inner.gauges(now, most)

    @property
    def has_attachments(self) -> bool:
        return self.inner.has_attachments

    def remove_attachments(self, limit: int) -> int:
        return self.inner.remove_attachments(limit)

    def advance_overdue(self, now: float, longest: Pauses) -> int:
        return self.inner.advance_overdue(now, longest)

    def note_node(self, node: Node) -> None:
        self.inner.note_node(node)

    def others(self, identifier: str, since: float) -> bool:
        return self.inner.others(identifier, since)

    def members(self, since: float) -> list[str]:
        return self.inner.members(since)

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        self.inner.add_traffic(identifier, at, traffic)

    def forget_node(self, identifier: str) -> None:
        self.inner.forget_node(identifier)

    def listen(
        self, listener: CommitListener, others: CommitListener | None = None, keys: KeyListener | None = None
    ) -> None:
        self.inner.listen(listener, others, keys)

    def close(self) -> None:
        self.inner.close()
