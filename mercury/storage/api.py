"""The storage API: what every store must do, and what may fail when.

One unit of work is one ``with store.transaction() as tx:``; leaving it commits, an exception rolls everything back.
Nothing a transaction does is visible to another before its commit. Rows are locked when they are read for update,
never later, in one order: RMD, InvokerBuffer, RMS, and within a kind by key; a store that cannotice a breach of
that order refuses it.

Figures 3-17 to 3-19 of the dissertation: a StorageManager gives a Transaction and one manager for each kind.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mercury.errors import StorageError
from mercury.statemachine.faults import Ranges
from mercury.statemachine.ranges import RangeSet
from mercury.storage import application
from mercury.storage.claims import Claim, WorkFilter
from mercury.storage.maintenance import (
    BufferAges,
    DeadLetterManager,
    EndedSequences,
    OpenSequences,
    RetentionStore,
    RowAges,
)
from mercury.storage.records import (
    InboundMessage,
    InvokerRecord,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
    SequenceKey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store can do beyond the contract. Asking for what is not here raises `CapabilityError`."""

    #: Committed state outlives the process.
    durable: bool = False
    #: Several processes may share it.
    shared: bool = False
    #: Tells other processes about commits.
    notifies: bool = False
    #: Can be the last resource of a two-phase commit.
    last_resource: bool = False
    #: Can be a branch of a two-phase commit.
    two_phase: bool = False


class Topic(enum.Enum):
    """Whose work a commit has made."""

    RMS = "rms"
    RMD = "rmd"
    INVOKER = "invoker"


#: Called after commits, with what they made work for.
CommitListener: TypeAlias = Callable[[frozenset[Topic]], None]


class LockOrderError(AssertionError):
    """Rows were locked against the order: a defect of Mercury, found before it can deadlock."""


class RMDSequenceManager(EndedSequences, OpenSequences, Protocol):
    """Sequences at their destination."""

    def lock(self, identifiers: Iterable[str]) -> dict[str, RmdRecord]:
        """Lock and read the sequences that exist, in ascending order of identifier. First of the three kinds.

        :raises TransientStorageError: a lock was not got in time.
        """

    def read(self, identifier: str) -> RmdRecord | None:
        """The committed record, or this transaction's own; without a lock."""

    def find_created(self, create_key: str) -> str | None:
        """The identifier of the sequence that this CreateSequence (`records.create_key`) has made before (RM-CS-13)."""

    def insert(self, record: RmdRecord) -> None:
        """A new sequence. Two made from the same CreateSequence at once: the later commit raises `Conflict`."""

    def save(self, record: RmdRecord) -> None:
        """Keep a changed record. It must be locked or new."""

    def delete(self, identifier: str) -> None:
        """Forget a sequence. It must be locked."""

    def open_count(self, owner: str | None = None) -> int:
        """How many sequences are not tombstones: all, or those of one owner (`RmdRecord.owner`)."""

    def all(self) -> list[RmdRecord]:
        """All, as committed."""


class InvokerBufferManager(BufferAges, Protocol):
    """Buffers between destination sequences and the application."""

    def insert(self, record: InvokerRecord) -> None:
        """A new buffer, made with its sequence."""

    def add(self, messages: Sequence[InboundMessage]) -> None:
        """Insert rows without locking any buffer: a slow handler never stalls reception (decision 8)."""

    def prefetch(self, sequences: Iterable[str]) -> None:
        """Prefetch hint for `read`: a store may read these rows together at this call."""

    def read(self, sequence: str) -> InvokerRecord | None:
        """The committed record, without a lock."""

    def prefetch_messages(self, sequence: str, low: int, high: int) -> None:
        """The markers, and the messages from ``low`` to ``high``, will be asked for: a store may read them together."""

    def markers(self, sequence: str) -> list[InboundMessage]:
        """The rows of kind END and CUT, in order of insertion."""

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        """The numbers of the waiting messages between ``low`` and ``high``, both included."""

    def messages(self, sequence: str, numbers: Sequence[int]) -> dict[int, InboundMessage]:
        """The waiting messages with these numbers, bodies included."""

    def damaged(self, sequence: str) -> list[InboundMessage]:
        """The rows, markers too, that are not what was stored, of this buffer and of none. Reads the whole buffer."""

    def save_delivered(
        self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()
    ) -> None:
        """Lock the buffer and save ``record``, delete the consumed messages and the ``markers`` that were read.

        Conditional: the stored version must be the one ``record`` was read with; it is increased by one.

        :raises Conflict: it is not. Nothing of the transaction may be kept.
        """

    def delete(self, sequence: str) -> None:
        """Forget a buffer and what is in it."""

    def all(self) -> list[InvokerRecord]:
        """All, as committed."""


class RMSSequenceManager(RowAges, Protocol):
    """Sequences at their source, by internal key, and their buffers."""

    def append(self, message: OutboundMessage) -> None:
        """Insert a row, without locking any sequence (decision 4). It may have a number if its key is locked.

        :raises Conflict: at the commit, when a row with this MessageID exists.
        :raises TransientStorageError: an earlier commit of this process is not finished in the store yet (two-phase
            form), and this would overtake it.
        """

    def lock(self, keys: Iterable[SequenceKey]) -> None:
        """Lock the sequences of these keys, ascending. Last of the three kinds.

        :raises TransientStorageError: a lock was not got in time.
        """

    def records(self, key: SequenceKey) -> list[RmsRecord]:
        """The sequences of a locked key that are remembered, oldest first, tombstones included."""

    def peek(self, key: SequenceKey) -> list[RmsRecord]:
        """The sequences of a key as committed, oldest first, without a lock."""

    def prefetch(
        self,
        *,
        identifiers: Iterable[str] = (),
        create_message_ids: Iterable[str] = (),
        message_ids: Iterable[str] = (),
    ) -> None:
        """Prefetch hint for `key_of`, `key_of_request` and `row`: a store may read these rows together at this call.
        What it read is forgotten when a key is locked. These rows may come without their bodies.
        """

    def key_of(self, *, identifier: str | None = None, create_message_id: str | None = None) -> SequenceKey | None:
        """Whose sequence has this identifier, or was asked for by this CreateSequence. Without a lock."""

    def key_of_request(self, message_id: str) -> SequenceKey | None:
        """Whose buffer has the row with this MessageID. Without a lock."""

    def insert(self, record: RmsRecord) -> None:
        """A new sequence; its key is locked or known to nobody else. `Conflict` if another one has its identifier."""

    def save(self, record: RmsRecord) -> None:
        """Keep a changed record. Its key must be locked."""

    def delete(self, record: RmsRecord) -> None:
        """Forget a sequence. Its key must be locked."""

    def unnumbered(self, key: SequenceKey, limit: int) -> list[OutboundMessage]:
        """Committed rows without a number, in order of insertion. The key must be locked."""

    def abandoned(self, key: SequenceKey) -> bool:
        """Whether an abandonment is among the committed rows without a number."""

    def number(self, record: RmsRecord, rows: Sequence[OutboundMessage]) -> None:
        """Keep ``sequence_id``, ``number`` and ``due`` of rows that were numbered."""

    def unsettled(self, record: RmsRecord, limit: int, now: float | None = None) -> list[OutboundMessage]:
        """The lowest rows of a sequence that still need transmission, ascending.

        :param now: left out, all come with their bodies. Else of the rows with a later ``due`` only those may come
            that are the first of all or due next, and without their bodies.
        """

    def transmitted(self, rows: Sequence[OutboundMessage]) -> None:
        """Keep ``attempts`` and ``due`` of rows that are about to be transmitted."""

    def acknowledge(self, record: RmsRecord, ranges: Ranges) -> None:
        """These numbers are acknowledged."""

    def release(self, record: RmsRecord, ranges: Ranges) -> None:
        """Delete the acknowledged rows of these numbers, except those that wait for a response."""

    def resend(self, record: RmsRecord, numbers: Iterable[int], now: float, most_attempts: int | None = None) -> None:
        """Make these numbers due now; with ``most_attempts`` only those that were transmitted so often at most."""

    def answered(self, message_id: str) -> OutboundMessage | None:
        """The response to this request is stored. Returns the row as it was; its key must be locked."""

    def consumed(self, message_id: str) -> None:
        """The response to this request was consumed: the row goes once it is acknowledged. Key locked."""

    def row(self, message_id: str) -> OutboundMessage | None:
        """The committed row with this MessageID, without a lock."""

    def responses_to(self, requests: Collection[str], most_bytes: int) -> list[OutboundMessage]:
        """The numbered, unacknowledged responses to these requests (`OutboundMessage.request`), none else. No lock.

        :param most_bytes: of payloads that are read, the smallest first and one at least; the others are ``unread``.
        """

    def unanswered(self, record: RmsRecord) -> list[OutboundMessage]:
        """The numbered requests of a sequence whose response is not stored, ascending. Its key must be locked."""

    def unnumber(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """Take the numbers away from these rows: a successor gives new ones, in the same order."""

    def take(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """Remove and return these rows."""

    def discard(self, rows: Sequence[OutboundMessage]) -> None:
        """Remove rows: ends that were carried out, dead letters."""

    def backlog(self, key: SequenceKey) -> int:
        """Rows of a key, numbered or not."""

    def all(self) -> list[RmsRecord]:
        """All, as committed."""


class Transaction(application.Transaction, Protocol):
    """One unit of work, as the engine uses it. Not to be used by two threads."""

    @property
    def rmd(self) -> RMDSequenceManager: ...

    @property
    def invoker(self) -> InvokerBufferManager: ...

    @property
    def rms(self) -> RMSSequenceManager: ...

    @property
    def dead_letters(self) -> DeadLetterManager: ...

    def translate(self, error: Exception) -> StorageError | None:
        """What an error of the application's part means: a `TransientStorageError` may be tried again; ``None`` = it is
        not a database's.
        """

    def guard(self, claim: Claim) -> None:
        """Commit only while ``claim`` holds; otherwise the commit raises `Conflict` and nothing is kept."""


class StorageManager(RetentionStore, Protocol):
    """A store. Safe to be used by many threads."""

    @property
    def capabilities(self) -> Capabilities: ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """One unit of work: commits when left normally, rolls back when left with an exception.

        :raises TransientStorageError: from the commit; nothing was kept and the work may be repeated.
        :raises StorageError: from the commit; nothing was kept.
        """

    def join(self, work: object) -> AbstractContextManager[Transaction]:
        """A transaction that is part of one the application has: its commit commits both, leaving this does nothing.

        :param work: a SQLAlchemy ``Session`` or ``Connection`` on the store's own database, in its transaction.
        :raises CapabilityError: it is of another database, or the store cannot do this; nothing was written.
        """

    def due_rmd(self, now: float, limit: int) -> list[str]:
        """Identifiers of destination sequences with ``due <= now``, the longest due first."""

    def due_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> dict[str, str]:
        """Sequences whose buffer has a releasable message or a marker, and whose ``retry_at`` has passed.

        A sequence that carries on another waits until that one has delivered everything. Peers have their turns in the
        order of their names, one sequence of each, then the next one of each that has more: however many sequences a
        peer has, they keep no other peer from its turn. Of one peer that sequence comes first whose turn is longest
        ago.

        :param work_filter: leaves out what another owner has a claim on, on the resource ``invoker <sequence>``, and
            buffers of services that it does not host. The first turn is that of the peer after its ``after``.
        :returns: their peers by their identifiers, in the order of their turns. A peer is the owner of the sequence;
            one for responses has none, and counts for the endpoint that it was offered to.
        """

    def due_rms(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
        """Keys with rows to be numbered and no sequence that holds them, or with a sequence whose ``due <= now``.

        An abandonment is never held.

        :param work_filter: leaves out what another owner has a claim on, on the resource ``rms <the key's digest>``.
        """

    def next_due(self, topic: Topic, work_filter: WorkFilter | None = None) -> float | None:
        """When the earliest work of a kind is due that needs no event; what is due already counts too.

        :param work_filter: leaves out work that another owner had a claim on when it was read.
        """

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        """Take the claim on a sequence for ``lease`` seconds, or prolong one's own; ``None`` = somebody has it."""

    def release(self, claim: Claim) -> None:
        """Give a claim back. A claim that is lost already is passed over."""

    def listen(self, listener: CommitListener, others: CommitListener | None = None) -> None:
        """Call ``listener`` after each commit that made work, and ``others`` if another process did. Must not block."""

    def close(self) -> None:
        """Let go of everything. A store cannot be used afterwards."""
