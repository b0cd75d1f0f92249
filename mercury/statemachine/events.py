"""The events of the three machines. An event is raised once its cause was committed or received, or is due."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.faults import Fault, Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior


class FailureReason(enum.Enum):
    """Why a sequence failed."""

    #: The destination refused to create a sequence.
    REFUSED = "refused"
    #: The destination refused a repeated CreateSequence, perhaps because the first one made a sequence (RM-CS-13), or
    #: its CreateSequenceResponse has the identifier of another sequence, or its first message expired before that.
    REPLACED = "replaced: its CreateSequence was sent anew"
    #: The destination does not know the sequence (any more).
    UNKNOWN = "unknown sequence"
    #: The destination ended it.
    TERMINATED = "terminated by the destination"
    #: The sequence expired.
    EXPIRED = "expired"
    #: Nothing was received from the destination for ``inactivity_timeout``.
    INACTIVE = "inactive"
    #: The limit on retransmissions was reached.
    GIVEN_UP = "given up"


# --- RMSSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """The application's next message takes the next number."""

    last: bool = False
    #: A response is expected; the end waits for it.
    expects_response: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The application sends no more. ``abandon``: it does not wait for acknowledgements either."""

    abandon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """CreateSequenceResponse received."""

    identifier: str
    #: Absolute time, seconds since the epoch.
    expires_at: float | None = None
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD


@dataclass(frozen=True, slots=True)
class IdentifierTaken:
    """CreateSequenceResponse received, with the identifier of another sequence of this process."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The time to live of a numbered message has ended, and CreateSequence is not answered: nothing was sent."""


@dataclass(frozen=True, slots=True)
class Transmitted:
    """The numbers up to this one may be on the wire from now on.

    ``again``: the numbers among them that are sent again.
    """

    highest: int
    again: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Overdue:
    """The lowest unacknowledged number is due again, although the destination has answered since it was sent."""


@dataclass(frozen=True, slots=True)
class ControlSent:
    """A CreateSequence, CloseSequence or TerminateSequence is about to be posted; the next is due at ``next_due``."""

    next_due: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """SequenceAcknowledgement received, not final.

    ``room``: how many more messages the destination can hold (FC-01); ``None`` = not stated.
    """

    ranges: Ranges
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The destination's final acknowledgement: numbers outside the ranges were not accepted and never will be.

    ``ranges`` is ``None`` when a CloseSequenceResponse came without the final acknowledgement it should carry.
    """

    ranges: Ranges | None


@dataclass(frozen=True, slots=True)
class ResponseStored:
    """The response to one request of this sequence is stored."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Settled:
    """HTTP accepted TerminateSequence (WS-RM 1.0), or the destination answered it (1.1)."""


@dataclass(frozen=True, slots=True)
class FaultReceived:
    """A fault about this sequence. ``ranges``: the final acknowledgement that came with it, if any.

    ``offered``: the sequence's CreateSequence offers a sequence for the other direction.
    """

    fault: Fault
    ranges: Ranges | None = None
    offered: bool = False


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A limit on retransmissions was reached."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


RmsInput = (
    Number
    | End
    | Created
    | IdentifierTaken
    | Withdrawn
    | Transmitted
    | Overdue
    | ControlSent
    | Acknowledged
    | Finished
    | ResponseStored
    | Settled
    | FaultReceived
    | GaveUp
    | Tick
)

# --- RMDSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A message of the sequence arrived."""

    number: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class CloseReceived:
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class TerminateReceived:
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class AckWanted:
    """AckRequested received, or a fault said that the source may have missed an acknowledgement."""


@dataclass(frozen=True, slots=True)
class AckSent:
    """An acknowledgement of everything received so far is about to be sent."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """The application consumed these numbers, or they are never delivered; used with `AcknowledgeAt.DELIVERY`."""

    ranges: Ranges


class DestinationEnd(enum.Enum):
    """How a destination ends a sequence by itself (RM11-CLS-03, RM11-TRM-02)."""

    #: By CloseSequence: it takes no new message; the source ends it.
    CLOSE = "close"
    #: By TerminateSequence.
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class EndSent:
    """CloseSequence or TerminateSequence of the destination is about to leave; the first one ends the sequence.

    :param next_due: when it is sent again without an answer; ``None`` = its source fetches it, or cannot get it.
    """

    end: DestinationEnd
    next_due: float | None


@dataclass(frozen=True, slots=True)
class EndAnswered:
    """The source has answered the end that the destination began, or no answer is waited for any more."""


@dataclass(frozen=True, slots=True)
class RoomCounted:
    """How many more new messages fit into the buffer (FC-01); ``None`` = acknowledgements do not state it."""

    room: int | None


RmdInput = (
    MessageReceived
    | CloseReceived
    | TerminateReceived
    | EndSent
    | EndAnswered
    | AckWanted
    | AckSent
    | Consumed
    | RoomCounted
    | Tick
)

# --- InvokerBuffer -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBuffered:
    number: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class LastKnown:
    number: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """The application consumed these numbers, or they were skipped by the application's setting."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """These numbers are about to be delivered and are never delivered again (AtMostOnce)."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler has finished with these numbers, which were `Begun`."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Work on numbers that were `Begun` and not `Completed` has stopped, and what it did is rolled back."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The sequence ended incomplete."""


InvokerInput = MessageBuffered | LastKnown | Delivered | Begun | Completed | Interrupted | Cut
