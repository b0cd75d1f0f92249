"""What the machines ask for. They do nothing themselves; the engine carries it out."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, Ranges


class Certainty(enum.Enum):
    """What is known about a message that was given up."""

    #: It was never accepted, and never will be: sending it again cannot repeat it.
    NOT_DELIVERED = "not delivered"
    #: It may have been delivered.
    UNKNOWN = "unknown"


# --- RMSSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbered:
    """The message got this number."""

    number: int


@dataclass(frozen=True, slots=True)
class NumberRefused:
    """The machine takes no more messages; a successor sequence should."""


@dataclass(frozen=True, slots=True)
class Released:
    """These numbers are not needed any more here: they may leave the buffer once nothing else wants them."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Due:
    """These numbers are due at once: what stood before them was taken."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Moved:
    """These numbers were surely not delivered; a successor sequence carries them, in this order.

    Responses to them come to the successor: raise `ResponseStored` here for each that expects one.
    """

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Failed:
    """The sequence failed: what becomes of the numbers still in its buffer."""

    reason: FailureReason
    not_delivered: Ranges
    unknown: Ranges


@dataclass(frozen=True, slots=True)
class Replaced:
    """The sequence may exist without being known here; its messages have moved. If its identifier turns up, end it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end is settled."""


@dataclass(frozen=True, slots=True)
class RaiseFault:
    """Tell the peer; nothing changed here."""

    fault: Fault


RmsEffect = Numbered | NumberRefused | Released | Due | Moved | Failed | Replaced | Ended | RaiseFault

# --- RMDSequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The message is new: it goes to the invoker buffer."""

    number: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The message was here before."""

    number: int


@dataclass(frozen=True, slots=True)
class EndKnown:
    """The last number became known without its message: tell the invoker buffer."""

    number: int


@dataclass(frozen=True, slots=True)
class CutBuffer:
    """The sequence ended incomplete: tell the invoker buffer."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The row may go without a tombstone: nobody ever used the identifier."""


RmdEffect = Accept | Duplicate | EndKnown | CutBuffer | Forget | RaiseFault

# --- InvokerBuffer -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dropped:
    """These messages are never given to the application: dead letters. They count as `Consumed` too."""

    numbers: tuple[int, ...]
    reason: str


InvokerEffect = Dropped
