"""The store and its transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mercury.errors import CapabilityError, Conflict, NotActive, StorageError
from mercury.storage.api import Capabilities, CommitListener, Topic
from mercury.storage.application import Ending, Outcome
from mercury.storage.claims import ACTIVE_MEMBER, INACTIVE, SUSPENDED, Claim, WorkFilter
from mercury.storage.gauges import MOST_ROWS, READER, Gauges
from mercury.storage.maintenance import Pauses
from mercury.storage.memory import gauges
from mercury.storage.memory.attachments import MemoryAttachments, names_of
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.dead_letters import MemoryDeadLetters
from mercury.storage.memory.invoker import MemoryInvoker
from mercury.storage.memory.locks import HeldLocks, LockTable
from mercury.storage.memory.peer_stores import MemoryPeerStores
from mercury.storage.memory.replay import MemoryReplay
from mercury.storage.memory.rmd import MemoryRmd
from mercury.storage.memory.rms import MemoryRms
from mercury.storage.nodes import Node, Traffic
from mercury.storage.records import SequenceKey

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

_EVERYTHING = WorkFilter("")
_OPEN, _ROLLED_BACK, _COMMITTED = Outcome(), Outcome(ending=Ending.ROLLED_BACK), Outcome(ending=Ending.COMMITTED)


class MemoryTransaction:
    """`Transaction` on the in-memory store. Its changes are private until the commit."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.locks = HeldLocks(store.lock_table)
        self._rmd: MemoryRmd | None = None
        self._invoker: MemoryInvoker | None = None
        self._rms: MemoryRms | None = None
        self._dead_letters: MemoryDeadLetters | None = None
        self._attachments: MemoryAttachments | None = None
        self._replay: MemoryReplay | None = None
        self.peer_stores = MemoryPeerStores(store.committed)
        self._claims: list[Claim] = []
        self._member = store.guarded_by
        self._after_commit: list[Callable[[], None]] = []
        self.outcome = _OPEN

    def __enter__(self) -> MemoryTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        topics: frozenset[Topic] = frozenset()
        try:
            self.outcome = _ROLLED_BACK
            if error is None:
                topics = self._commit()
                self.outcome = _COMMITTED
        finally:
            self.locks.release()
        if error is None:
            if self.store.counter is not None:
                self.store.counter(0)
            for action in self._after_commit:
                action()
        if topics:
            self.store.notify(topics)

    # Each manager is made when it is first used: most transactions use one or two kinds.

    @property
    def rmd(self) -> MemoryRmd:
        if self._rmd is None:
            self._rmd = MemoryRmd(self.store.committed, self.locks)
        return self._rmd

    @property
    def invoker(self) -> MemoryInvoker:
        if self._invoker is None:
            self._invoker = MemoryInvoker(self.store.committed, self.locks)
        return self._invoker

    @property
    def rms(self) -> MemoryRms:
        if self._rms is None:
            self._rms = MemoryRms(self.store.committed, self.locks)
        return self._rms

    @property
    def dead_letters(self) -> MemoryDeadLetters:
        if self._dead_letters is None:
            self._dead_letters = MemoryDeadLetters(self.store.committed)
        return self._dead_letters

    @property
    def attachments(self) -> MemoryAttachments:
        if self._attachments is None:
            self._attachments = MemoryAttachments(self.store.committed)
        return self._attachments

    @property
    def replay(self) -> MemoryReplay:
        if self._replay is None:
            self._replay = MemoryReplay(self.store.committed)
        return self._replay

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        saved = (self.rmd.savepoint(), self.invoker.savepoint(), self.rms.savepoint())
        recorded, peers = dict(self.replay.added), dict(self.peer_stores.changed)
        lengths = len(self.dead_letters.added), len(self.dead_letters.deleted), len(self._after_commit)
        written = len(self.attachments.added)
        try:
            yield
        except BaseException:
            self.rmd.rollback_to(saved[0])
            self.invoker.rollback_to(saved[1])
            self.rms.rollback_to(saved[2])
            self.replay.added, self.peer_stores.changed = recorded, peers
            del self.dead_letters.added[lengths[0] :]
            del self.dead_letters.deleted[lengths[1] :]
            del self._after_commit[lengths[2] :]
            del self.attachments.added[written:]
            raise

    def connection(self, resource: str | None = None) -> Connection:
        raise _no_database(resource)

    def session(self, resource: str | None = None) -> Session:
        raise _no_database(resource)

    def limited_statements(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()  # there are none

    @property
    def in_database(self) -> bool:
        return False

    def end_work(self) -> None: ...  # applications have no connection to this store

    def translate(self, error: Exception) -> StorageError | None:
        return error if isinstance(error, StorageError) else None

    def guard(self, claim: Claim) -> None:
        self._claims.append(claim)

    def after_commit(self, action: Callable[[], None]) -> None:
        self._after_commit.append(action)

    def _commit(self) -> frozenset[Topic]:
        topics: set[Topic] = set()
        with self.store.committed.mutex:
            for claim in self._claims:
                self.store.check_claim(claim)
            managers = [used for used in (self._rmd, self._invoker, self._rms) if used is not None]
            if self._member is not None and self._writes:
                self.store.check_member(self._member)
            if self._dead_letters is not None:
                self._dead_letters.check()
            if self._replay is not None:
                self._replay.check()
            self.peer_stores.check()
            for manager in managers:
                manager.check()
            for manager in managers:
                topics |= manager.install()
            if self._dead_letters is not None:
                self._dead_letters.install()
            if self._attachments is not None:
                self._attachments.install()
            if self._replay is not None:
                self._replay.install()
            self.peer_stores.install()
            if self.store.committed.attachments:
                self._remove_attachments()
        return frozenset(topics)

    @property
    def _writes(self) -> bool:
        """Whether this transaction has locked or changed anything."""
        changes: list[object] = [self.locks.any, self.peer_stores.changed]
        if self._rms is not None:
            changes.append(self._rms.appended)
        if self._invoker is not None:
            changes += [self._invoker.inserted, self._invoker.added, self._invoker.deleted]
        if self._rmd is not None:
            changes.append(self._rmd.inserted)
        if self._dead_letters is not None:
            changes += [self._dead_letters.added, self._dead_letters.deleted]
        changes += [part.added for part in (self._attachments, self._replay) if part is not None]
        return any(changes)

    def _remove_attachments(self) -> None:
        """Remove those that only rows had which this commit has removed."""
        parts = [used for used in (self._invoker, self._rms, self._dead_letters) if used is not None]
        added = [row for part in parts for row in (part.appended if isinstance(part, MemoryRms) else part.added)]
        removed = [row for part in parts for row in part.removed]
        for name in names_of(removed) - names_of(added):
            self.store.committed.attachments.pop(name, None)


def _no_database(resource: str | None) -> CapabilityError:
    what = f" ({resource})" if resource else ""
    return CapabilityError(f"the store memory: is not a database; no application's transaction can include it{what}")


@dataclass(slots=True)
class _HeldClaim:
    claim: Claim
    until: float


class MemoryStore:
    """`StorageManager` in memory. Its contents are lost when the process ends.

    :param lock_timeout: seconds after which waiting for a lock raises `TransientStorageError`.
    """

    capabilities = Capabilities()
    id: str | None = None
    history_since = float("-inf")

    def __init__(self, *, lock_timeout: float = 10.0) -> None:
        self.committed = Committed()
        self.lock_table = LockTable(lock_timeout)
        self._claims: dict[str, _HeldClaim] = {}
        #: The claim of `guard_all`.
        self.guarded_by: Claim | None = None
        self._epoch = 0
        self._listeners: list[Callable[[frozenset[Topic]], None]] = []
        self.counter: Callable[[int], None] | None = None  #: Called with each commit (`count_commits`).
        self._closed = False

    def transaction(self) -> MemoryTransaction:
        if self._closed:
            raise StorageError("the store is closed")
        return MemoryTransaction(self)

    def join(self, work: object) -> AbstractContextManager[MemoryTransaction]:
        raise _no_database(type(work).__name__)

    def notify(self, topics: frozenset[Topic]) -> None:
        """Call the listeners: a commit has caused work."""
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
        return [claim for each in resources if (claim := self.claim(each, owner, now, lease)) is not None]

    def release(self, claim: Claim) -> None:
        with self.committed.mutex:
            self._check_active(claim.resource)
            if self._holds(claim):
                del self._claims[claim.resource]

    def _holds(self, claim: Claim) -> bool:
        return (held := self._claims.get(claim.resource)) is not None and held.claim == claim

    def check_claim(self, claim: Claim) -> None:
        if not self._holds(claim):
            raise Conflict(f"the claim on {claim.resource} is lost")

    def active_member(self) -> tuple[Claim, float] | None:
        return (held.claim, held.until) if (held := self._claims.get(ACTIVE_MEMBER)) is not None else None

    def guard_all(self, claim: Claim | None) -> None:
        self.guarded_by = claim

    def check_member(self, claim: Claim) -> None:
        """Check the claim that a transaction began under."""
        if not self._holds(claim):
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
                if held.until > now + 2 * longest.lease and not held.claim.owner.startswith(SUSPENDED):
                    held.until = now + longest.lease
                    found += 1
        if found:
            self.notify(frozenset(Topic))
        return found

    def note_node(self, node: Node) -> None:
        """Nothing: the process of this store ends with it."""

    def members(self, since: float) -> list[str]:  # noqa: ARG002  there is no other process
        return []

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        """Nothing, likewise."""

    def forget_node(self, identifier: str) -> None:
        """Nothing, likewise."""

    # --- the process -----------------------------------------------------------------------------------------------

    def listen(self, listener: CommitListener, others: CommitListener | None = None) -> None:  # noqa: ARG002  no other process
        self._listeners.append(listener)

    def close(self) -> None:
        self._closed = True
        self._listeners.clear()

    def crashed(self) -> MemoryStore:
        """A new store with a copy of the committed state: what a durable store would have after a crash."""
        with self.committed.mutex:
            survivor = MemoryStore(lock_timeout=self.lock_table.timeout)
            survivor.committed = self.committed
            survivor._epoch = self._epoch
            self._closed = True
        return survivor
