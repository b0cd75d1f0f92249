"""Events: facts about messages and sequences, each true because a transaction has committed it.

An event is built inside the transaction that makes it true and reaches the observers after the commit (`observers`).
Nothing is emitted for what is rolled back, and one commit emits an event once. A process that is killed between the
commit and the observers never emits it. So events are for logs, metrics and alarms: what must happen belongs into a
handler's transaction.

The words are those of WS-ReliableMessaging 1.1 section 2: a destination accepts a message when it has stored it, and
delivers it when the application has consumed it. Times are seconds since the epoch, by the clock of the process.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Ranges
from mercury.storage.records import DeadLetter, Direction


class Side(enum.Enum):
    """Which side of a sequence this process is."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have."""

    #: When the work began that made it true, a little before the commit.
    at: float


# --- messages at their destination ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inbound(Event):
    """What is known of a message that was received."""

    #: The sequence's identifier. A response that came outside any sequence has a buffer of its own, ``reply:...``.
    sequence: str
    number: int
    #: wsa:MessageID, the same at every transmission.
    message_id: str | None
    #: The service that it is for; ``None`` = it is the response to a request of this side.
    service: str | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(_Inbound):
    """A message is stored at its destination: it may be acknowledged, and is delivered in its turn.

    Each accepted message ends as `Delivered` or in a `DeadLettered`; what lies behind a gap that no message will fill
    may also be discarded, and then its source keeps it.
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

    #: The operation's name; of a response the callback's.
    handler: str
    #: Which try it was, from 1.
    attempt: int
    #: When it was accepted.
    received_at: float
    #: What the application gave the request, of a response.
    correlation: str | None
    #: The handler has answered with an `ApplicationFault`, and its own work is rolled back.
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailed(_Inbound):
    """A handler or callback raised what is no `ApplicationFault`, or there is none for the message.

    Its work is rolled back to where it began. What the store fails with is no event: it does not count as a try.
    """

    #: The operation's name; of a response the callback's; the action where there is no operation.
    handler: str
    #: Which try it was, from 1.
    attempt: int
    error: Exception
    #: The try before has failed with the same error.
    repeated: bool
    #: When it is tried again; ``None`` = it is not, and becomes a dead letter.
    retry_at: float | None


# --- messages at their source --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outbound(Event):
    """What is known of a message that is sent by this side: requests, one-way messages, and responses that are posted.

    Responses that go back on the connection of their request are fetched, not posted: they have no such events.
    """

    sequence: str
    number: int
    #: wsa:MessageID, the same at every transmission.
    message_id: str
    #: The URL that it is posted to.
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

    #: Which transmission this is, from 2.
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
    """The peer has answered a message with a fault that does not end its sequence; it goes on being sent."""

    endpoint: str
    key: str
    #: ``None`` = the fault does not say which.
    message_id: str | None
    #: The fault's code and text.
    reason: str


# --- both sides ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """Messages became dead letters together, for one reason: all that one transaction gave up of a sequence."""

    direction: Direction
    #: Where they were sent to, and under which key; of inbound ones the service (empty: responses), and no key.
    endpoint: str
    key: str
    reason: str
    #: Whether they may have been delivered.
    certainty: Certainty
    #: At least one.
    letters: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSequence(Event):
    """What is known of a sequence."""

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
    #: Those were all that there are.
    complete: bool
    #: At a destination: not its source has ended it, but its expiry, its silence, or the need for room.
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFailed(Event):
    """A sequence failed at its source: what was not acknowledged became dead letters."""

    #: ``None`` = its destination has never made it.
    sequence: str | None
    endpoint: str
    key: str
    failure: FailureReason
    #: The same for people, with what the peer or the network said last.
    reason: str
    #: How many messages became dead letters.
    dead_letters: int
    #: It carried responses that their client fetches: it ended before the client had fetched them all.
    unfetched: bool = False


# --- transactions over several databases ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInDoubt(Event):
    """Recovery found a prepared branch of a two-phase commit that it could not finish. It keeps its locks.

    Each process that runs recovery emits it once for a branch.
    """

    #: Its name in pg_prepared_xacts.
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
    BranchInDoubt,
)
