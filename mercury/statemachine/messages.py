"""The protocol's own elements as values, in any version (docs/protocol.md, sections 3 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.faults import Ranges
from mercury.statemachine.hashed_enum import HashedEnum


class IncompleteSequenceBehavior(HashedEnum):
    """What a destination does with the received messages when a sequence ends with a gap (WS-RM 1.1, section 3.4)."""

    #: Deliver every received message. An absent element means this.
    NO_DISCARD = "NoDiscard"
    #: Deliver the messages before the first gap.
    DISCARD_FOLLOWING_FIRST_GAP = "DiscardFollowingFirstGap"
    #: Deliver nothing before the end of the sequence, and nothing at all if it ends with a gap.
    DISCARD_ENTIRE_SEQUENCE = "DiscardEntireSequence"


@dataclass(frozen=True, slots=True)
class EndpointReference:
    """An endpoint reference: an address, and parameters that are sent back as header blocks (WSA-03).

    ``address`` is an absolute URI, or :data:`ANONYMOUS` or :data:`NONE`, which replace the URIs of either version.
    """

    address: str
    #: Each a standalone XML element, as bytes.
    parameters: tuple[bytes, ...] = ()
    #: The URL to post to if it is not the address; it is never put on the wire. ``None`` = post to the address.
    via: str | None = None

    @property
    def url(self) -> str:
        """The URL to post to."""
        return self.address if self.via is None else self.via

    @property
    def anonymous(self) -> bool:
        """Whether the answer goes back on the connection of the request."""
        return self.address == ANONYMOUS

    @property
    def none(self) -> bool:
        """Whether no answer is to be sent."""
        return self.address == NONE

    @property
    def polled(self) -> bool:
        """Whether the client has no address, and fetches its messages by MakeConnection (MC-05)."""
        return is_polled(self.address)

    @property
    def addressable(self) -> bool:
        """Whether messages can be posted to it."""
        return self.address not in (ANONYMOUS, NONE) and not is_polled(self.address)


#: Stands for the anonymous address of either WS-Addressing version (NS-08, NS-09).
ANONYMOUS = "mercury:anonymous"
#: Stands for the none address of either WS-Addressing version (NS-10).
NONE = "mercury:none"

ANONYMOUS_ENDPOINT = EndpointReference(ANONYMOUS)

#: The beginning of every anonymous URI of WS-MakeConnection; the identifier of the client follows it (NS-11).
MAKE_CONNECTION_ANONYMOUS = "http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id="


def is_polled(address: str) -> bool:
    """Whether an address is the anonymous URI of one client, which fetches its messages by MakeConnection."""
    return address.startswith(MAKE_CONNECTION_ANONYMOUS) and address != MAKE_CONNECTION_ANONYMOUS


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """The Sequence header block of a message (RM10-SCH-01, RM11-SCH-01)."""

    identifier: str
    message_number: int
    #: WS-RM 1.0 only: no higher number will follow.
    last: bool = False


@dataclass(frozen=True, slots=True)
class SequenceAcknowledgement:
    """The numbers of one sequence that its destination has accepted (RM10-SCH-02, RM11-SCH-02)."""

    identifier: str
    ranges: Ranges = ()
    nacks: tuple[int, ...] = ()
    #: WS-RM 1.1 only: the ranges will never change again.
    final: bool = False
    #: How many more messages the destination can hold (FC-01); absent = no limit.
    buffer_remaining: int | None = None


@dataclass(frozen=True, slots=True)
class AckRequested:
    """The source requests an acknowledgement (RM10-SCH-03, RM11-SCH-03)."""

    identifier: str


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Mercury's own extension: a destination takes batches of a sequence up to these limits."""

    #: Messages of one batch.
    messages: int
    #: Bytes of their bodies together.
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The sequence that a source offers for the other direction (RM10-SCH-05, RM11-SCH-05)."""

    identifier: str
    #: WS-RM 1.1 only, and required there.
    endpoint: EndpointReference | None = None
    #: Seconds; ``None`` = never.
    expires: float | None = None
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence:
    """Requests a sequence from the destination (RM10-SCH-04, RM11-SCH-04)."""

    acks_to: EndpointReference
    #: Seconds; ``None`` = never.
    expires: float | None = None
    offer: Offer | None = None
    #: Mercury's own extension: the identifier of the sequence before this one, its successor; see `InvokerBuffer`.
    follows: str | None = None
    #: Mercury's own extension, WS-RM 1.1: set if the source is Mercury; its behavior for the offered sequence.
    mercury_behavior: IncompleteSequenceBehavior | None = None
    #: Mercury's own extension, WS-RM 1.0: the source is Mercury.
    mercury: bool = False
    #: Mercury's own extension: the batches that the source takes on the offered sequence; ``None`` = none.
    batch: BatchLimits | None = None
    #: CXF's element CreateSequenceOneway: its response is posted to AcksTo (IOP-CXF-08).
    oneway: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequenceResponse:
    """The destination's sequence (RM10-SCH-06, RM11-SCH-06)."""

    identifier: str
    expires: float | None = None
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD
    #: Present when the offer was accepted: where acknowledgements for the offered sequence go (RM-CS-07, -08).
    accept_acks_to: EndpointReference | None = None
    #: Mercury's own extension, WS-RM 1.1, set only for a source that is Mercury: the behavior for the new sequence.
    mercury_behavior: IncompleteSequenceBehavior | None = None
    #: Mercury's own extension, set only for a source that is Mercury: the batches that the destination takes.
    batch: BatchLimits | None = None
    #: Mercury's own extension, set only for a source that is Mercury: the id of the store that the sequence is in.
    store: str | None = None
    #: It is written as CXF's element CreateSequenceResponseOneway.
    oneway: bool = False


@dataclass(frozen=True, slots=True)
class CloseSequence:
    """The source sends no new numbers (RM11-SCH-08, RM11-CLS-01)."""

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
    """Requests a message that waits at the receiver of this one (MC-SCH-01)."""

    address: str | None = None
    identifier: str | None = None
    #: Selections that are not understood, in Clark notation.
    unsupported: tuple[str, ...] = ()
