"""What can happen to the three machines. Each has happened when it is raised: committed, received, or due."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.faults import Fault, Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior


class FailureReason(enum.Enum):
    """Why a sequence failed."""

    #: The destination makes no sequence.
    REFUSED = "refused"
    #: The destination refused the repetition of CreateSequence, as it may have made a sequence before (RM-CS-13), or
    #: it gave an identifier that another sequence has.
    REPLACED = "replaced: its CreateSequence was sent anew"
    #: The destination does not know the sequence (any more).
    UNKNOWN = "unknown sequence"
    #: The destination ended it.
    TERMINATED = "terminated by the destination"
    #: Its time is over.
    EXPIRED = "expired"
    #: Nothing was heard for too long.
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
    """The application sends no more. ``abandon``: nor does it care for what is not acknowledged yet."""

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
    """CreateSequenceResponse received, with an identifier that another sequence here has."""


@dataclass(frozen=True, slots=True)
class Transmitted:
    """The numbers up to this one may be on the wire from now on."""

    highest: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """The lowest number that is not acknowledged is due again; something was heard since it was sent."""


@dataclass(frozen=True, slots=True)
class ControlSent:
    """The message that creates, closes or terminates is about to leave; the next one is due at ``next_due``."""

    next_due: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """SequenceAcknowledgement received, not final."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Finished:
    """The destination's final word: what is not listed was not accepted and never will be.

    ``ranges`` is ``None`` when a CloseSequenceResponse came without the final acknowledgement it should carry.
    """

    ranges: Ranges | None


@dataclass(frozen=True, slots=True)
class ResponseStored:
    """The response to one request of this sequence is stored here."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Settled:
    """TerminateSequence was accepted by the transport (1.0) or answered (1.1)."""


@dataclass(frozen=True, slots=True)
class FaultReceived:
    """A fault about this sequence. ``ranges``: the final acknowledgement that came with it, if any."""

    fault: Fault
    ranges: Ranges | None = None


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
    """An acknowledgement with everything up to now is about to leave."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """The application consumed these numbers, or never gets them; matters when acknowledging at delivery."""

    ranges: Ranges


RmdInput = MessageReceived | CloseReceived | TerminateReceived | AckWanted | AckSent | Consumed | Tick

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
    """The application consumed these numbers, or the application's setting skipped them."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """The application is given these numbers next, and never again (AtMostOnce)."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """The application has done with these numbers that were `Begun`."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Nobody works any more on what was `Begun` and not `Completed`: what was done of it is undone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The sequence ended incomplete."""


InvokerInput = MessageBuffered | LastKnown | Delivered | Begun | Completed | Interrupted | Cut
