"""Events: facts about messages and sequences, each true because a transaction has committed it.

An event is built inside the transaction that makes it true and reaches the observers after the commit (`observers`).
Nothing is emitted for what is rolled back, and one commit emits an event once. A process that is killed between the
commit and the observers never emits it. So events are for logs, metrics and alarms: what must happen belongs into a
handler's transaction.

The terms are those of WS-ReliableMessaging 1.1 section 2: a destination accepts a message when it has stored it, and
delivers it when the application has consumed it. Times are seconds since the epoch, by the clock of the process.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Ranges
from mercury.storage.letters import DeadLetter, Direction


class Side(enum.Enum):
    """Which side of a sequence this process is."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of all events."""

    #: When the work that the transaction commits began, shortly before the commit.
    at: float


# --- messages at their destination ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inbound(Event):
    """The facts about a received message."""

    #: The sequence's identifier. A response outside any sequence has a separate buffer, named ``reply:...``.
    sequence: str
    number: int
    #: wsa:MessageID, the same at every transmission.
    message_id: str | None
    #: The service that the message is for; ``None`` = it is the response to a request of this side.
    service: str | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(_Inbound):
    """A message is stored at its destination: it may be acknowledged, and will be delivered in its turn.

    Each accepted message ends as `Delivered` or in a `DeadLettered`. A message above a gap that is never filled may
    also be discarded; then its source retains it.
    """

    #: Bytes of its body.
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateDropped(_Inbound):
    """A message with a number that was received before arrived again: nothing is stored or delivered again.

    A client without an address repeats a request until the reply brings its response: those repetitions count too.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(_Inbound):
    """The application has consumed a message: the transaction that says so is committed, with the handler's work.

    A dead letter that is redriven to its service is delivered without being accepted again.
    """

    #: The name of the operation, or of the callback for a response.
    handler: str
    #: The number of the try, from 1.
    attempt: int
    #: When the message was accepted.
    received_at: float
    #: For a response: the correlation that the application set on the request.
    correlation: str | None
    #: The handler raised an `ApplicationFault`, and its own work is rolled back.
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailed(_Inbound):
    """A handler or callback raised an error other than `ApplicationFault`, or the message has no handler.

    The handler's work is rolled back. An error of the store causes no event and does not count as a try.
    """

    #: The operation's name; of a response the callback's; the action where there is no operation.
    handler: str
    #: Which try it was, from 1.
    attempt: int
    error: Exception
    #: The try before has failed with the same error.
    repeated: bool
    #: When the next try is due; ``None`` = the message becomes a dead letter.
    retry_at: float | None


# --- messages at their source --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outbound(Event):
    """The facts about a message that this side posts: a request, a one-way message, or a posted response.

    A response on the connection of its request is fetched, not posted, and has no such events.
    """

    sequence: str
    number: int
    #: wsa:MessageID, the same at every transmission.
    message_id: str
    #: The URL that the message is posted to.
    endpoint: str
    #: The internal key.
    key: str
    #: Empty = the LastMessage of WS-RM 1.0, which ends a sequence.
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmitted(_Outbound):
    """A message is about to be posted for the first time."""

    #: Bytes of its body.
    size: int
    #: When the application sent it.
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retransmitted(_Outbound):
    """A message is about to be posted again: no acknowledgement came in time, or a request waits for its response."""

    #: The number of this transmission, from 2.
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged(Event):
    """The destination has acknowledged messages for the first time."""

    sequence: str
    endpoint: str
    key: str
    #: The numbers, as pairs of lowest and highest.
    ranges: Ranges

    @property
    def count(self) -> int:
        """How many messages."""
        return sum(high - low + 1 for low, high in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRefused(Event):
    """The peer answered a message with a fault that does not end its sequence; the message is still retransmitted."""

    endpoint: str
    key: str
    #: The message that the fault is about; ``None`` = the fault does not name it.
    message_id: str | None
    #: The fault's code and text.
    reason: str


# --- both sides ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """Messages became dead letters together, for one reason: all that one transaction gave up of a sequence."""

    direction: Direction
    #: Outbound messages: their endpoint and key. Inbound messages: the service (empty = responses) and an empty key.
    endpoint: str
    key: str
    reason: str
    #: Whether they may have been delivered.
    certainty: Certainty
    #: At least one.
    letters: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSequence(Event):
    """The facts about a sequence."""

    side: Side
    #: Its identifier.
    sequence: str
    #: The URL and the key that its source sends to; empty at a destination.
    endpoint: str = ""
    key: str = ""
    #: The service of a destination; ``None`` = it carries responses to this side, or this side is the source.
    service: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceCreated(_OfSequence):
    """A sequence can be used: its destination has made it, or accepted the one that was offered to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceEnded(_OfSequence):
    """A sequence is over in an orderly way: at the source its end is settled, at the destination it takes no more."""

    #: How many messages of it were acknowledged (source) or received (destination).
    messages: int
    #: ``messages`` is every message of the sequence.
    complete: bool
    #: At a destination: this side ended the sequence, because it expired, its source was silent, or room was needed.
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFailed(Event):
    """A sequence failed at its source: what was not acknowledged became dead letters."""

    #: ``None`` = its destination has never made it.
    sequence: str | None
    endpoint: str
    key: str
    failure: FailureReason
    #: The reason as text for people, with the last error from the peer or the network.
    reason: str
    #: How many messages became dead letters.
    dead_letters: int
    #: A client fetches the responses of this sequence, and it ended before all of them were fetched.
    unfetched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRefused(Event):
    """Another store has answered for a destination than the one that its sequences are at: nothing is sent to it.

    It is emitted again when another store, or another address, is refused.
    """

    endpoint: str
    #: The address that answered; of a destination with several, one of them or its whole list.
    address: str
    #: The id of the destination's store, and the one that the answer states.
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationReplaced(Event):
    """A key goes on in a successor at another store, because an operator has said that it is a new destination."""

    endpoint: str
    key: str
    #: The sequence at the store before; ``None`` = it was never made.
    sequence: str | None
    #: The ids of the stores.
    before: str
    store: str
    #: The numbers of the sequence before that were sent there and are not acknowledged.
    in_doubt: Ranges


# --- transactions over several databases ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInDoubt(Event):
    """Recovery found a prepared branch of a two-phase commit that it could not finish. It keeps its locks.

    Each process that runs recovery emits it once for a branch.
    """

    #: The branch's name in pg_prepared_xacts.
    gid: str
    #: The name of the database.
    resource: str
    #: When it was prepared.
    since: float
    why: str


#: All kinds of events.
EVENTS: tuple[type[Event], ...] = (
    Accepted,
    DuplicateDropped,
    Delivered,
    HandlerFailed,
    Transmitted,
    Retransmitted,
    Acknowledged,
    MessageRefused,
    DeadLettered,
    SequenceCreated,
    SequenceEnded,
    SequenceFailed,
    StoreRefused,
    DestinationReplaced,
    BranchInDoubt,
)
