"""The storage API: what every store must do, and what may fail when.

One unit of work is one ``with store.transaction() as tx:``; leaving it commits, an exception rolls everything back.
Nothing a transaction does is visible to another before its commit. Rows are locked when they are read for update,
never later, in one order: RMD, InvokerBuffer, RMS, and within a kind by key. A lock out of that order raises
`LockOrderError` in stores that check it.

Figures 3-17 to 3-19 of the dissertation: a StorageManager gives a Transaction and one manager for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mercury.statemachine.faults import Ranges
from mercury.statemachine.hashed_enum import HashedEnum
from mercury.storage import application
from mercury.storage.attachments import AttachmentManager
from mercury.storage.buffers import InvokerBufferManager
from mercury.storage.claims import Claim, ClaimStore, WorkFilter
from mercury.storage.gauges import GaugeSource
from mercury.storage.maintenance import (
    DeadLetterManager,
    EndedSequences,
    OpenSequences,
    ReplayCache,
    RetentionStore,
    RowAges,
)
from mercury.storage.nodes import NodeRegistry
from mercury.storage.peer_stores import PeerStores
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord, SequenceKey
from mercury.storage.sizes import ANY_BYTES
from mercury.storage.works import Works


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store can do beyond the contract. A call that needs a missing capability raises `CapabilityError`."""

    #: Committed state outlives the process.
    durable: bool = False
    #: Several processes may share the store.
    shared: bool = False
    #: The store notifies other processes of commits.
    notifies: bool = False
    #: The store can be the last resource of a two-phase commit.
    last_resource: bool = False
    #: The store can be a branch of a two-phase commit.
    two_phase: bool = False
    #: A transaction locks rows, commits in one database, and leaves the others alone: a handler may be called in the
    #: transaction that stores its message.
    delivers_on_arrival: bool = False


class Topic(HashedEnum):
    """The kind of work that a commit has caused."""

    RMS = "rms"
    RMD = "rmd"
    INVOKER = "invoker"


#: Called after commits, with the kinds of work that they caused.
CommitListener: TypeAlias = Callable[[frozenset[Topic]], None]
#: Called after commits with work for source sequences, with the digests of the only keys that have it; with none if
#: they are not known.
KeyListener: TypeAlias = Callable[[frozenset[str]], None]


#: Called with a transaction before its commit.
BeforeCommit: TypeAlias = "Callable[[Transaction], None]"


class LockOrderError(AssertionError):
    """Rows were locked against the order: a defect of Mercury, found before it can deadlock."""


class RMDSequenceManager(EndedSequences, OpenSequences, Protocol):
    """Sequences at their destination."""

    def lock(
        self,
        identifiers: Iterable[str],
        buffers: Collection[str] = (),
        delivered: Collection[str] = (),
        *,
        only_free: bool = False,
    ) -> dict[str, RmdRecord]:
        """Lock and read the sequences that exist, in ascending order of identifier. RMD locks come before all others.

        :param buffers: sequences whose buffers are read next; a store may read them under the locks already.
        :param delivered: others whose buffers are locked next, after which the paused services are read
            (`InvokerBufferManager`); a store may do so already.
        :param only_free: leave out those that other transactions have locked, instead of waiting for them; a store may
            do so with the buffers of ``delivered``, too.
        :raises TransientStorageError: a lock was not acquired within the store's limit.
        """

    def read(self, identifier: str) -> RmdRecord | None:
        """The record as committed, or as this transaction has saved it. Takes no lock."""

    def read_many(self, identifiers: Collection[str]) -> dict[str, RmdRecord]:
        """As `read` for each of these; those that do not exist are missing."""

    def find_created(self, *create_keys: str) -> dict[str, str]:
        """The identifiers of the sequences that these CreateSequence messages (`records.create_key`) have made before
        (RM-CS-13), by create key; the others are absent."""

    def insert(self, *records: RmdRecord) -> None:
        """Insert new sequences. If two transactions insert one for the same CreateSequence, the later commit raises
        `Conflict`."""

    def save(self, record: RmdRecord) -> None:
        """Store a changed record. It must be locked or new."""

    def delete(self, identifier: str) -> None:
        """Delete a sequence. It must be locked."""

    def open_count(self, owner: str | None = None) -> int:
        """The number of sequences that are not tombstones: all, or those of one owner (`RmdRecord.owner`)."""

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[str]:
        """Sequences with an acknowledgement that waits for a MakeConnection with this address, as committed.

        :param identity: of the client, ``None`` = unknown. Only sequences of this identity are returned
        (`RmdRecord.fetched_by`).
        """

    def all(self) -> list[RmdRecord]:
        """All records, as committed."""


class RMSSequenceManager(RowAges, Protocol):
    """Sequences at their source, by internal key, and their buffers."""

    def append(self, message: OutboundMessage) -> None:
        """Insert a row, without locking any sequence (decision 4). The row may have a number only if its key is locked.

        :raises Conflict: at the commit, when a row with this MessageID exists.
        :raises TransientStorageError: an earlier two-phase commit of this process is not finished in the store yet,
        and this row would overtake the rows of that commit.
        """

    @property
    def appended(self) -> Sequence[OutboundMessage]:
        """The rows that this transaction has appended, in order. A store may leave out those that are written."""

    def lock_appended(self, key: SequenceKey, claim: Claim) -> bool:
        """Lock a key to which this transaction has appended rows, without waiting; `unnumbered` has these rows too.

        A store may read what `lock` reads ahead, and begin the savepoint that is begun next.

        :param claim: the right to work on the key; no other process gets it before this transaction ends.
        :returns: ``False`` = another transaction has locked the key, or the claim is lost.
        """

    def lock(self, keys: Iterable[SequenceKey], *, records: bool = False, rows: bool = False) -> None:
        """Lock the sequences of these keys, in ascending order. RMS locks come after all others.

        :param records: `records` are read next; a store may read them under the locks already.
        :param rows: so are the first `unnumbered` rows.
        :raises TransientStorageError: a lock was not acquired within the store's limit.
        """

    def records(self, key: SequenceKey) -> list[RmsRecord]:
        """The sequences of a locked key, oldest first, tombstones included."""

    def peek(self, key: SequenceKey) -> list[RmsRecord]:
        """The sequences of a key as committed, oldest first, without a lock."""

    def key_of(self, identifier: str) -> SequenceKey | None:
        """The key of the sequence that has this identifier. Takes no lock."""

    def keys_by_identifier(self, identifiers: Collection[str]) -> dict[str, SequenceKey]:
        """The keys of the sequences that have these identifiers. Takes no lock.

        A sequence that was deleted may still have an entry: `records` of the locked key shows what exists.
        """

    def keys_by_create(self, message_ids: Collection[str]) -> dict[str, SequenceKey]:
        """The keys of the sequences that were requested by the CreateSequences with these MessageIDs. Otherwise as
        `keys_by_identifier`.
        """

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[tuple[float, SequenceKey]]:
        """Sequences that may have something for a MakeConnection with this address, as committed: `RmsRecord.fetch_due`
        and the key of each, the earliest first. Takes no lock.

        :param identity: of the client, ``None`` = unknown. Only sequences of this identity are returned
        (`RmsRecord.fetched_by`).
        """

    def insert(self, *records: RmsRecord) -> None:
        """Insert new sequences; the key of each is locked, or new in this transaction. If another sequence has the
        identifier of one, this or a later call, or the commit, raises `Conflict`."""

    def save(self, record: RmsRecord) -> None:
        """Store a changed record. Its key must be locked."""

    def delete(self, record: RmsRecord) -> None:
        """Delete a sequence. Its key must be locked."""

    def unnumbered(self, key: SequenceKey, limit: int, most_bytes: int = ANY_BYTES) -> list[OutboundMessage]:
        """Committed rows without a number, in order of insertion. The key must be locked.

        :param most_bytes: a store returns the first row, and may leave out those with which the bodies have more bytes.
        """

    def read_ahead(self, keys: Iterable[SequenceKey]) -> None:
        """Prepare for `unnumbered` of these keys and `unsettled` of their sequences: a store may read the rows of all
        together. The keys must be locked."""

    def abandoned(self, key: SequenceKey) -> bool:
        """Whether the committed rows without a number include an abandonment (`OutboundKind`)."""

    def abandonments(self, key: SequenceKey) -> list[OutboundMessage]:
        """The abandonments among the committed rows without a number. The key must be locked."""

    def expired(self, key: SequenceKey, now: float, limit: int) -> list[OutboundMessage]:
        """Committed rows without a number with ``expires_at <= now``, in order of insertion. The key must be locked."""

    def number(self, record: RmsRecord, rows: Sequence[OutboundMessage]) -> None:
        """Store ``sequence_id``, ``number`` and ``due`` of rows that were numbered."""

    def unsettled(
        self, record: RmsRecord, limit: int, now: float | None = None, *, one: bool = False, most_bytes: int = ANY_BYTES
    ) -> list[OutboundMessage]:
        """The lowest rows of a sequence that still need transmission, in ascending order.

        :param now: ``None`` = all of these rows, with their bodies. Otherwise a store may omit the bodies of rows with
        a later ``due``, and omit such rows, except the lowest of all rows and the one that is due next.
        :param one: only one message is to be sent: a store may treat all due rows except the lowest of them like those
        with a later ``due``. A row without its body is `OutboundMessage.unread` if it is due.
        :param most_bytes: a store leaves out the rows with which the bodies that are not acknowledged have more bytes,
            except the lowest of them. Rows that are numbered in this transaction count too.
        """

    def transmitted(self, rows: Sequence[OutboundMessage]) -> None:
        """Store ``attempts`` and ``due`` of rows that are about to be transmitted."""

    def acknowledge(self, record: RmsRecord, ranges: Ranges) -> None:
        """Store that these numbers are acknowledged."""

    def release(self, record: RmsRecord, ranges: Ranges) -> None:
        """Delete the acknowledged rows of these numbers, except those that wait for a response."""

    def resend(self, record: RmsRecord, numbers: Iterable[int], now: float, most_attempts: int | None = None) -> None:
        """Make these numbers due now; with ``most_attempts`` only those that were transmitted at most that many
        times."""

    def answered(self, message_id: str) -> OutboundMessage | None:
        """Mark a request whose response is stored. Returns the row as it was before; its key must be locked."""

    def consumed(self, message_id: str) -> None:
        """Mark a request whose response was consumed: its row is deleted once it is acknowledged. Its key must be
        locked."""

    def row(self, message_id: str) -> OutboundMessage | None:
        """The committed row with this MessageID, without a lock."""

    def rows(self, message_ids: Collection[str]) -> dict[str, OutboundMessage]:
        """The committed rows with these MessageIDs, without a lock; they may come without their bodies."""

    def responses_to(self, requests: Collection[str], most_bytes: int) -> list[OutboundMessage]:
        """The numbered, unacknowledged responses to these requests (`OutboundMessage.request`). Takes no lock.

        :param most_bytes: limit on the payloads that are read: at least one, the smallest first; the other rows are
        ``unread``.
        """

    def unanswered(self, record: RmsRecord) -> list[OutboundMessage]:
        """The numbered requests of a sequence whose response is not stored, in ascending order. Its key must be
        locked."""

    def unnumber(self, record: RmsRecord, ranges: Ranges, in_doubt: Ranges = ()) -> list[OutboundMessage]:
        """Remove the numbers from these rows: a successor sequence gives new ones, in the same order.

        :param in_doubt: those of them that are `OutboundMessage.in_doubt` from now on.
        """

    def take(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """Remove and return these rows."""

    def discard(self, rows: Sequence[OutboundMessage]) -> None:
        """Remove rows, for example ends that were carried out, and dead letters."""

    def backlog(self, key: SequenceKey) -> int:
        """The number of rows of a key, with or without a message number."""

    def all(self) -> list[RmsRecord]:
        """All records, as committed."""


class Transaction(application.Transaction, Works, Protocol):
    """One unit of work, as the engine uses it. Not to be used by two threads."""

    @property
    def rmd(self) -> RMDSequenceManager: ...

    @property
    def invoker(self) -> InvokerBufferManager: ...

    @property
    def rms(self) -> RMSSequenceManager: ...

    @property
    def dead_letters(self) -> DeadLetterManager: ...

    @property
    def attachments(self) -> AttachmentManager: ...

    @property
    def replay(self) -> ReplayCache: ...

    @property
    def peer_stores(self) -> PeerStores: ...

    def guard(self, claim: Claim) -> None:
        """Commit only while ``claim`` holds; otherwise the commit raises `Conflict` and rolls back."""


class StorageManager(RetentionStore, GaugeSource, NodeRegistry, ClaimStore, Protocol):
    """A store. Thread-safe."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def id(self) -> str | None:
        """What tells this store from all others, as committed; ``None`` = it ends with its process.

        :raises StorageError: the store failed.
        """

    @property
    def history_since(self) -> float:
        """When this process has noticed that the store has another history than before, in which the last commits may
        be missing: a standby was promoted, or a back-up restored. Seconds since the epoch; ``-inf`` = not since it was
        opened. Correct within a transaction that has locked or read something."""

    def active_member(self, now: float) -> tuple[Claim, float] | None:
        """The claim of the active member, where the role is active-standby, and the seconds until its lease ends, less
        than 0 if it has ended; ``None`` = there is none.

        :param now: the time, unless the store measures leases by its own clock.
        :raises StorageError: the store failed.
        """

    def transaction(self, before_commit: BeforeCommit | None = None) -> AbstractContextManager[Transaction]:
        """One unit of work: commits when left normally, rolls back when left with an exception.

        :param before_commit: called with it when it is left normally, before its commit; not in a transaction that
            other databases may take part in. What it raises rolls back, and is raised.
        :raises TransientStorageError: from the commit; it was rolled back, and the work may be repeated.
        :raises StorageError: from the commit; it was rolled back.
        """

    def join(self, work: object) -> AbstractContextManager[Transaction]:
        """A transaction that is part of the application's: the application's commit commits both; leaving this one does
        nothing.

        :param work: a SQLAlchemy ``Session`` or ``Connection`` on the store's own database, in a transaction.
        :raises CapabilityError: ``work`` is of another database, or the store cannot join it; nothing was written.
        """

    def due_rmd(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        """Identifiers of destination sequences with ``due <= now``, the longest due first.

        :param work_filter: excludes sequences of services that it does not host: their times and acknowledgements are
        those of the policy of their service.
        """

    def due_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> dict[str, str]:
        """Sequences whose buffer has a releasable message or a marker, and whose ``retry_at`` has passed.

        A successor sequence waits until its predecessor has delivered everything. Scheduling is fair: one sequence of
        each peer, in the order of the peers' names, then a second one of each, and so on. Of one peer, the sequence
        served longest ago comes first.

        :param work_filter: excludes buffers that another owner has a claim on (resource ``invoker <sequence>``), and
        buffers of services that it does not host. The peer after its ``after`` is served first.
        :returns: sequence identifier to peer (`InvokerRecord.owner`), in the order of service.
        """

    def due_rms(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
        """Keys with rows to be numbered that no sequence holds back, or with a sequence whose ``due <= now``, or with a
        row without a number that has expired.

        An abandonment is never held back. Scheduling is fair: one key of each owner, then a second one of each. The
        owner is that of the sequence (`RmsRecord.owner`) or of the first unnumbered row (`OutboundMessage.owner`).

        :param work_filter: states which owner was served last, and excludes keys that another owner has a claim on
        (resource ``rms <the key's digest>``).
        """

    def next_due(self, topic: Topic, work_filter: WorkFilter | None = None) -> float | None:
        """The time of the earliest work of a kind that becomes due without an event; may be in the past.

        :param work_filter: excludes work that another owner had a claim on when it was read.
        """

    def work_due(self, now: float, work_filter: WorkFilter | None = None) -> dict[Topic, float]:
        """When the earliest work of each kind is due, by one query; a kind without work is missing. The filter excludes
        work that another owner has a claim on at ``now``."""

    def listen(
        self, listener: CommitListener, others: CommitListener | None = None, keys: KeyListener | None = None
    ) -> None:
        """Call ``listener`` after each commit that made work, and then ``others`` if it was one of another process;
        ``keys`` before both if the work is `Topic.RMS`. None of them may block."""

    def close(self) -> None:
        """Release all resources. A store cannot be used afterwards."""
