"""The protocol's own elements as values, in any version (docs/protocol.md, sections 3 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.faults import Ranges
from mercury.statemachine.hashed_enum import HashedEnum


class IncompleteSequenceBehavior(HashedEnum):
    """What a destination does with what it has when a sequence ends with a gap (WS-RM 1.1, section 3.4)."""

    #: Deliver all that was received. This is what an absent element means.
    NO_DISCARD = "NoDiscard"
    #: Deliver what comes before the first gap.
    DISCARD_FOLLOWING_FIRST_GAP = "DiscardFollowingFirstGap"
    #: Deliver nothing before the end, and nothing at all if there is a gap then.
    DISCARD_ENTIRE_SEQUENCE = "DiscardEntireSequence"


@dataclass(frozen=True, slots=True)
class EndpointReference:
    """Where something can be sent: an address, and what the peer wants back as headers (WSA-03).

    ``address`` is an absolute URI, or one of the two that stand for "no address of its own" in the version at
    hand; see :data:`ANONYMOUS` and :data:`NONE`.
    """

    address: str
    #: Each a standalone XML element, as bytes.
    parameters: tuple[bytes, ...] = ()

    @property
    def anonymous(self) -> bool:
        """The answer goes back on the connection of the request."""
        return self.address == ANONYMOUS

    @property
    def none(self) -> bool:
        """Nobody wants the answer."""
        return self.address == NONE

    @property
    def addressable(self) -> bool:
        """Something may be posted there."""
        return self.address not in (ANONYMOUS, NONE)


#: Stands for the anonymous address of either WS-Addressing version (NS-08, NS-09).
ANONYMOUS = "mercury:anonymous"
#: Stands for the none address of either WS-Addressing version (NS-10).
NONE = "mercury:none"

ANONYMOUS_ENDPOINT = EndpointReference(ANONYMOUS)


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """The Sequence header block of a message (RM10-SCH-01, RM11-SCH-01)."""

    identifier: str
    message_number: int
    #: WS-RM 1.0 only: no higher number will follow.
    last: bool = False


@dataclass(frozen=True, slots=True)
class SequenceAcknowledgement:
    """What a destination has accepted of one sequence (RM10-SCH-02, RM11-SCH-02)."""

    identifier: str
    ranges: Ranges = ()
    nacks: tuple[int, ...] = ()
    #: WS-RM 1.1 only: the ranges will never change again.
    final: bool = False
    #: How many more messages the destination can hold (FC-01); absent = no limit.
    buffer_remaining: int | None = None


@dataclass(frozen=True, slots=True)
class AckRequested:
    """The source asks for an acknowledgement (RM10-SCH-03, RM11-SCH-03)."""

    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The sequence a source offers for what comes back (RM10-SCH-05, RM11-SCH-05)."""

    identifier: str
    #: WS-RM 1.1 only, and required there.
    endpoint: EndpointReference | None = None
    #: Seconds; ``None`` = never.
    expires: float | None = None
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence:
    """Asks the destination for a sequence (RM10-SCH-04, RM11-SCH-04)."""

    acks_to: EndpointReference
    #: Seconds; ``None`` = never.
    expires: float | None = None
    offer: Offer | None = None
    #: Mercury's own extension: the identifier of the sequence that this one carries on, see `InvokerBuffer`.
    follows: str | None = None
    #: Mercury's own extension, WS-RM 1.1: it is Mercury that asks, and this is what it does with the offered sequence.
    mercury_behavior: IncompleteSequenceBehavior | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequenceResponse:
    """The destination's sequence (RM10-SCH-06, RM11-SCH-06)."""

    identifier: str
    expires: float | None = None
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD
    #: Present when the offer was accepted: where acknowledgements for the offered sequence go (RM-CS-07, -08).
    accept_acks_to: EndpointReference | None = None
    #: Mercury's own extension, WS-RM 1.1, to a source that is Mercury: what is done with the sequence.
    mercury_behavior: IncompleteSequenceBehavior | None = None


@dataclass(frozen=True, slots=True)
class CloseSequence:
    """No new number will come (RM11-SCH-08, RM11-CLS-01)."""

    identifier: str
    last_message_number: int | None = None


@dataclass(frozen=True, slots=True)
class CloseSequenceResponse:
    identifier: str


@dataclass(frozen=True, slots=True)
class TerminateSequence:
    """The sequence is over (RM10-SCH-07, RM11-SCH-08)."""

    identifier: str
    last_message_number: int | None = None


@dataclass(frozen=True, slots=True)
class TerminateSequenceResponse:
    identifier: str


@dataclass(frozen=True, slots=True)
class MakeConnection:
    """Asks for a message that waits here (MC-SCH-01)."""

    address: str | None = None
    identifier: str | None = None
    #: Selections that are not understood, in Clark notation.
    unsupported: tuple[str, ...] = ()
