"""The store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from mercury.errors import Conflict, NotActive, StorageError
from mercury.storage.api import BeforeCommit, Capabilities, CommitListener, KeyListener, Topic
from mercury.storage.application import FORKED
from mercury.storage.claims import ACTIVE_MEMBER, INACTIVE, SUSPENDED, Claim, WorkFilter
from mercury.storage.gauges import MOST_ROWS, READER, Gauges
from mercury.storage.maintenance import Pauses
from mercury.storage.memory import gauges
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.locks import LockTable
from mercury.storage.memory.transaction import MemoryTransaction, no_database
from mercury.storage.nodes import Node, Traffic
from mercury.storage.records import SequenceKey

_EVERYTHING = WorkFilter("")


@dataclass(slots=True)
class _HeldClaim:
    claim: Claim
    until: float


class MemoryStore:
    """`StorageManager` in memory. Its contents are lost when the process ends.

    :param lock_timeout: seconds after which waiting for a lock raises `TransientStorageError`.
    """

    capabilities = Capabilities(delivers_on_arrival=True)
    id: str | None = None
    history_since = -math.inf

    def __init__(self, *, lock_timeout: float = 10.0) -> None:
        self.committed = Committed()
        self.lock_table = LockTable(lock_timeout)
        self._claims: dict[str, _HeldClaim] = {}
        #: The claim of `guard_all`.
        self.guarded_by: Claim | None = None
        self._epoch = 0
        self._listeners: list[CommitListener] = []
        self._for_keys: list[KeyListener] = []
        self.counter: Callable[[int], None] | None = None  #: Called with each commit (`count_commits`).
        self._closed = False
        self._process = os.getpid()

    def transaction(self, before_commit: BeforeCommit | None = None) -> MemoryTransaction:
        if self._closed:
            raise StorageError("the store is closed")
        if os.getpid() != self._process:
            raise StorageError(FORKED)
        return MemoryTransaction(self, before_commit)

    def join(self, work: object) -> AbstractContextManager[MemoryTransaction]:
        raise no_database(type(work).__name__)

    def notify(self, topics: frozenset[Topic], keys: frozenset[str] = frozenset()) -> None:
        """Call the listeners: a commit has caused work.

        :param keys: as for `KeyListener`.
        """
        if Topic.RMS in topics:
            for of_keys in self._for_keys:
                of_keys(keys)
        for listener in self._listeners:
            listener(topics)

    # --- work ------------------------------------------------------------------------------------------------------

    def due_rmd(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        with self.committed.mutex:
            return self.committed.rmd.due(now, limit, (work_filter or _EVERYTHING).hosts)

    def due_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> dict[str, str]:
        after = work_filter.after if work_filter is not None else ""
        with self.committed.mutex:
            return self.committed.invoker.due(now, limit, partial(self._free, work_filter, now), after)

    def stuck_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:  # noqa: ARG002
        return []  # rows in memory are never damaged

    def due_rms(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
        with self.committed.mutex:
            after = work_filter.after if work_filter is not None else ""
            return self.committed.rms.due(now, limit, partial(self._free, work_filter, now), after)

    def next_due(self, topic: Topic, work_filter: WorkFilter | None = None) -> float | None:
        free = partial(self._free, work_filter, None) if work_filter is not None else None
        with self.committed.mutex:
            if topic is Topic.RMD:
                return self.committed.rmd.next_due(None if work_filter is None else work_filter.hosts)
            return (self.committed.rms if topic is Topic.RMS else self.committed.invoker).next_due(free)

    def work_due(self, now: float, work_filter: WorkFilter | None = None) -> dict[Topic, float]:
        free = partial(self._free, work_filter, now) if work_filter is not None else None
        with self.committed.mutex:
            found = {
                Topic.RMD: self.committed.rmd.next_due((work_filter or _EVERYTHING).hosts),
                Topic.INVOKER: self.committed.invoker.next_due(free),
                Topic.RMS: self.committed.rms.next_due(free),
            }
        return {topic: due for topic, due in found.items() if due is not None}

    # --- claims ----------------------------------------------------------------------------------------------------

    def _free(
        self, work_filter: WorkFilter | None, now: float | None, resource: str, service: str | None = None
    ) -> bool:
        """Whether a worker may take this work: no other owner has a claim at ``now``, or (``None``) had the last
        claim."""
        if work_filter is None:
            return True
        held = self._claims.get(resource)
        mine = held is None or held.claim.owner == work_filter.owner or (now is not None and held.until <= now)
        return mine and work_filter.hosts(service)

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        with self.committed.mutex:
            self._check_active(resource)
            held = self._claims.get(resource)
            if held is not None and held.claim.owner == owner:
                held.until = now + lease
                return held.claim
            if held is not None and held.until > now:
                return None
            self._epoch += 1  # one counter for all claims: it grows for each of them, and released ones leave no row
            claim = Claim(resource, owner, self._epoch)
            self._claims[resource] = _HeldClaim(claim, now + lease)
            return claim

    def claim_all(self, resources: Collection[str], owner: str, now: float, lease: float) -> list[Claim]:
        claims = (self.claim(resource, owner, now, lease) for resource in resources)
        return [claim for claim in claims if claim is not None]

    def release(self, claim: Claim) -> None:
        with self.committed.mutex:
            self._check_active(claim.resource)
            if self.holds(claim):
                del self._claims[claim.resource]

    def holds(self, claim: Claim) -> bool:
        held = self._claims.get(claim.resource)
        return held is not None and held.claim.epoch == claim.epoch

    def check_claim(self, claim: Claim) -> None:
        if not self.holds(claim):
            raise Conflict(f"the claim on {claim.resource} is lost")

    def active_member(self, now: float) -> tuple[Claim, float] | None:
        held = self._claims.get(ACTIVE_MEMBER)
        return (held.claim, held.until - now) if held is not None else None

    def guard_all(self, claim: Claim | None) -> None:
        self.guarded_by = claim

    def check_member(self, claim: Claim) -> None:
        """Check the claim that a transaction began under."""
        if not self.holds(claim):
            raise NotActive(INACTIVE)

    def _check_active(self, resource: str = "") -> None:
        if self.guarded_by is not None and resource != ACTIVE_MEMBER:
            self.check_member(self.guarded_by)

    def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:  # noqa: ARG002  keeps none
        with self.committed.mutex:
            self._check_active()
            idle = [name for name, held in self._claims.items() if held.until < idle_before][:limit]
            for name in idle:
                del self._claims[name]
            replay = self.committed.replay
            expired = [digest for digest, expires in replay.items() if expires < idle_before][:limit]
            for digest in expired:
                del replay[digest]
            return max(len(idle), len(expired), self.committed.invoker.forget(self.committed.rmd.records, limit))

    def count_commits(self, counter: Callable[[int], None]) -> None:
        self.counter = counter

    def gauges(self, now: float, most: int = MOST_ROWS) -> Gauges:
        with self.committed.mutex:
            held = [each.claim for each in self._claims.values() if each.until > now]
            holders = [claim.owner for claim in held if claim.resource != READER]
            return gauges.read(self.committed, holders, most)

    @property
    def has_attachments(self) -> bool:
        return bool(self.committed.attachments)

    def remove_attachments(self, limit: int) -> int:
        with self.committed.mutex:
            self._check_active()
            return self.committed.remove_attachments(limit)

    def advance_overdue(self, now: float, longest: Pauses) -> int:
        committed = self.committed
        with committed.mutex:
            self._check_active()
            found = committed.rms.advance_overdue(now) + committed.rmd.advance_overdue(now, longest.acknowledgement)
            found += committed.invoker.advance_overdue(now, longest.redelivery)
            for held in self._claims.values():
                claim = held.claim
                works = claim.resource != ACTIVE_MEMBER and not claim.owner.startswith(SUSPENDED)
                if works and held.until > now + 2 * longest.lease:
                    held.until = now + longest.lease
                    found += 1
        if found:
            self.notify(frozenset(Topic))
        return found

    def note_node(self, node: Node) -> None:
        """Nothing: the process of this store ends with it."""

    def others(self, identifier: str, since: float) -> bool:  # noqa: ARG002
        return False

    def members(self, since: float) -> list[str]:  # noqa: ARG002  there is no other process
        return []

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        """Nothing, likewise."""

    def forget_node(self, identifier: str) -> None:
        """Nothing, likewise."""

    # --- the process -----------------------------------------------------------------------------------------------

    def listen(
        self,
        listener: CommitListener,
        others: CommitListener | None = None,  # noqa: ARG002  there is no other process
        keys: KeyListener | None = None,
    ) -> None:
        self._listeners.append(listener)
        if keys is not None:
            self._for_keys.append(keys)

    def close(self) -> None:
        self._closed = True
        self._listeners.clear()
        self._for_keys.clear()

    def crashed(self) -> MemoryStore:
        """A new store with a copy of the committed state: what a durable store would have after a crash."""
        with self.committed.mutex:
            survivor = MemoryStore(lock_timeout=self.lock_table.timeout)
            survivor.committed = self.committed
            survivor._epoch = self._epoch
            self._closed = True
        return survivor
