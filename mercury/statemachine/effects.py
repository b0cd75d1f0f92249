"""The effects that the machines return. The engine carries them out; a machine itself does no input or output."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, Ranges


class Certainty(enum.Enum):
    """What is known about the delivery of a dead letter."""

    #: The message was never accepted and never will be: to send it again cannot deliver it twice.
    NOT_DELIVERED = "not delivered"
    #: The message may have been delivered.
    UNKNOWN = "unknown"


# --- RMSSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbered:
    """The message got this number."""

    number: int


@dataclass(frozen=True, slots=True)
class NumberRefused:
    """The machine takes no more messages; they go to a successor sequence."""


@dataclass(frozen=True, slots=True)
class Released:
    """The sequence needs these numbers no more: their rows may be deleted once nothing else needs them."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The destination had acknowledged these numbers, and a later acknowledgement lacks them: they are lost there."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Due:
    """These numbers are due immediately: the destination has accepted the numbers before them."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Moved:
    """These numbers were certainly not delivered; a successor sequence carries them, in this order.

    Responses to them arrive for the successor: raise `ResponseStored` here for each message that expects a response.
    """

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Failed:
    """The sequence failed. The fields say what happens to the numbers that are still in its buffer."""

    reason: FailureReason
    not_delivered: Ranges
    unknown: Ranges


@dataclass(frozen=True, slots=True)
class Replaced:
    """The destination may have made the sequence although its identifier is unknown here; its messages have moved.

    If the identifier arrives later, end the sequence.
    """


@dataclass(frozen=True, slots=True)
class WithoutOffer:
    """CreateSequence is due immediately, as a new message that offers no sequence: it was refused with an offer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end is settled."""


@dataclass(frozen=True, slots=True)
class RaiseFault:
    """Send this fault to the peer; the state has not changed."""

    fault: Fault


RmsEffect = (
    Numbered
    | NumberRefused
    | Released
    | Forgotten
    | Due
    | Moved
    | Failed
    | Replaced
    | WithoutOffer
    | Ended
    | RaiseFault
)

# --- RMDSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The message is new: put it into the invoker buffer."""

    number: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The message was received before."""

    number: int


@dataclass(frozen=True, slots=True)
class EndKnown:
    """The last number became known without its message: raise `LastKnown` on the invoker buffer."""

    number: int


@dataclass(frozen=True, slots=True)
class CutBuffer:
    """The sequence ended incomplete: raise `Cut` on the invoker buffer."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The row may be deleted without a tombstone: the source never used the identifier."""


RmdEffect = Accept | Duplicate | EndKnown | CutBuffer | Forget | RaiseFault

# --- InvokerBuffer -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dropped:
    """These messages are never delivered: they become dead letters. They count as `Consumed` too."""

    numbers: tuple[int, ...]
    reason: str


InvokerEffect = Dropped
