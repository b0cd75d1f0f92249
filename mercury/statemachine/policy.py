"""What the two ends of a sequence may choose for themselves; nothing of it is negotiated on the wire (DA-08)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import above, at_least
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy


class DeliveryAssurance(enum.Enum):
    """How often a message reaches the application (DA-01 to DA-03)."""

    #: Neither lost nor repeated: the handler's work and the mark that it was done are one transaction.
    EXACTLY_ONCE = "ExactlyOnce"
    #: Not lost; the handler commits first, so a crash before the mark repeats it.
    AT_LEAST_ONCE = "AtLeastOnce"
    #: Not repeated; the mark commits first, so a crash before the handler ends loses it.
    AT_MOST_ONCE = "AtMostOnce"


class AcknowledgeAt(enum.Enum):
    """When a message counts as accepted (DA-06)."""

    #: Once it is stored here.
    ACCEPTANCE = "acceptance"
    #: Once the application has consumed it.
    DELIVERY = "delivery"


class OnFailure(enum.Enum):
    """What happens to a message whose handler keeps failing."""

    #: The sequence waits; the message is tried again for ever.
    WAIT = "wait"
    #: It becomes a dead letter, and the sequence goes on.
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationPolicy:
    """How a destination treats the sequences that are made at it. Times are seconds.

    :raises ConfigurationError: a number is out of range, or two choices exclude each other.
    """

    assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE
    in_order: bool = True
    acknowledge_at: AcknowledgeAt = AcknowledgeAt.ACCEPTANCE
    #: How long an acknowledgement to an address may wait for others to merge with; 0 = send it at once.
    acknowledgement_interval: float = 0.1
    #: An acknowledgement leaves at once when this many new messages wait for one.
    acknowledge_every: int = 16
    #: A sequence nothing was heard of for so long is ended; ``None`` = never.
    inactivity_timeout: float | None = 7 * 86400.0
    #: A sequence that was created and never used is ended after so long; ``None`` = as any other.
    unused_timeout: float | None = 12 * 3600.0
    #: No sequence lives longer; ``None`` = as long as its source wants.
    max_expires: float | None = None
    #: How long an ended sequence still answers. Must outlast any peer's retries.
    tombstone: float = 86400.0
    #: More separate ranges than this are not taken: the message is not acknowledged and comes again.
    max_ranges: int = 512
    #: Messages of one sequence that wait for the application; above it new ones are refused until there is room.
    max_backlog: int = 10_000
    #: The same in bytes. The next deliverable message is accepted even above it.
    max_backlog_bytes: int = 64 * 1024 * 1024
    #: What is left when a sequence ends with a gap; ``None`` = DiscardFollowingFirstGap where nothing is delivered
    #: past a gap (in order, not at most once), else NoDiscard. What is discarded then must not have been delivered.
    #: Other peers than Mercury are sent only what is set here: some break at anything but NoDiscard (LIVE-04).
    incomplete_behavior: IncompleteSequenceBehavior | None = None
    on_failure: OnFailure = OnFailure.WAIT
    #: With ``SKIP``: how many times a failing handler is tried.
    max_attempts: int = 10
    #: The pauses between the tries of a failing handler.
    redelivery: Backoff = field(default_factory=lambda: Backoff(base=0.5))

    def __post_init__(self) -> None:
        at_least(1, acknowledge_every=self.acknowledge_every, max_ranges=self.max_ranges)
        at_least(1, max_backlog=self.max_backlog, max_backlog_bytes=self.max_backlog_bytes)
        at_least(1, max_attempts=self.max_attempts)
        at_least(0, acknowledgement_interval=self.acknowledgement_interval, tombstone=self.tombstone)
        above(0, inactivity_timeout=self.inactivity_timeout, max_expires=self.max_expires)
        above(0, unused_timeout=self.unused_timeout)
        withholds = self.incomplete_behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
        if withholds and self.acknowledge_at is AcknowledgeAt.DELIVERY:
            raise ConfigurationError(
                "incomplete_behavior: DiscardEntireSequence delivers nothing before the end, and the source ends "
                "nothing before it is acknowledged; acknowledge at acceptance"
            )

    @property
    def behavior(self) -> IncompleteSequenceBehavior:
        """What is sent to a Mercury at the other end, and what a cut obeys."""
        if self.incomplete_behavior is not None:
            return self.incomplete_behavior
        if self.in_order and self.assurance is not DeliveryAssurance.AT_MOST_ONCE:
            return IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
        return IncompleteSequenceBehavior.NO_DISCARD

    @property
    def told_behavior(self) -> IncompleteSequenceBehavior:
        """What is sent to every peer."""
        return self.incomplete_behavior or IncompleteSequenceBehavior.NO_DISCARD

    def acknowledges_in_order(self, rm: RmVersion, *, told: bool, expires: bool = False) -> bool:
        """Whether what lies behind a gap is not acknowledged.

        It is not delivered either, and dropped when the sequence ends there; a source that does not know would
        take an acknowledgement for a delivery. So it sends all of it again, in a sequence that follows. In WS-RM 1.0
        no source can learn of it; there it is done where the destination is to end the sequence by itself.

        :param told: the source knows `behavior`.
        :param expires: the sequence ends at a certain time.
        """
        if self.incomplete_behavior is not None or self.behavior is IncompleteSequenceBehavior.NO_DISCARD:
            return False
        return not told if rm is RmVersion.RM11 else expires


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePolicy:
    """How a source runs its sequences to one endpoint. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    protocol: Protocol = field(default_factory=Protocol)
    retransmission: RetransmissionPolicy = field(default_factory=RetransmissionPolicy)
    #: Messages in flight: sent and not yet acknowledged. To a destination that takes only the next one it shrinks.
    window: int = 64
    #: Requests of one sequence that may wait for their responses; above it no more is sent of it.
    max_unanswered: int = 1024
    #: Ask for a sequence that ends after so long; ``None`` = never.
    expires: float | None = None
    #: The sequence fails when messages are unacknowledged and nothing was heard for so long; ``None`` = never.
    inactivity_timeout: float | None = None
    #: A sequence with nothing to do for so long ends; a later message starts a new one. ``None`` = never.
    idle_timeout: float | None = 300.0
    #: Offer a sequence for what comes back.
    offer: bool = True
    #: WS-RM 1.1: say CloseSequence before TerminateSequence.
    close: bool = True
    #: WS-RM 1.1, with ``close``: when everything of an ended sequence was sent and nothing of it was ever acknowledged,
    #: CloseSequence asks for the final acknowledgement so long after the last message; ``None`` = never.
    close_unacknowledged_after: float | None = 60.0
    #: Transmissions of CloseSequence and TerminateSequence before the end counts as settled anyway.
    end_attempts: int = 12
    #: How long an ended sequence still answers.
    tombstone: float = 86400.0

    @property
    def ack_request_interval(self) -> int:
        """While the window is full, an acknowledgement is requested every so many messages."""
        return max(1, self.window // 4)

    def __post_init__(self) -> None:
        at_least(1, window=self.window, max_unanswered=self.max_unanswered, end_attempts=self.end_attempts)
        above(0, expires=self.expires, inactivity_timeout=self.inactivity_timeout)
        above(0, close_unacknowledged_after=self.close_unacknowledged_after)
        at_least(0, idle_timeout=self.idle_timeout, tombstone=self.tombstone)
