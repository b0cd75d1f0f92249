"""The settings of the two ends of a sequence. Each end chooses its own; they are not negotiated on the wire (DA-08)."""

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

    #: Neither lost nor repeated: one transaction commits the handler's work and records the delivery.
    EXACTLY_ONCE = "ExactlyOnce"
    #: Not lost. The handler commits before the delivery is recorded, so a crash in between repeats the message.
    AT_LEAST_ONCE = "AtLeastOnce"
    #: Not repeated. The delivery is recorded before the handler is called, so a crash before its end loses the message.
    AT_MOST_ONCE = "AtMostOnce"


class AcknowledgeAt(enum.Enum):
    """When a message counts as accepted (DA-06)."""

    #: Once the destination has stored it.
    ACCEPTANCE = "acceptance"
    #: Once the application has consumed it.
    DELIVERY = "delivery"


class OnFailure(enum.Enum):
    """What happens to a message whose handler keeps failing."""

    #: The sequence waits; the handler is called again until it succeeds.
    WAIT = "wait"
    #: The message becomes a dead letter after ``max_attempts``, and the sequence continues.
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationPolicy:
    """The settings of a destination for its sequences. Times are seconds.

    :raises ConfigurationError: a number is out of range, or two settings exclude each other.
    """

    assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE
    in_order: bool = True
    acknowledge_at: AcknowledgeAt = AcknowledgeAt.ACCEPTANCE
    #: The longest delay of an acknowledgement that is posted, so that several merge; 0 = post it immediately.
    acknowledgement_interval: float = 0.1
    #: An acknowledgement is sent immediately when this many new messages are not acknowledged.
    acknowledge_every: int = 16
    #: A sequence is ended when its source has sent nothing for this long; ``None`` = never. One that this side has
    #: offered for responses is not ended while they may come.
    inactivity_timeout: float | None = 7 * 86400.0
    #: A sequence that was created and never used is ended after this time; ``None`` = after ``inactivity_timeout``.
    unused_timeout: float | None = 12 * 3600.0
    #: The longest life of a sequence; ``None`` = as long as its source requests.
    max_expires: float | None = None
    #: How long an ended sequence still answers. It must be longer than any peer retransmits.
    tombstone: float = 86400.0
    #: The most separate ranges of received numbers. A message that would add one more is neither stored nor
    #: acknowledged, so its source retransmits it.
    max_ranges: int = 512
    #: The most undelivered messages of one sequence; above it new ones are refused until there is room.
    max_backlog: int = 10_000
    #: The most bytes of undelivered messages of one sequence. The next deliverable message is accepted even above it.
    max_backlog_bytes: int = 64 * 1024 * 1024
    #: Whether acknowledgements state how many more messages fit, once it is few (BufferRemaining, an extension of
    #: .NET). A source that knows the element sends no more than that; any other ignores it.
    buffer_remaining: bool = True
    #: Which messages are delivered when a sequence ends with a gap. ``None`` = DiscardFollowingFirstGap if messages
    #: above a gap wait (in order, not AtMostOnce), else NoDiscard, because a delivered message cannot be discarded.
    #: A peer that is not Mercury is sent only a value that is set here: some fail on all but NoDiscard (LIVE-04).
    incomplete_behavior: IncompleteSequenceBehavior | None = None
    on_failure: OnFailure = OnFailure.WAIT
    #: With ``SKIP``: how many times a failing handler is called.
    max_attempts: int = 10
    #: The pauses between the calls of a failing handler.
    redelivery: Backoff = field(default_factory=lambda: Backoff(base=0.5))
    #: Whether responses to MTOM requests are MTOM messages, if they leave on the connection of a request; the WSDL of
    #: the service then says that clients may use MTOM. Requests may be MTOM messages in any case.
    mtom: bool = False
    #: Whether a source that is Mercury may send several messages of a sequence in one HTTP exchange.
    batches: bool = True
    #: The most messages of such an exchange; ``None`` = those of ``engine.limits.max_batch``, which hold in any case.
    max_batch: int | None = None

    def __post_init__(self) -> None:
        at_least(1, acknowledge_every=self.acknowledge_every, max_ranges=self.max_ranges)
        at_least(1, max_backlog=self.max_backlog, max_backlog_bytes=self.max_backlog_bytes)
        at_least(1, max_attempts=self.max_attempts, max_batch=self.max_batch)
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
        """The behavior when a sequence is cut; it is also sent to a peer that is Mercury."""
        if self.incomplete_behavior is not None:
            return self.incomplete_behavior
        if self.in_order and self.assurance is not DeliveryAssurance.AT_MOST_ONCE:
            return IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
        return IncompleteSequenceBehavior.NO_DISCARD

    @property
    def advertised_behavior(self) -> IncompleteSequenceBehavior:
        """The behavior that is sent to every peer."""
        return self.incomplete_behavior or IncompleteSequenceBehavior.NO_DISCARD

    def acknowledges_in_order(self, rm: RmVersion, *, source_knows: bool, expires: bool = False) -> bool:
        """Whether messages above a gap are not acknowledged.

        Such messages are not delivered either, and they are discarded if the sequence ends with the gap. A source that
        does not know this would take their acknowledgement for a promise of delivery. Without the acknowledgement it
        sends them again in a successor sequence. A source of WS-RM 1.0 never knows; there the rule applies only if the
        destination itself may end the sequence.

        :param source_knows: the source knows `behavior`.
        :param expires: the sequence has an expiry.
        """
        if self.incomplete_behavior is not None or self.behavior is IncompleteSequenceBehavior.NO_DISCARD:
            return False
        return not source_knows if rm is RmVersion.RM11 else expires


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePolicy:
    """The settings of a source for its sequences to one endpoint. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    protocol: Protocol = field(default_factory=Protocol)
    retransmission: RetransmissionPolicy = field(default_factory=RetransmissionPolicy)
    #: The most messages in flight, which are sent and not acknowledged. A sequence begins with 64 at most; the window
    #: grows up to this size while acknowledgements keep pace, and shrinks for a destination that takes only the next
    #: number.
    window: int = 512
    #: The most unanswered requests of one sequence; at this limit the sequence sends no more messages.
    max_unanswered: int = 1024
    #: The duration that CreateSequence requests for the sequence; ``None`` = it never expires.
    expires: float | None = None
    #: The sequence fails when it has unacknowledged messages and the peer is silent for this long; ``None`` = never.
    inactivity_timeout: float | None = None
    #: A sequence that is idle for this long ends; a later message starts a new one. ``None`` = never.
    idle_timeout: float | None = 300.0
    #: Whether CreateSequence offers a sequence for the other direction.
    offer: bool = True
    #: WS-RM 1.1: whether CloseSequence is sent before TerminateSequence.
    close: bool = True
    #: WS-RM 1.1, with ``close``: if all messages of an ended sequence were sent and none was ever acknowledged,
    #: CloseSequence requests the final acknowledgement this long after the last message; ``None`` = never.
    close_unacknowledged_after: float | None = 60.0
    #: How often CloseSequence and TerminateSequence are sent before the end counts as settled without an answer.
    end_attempts: int = 12
    #: How long an ended sequence still answers.
    tombstone: float = 86400.0
    #: WS-RM 1.1, if peers cannot post to this process: whether it fetches responses by WS-MakeConnection.
    make_connection: bool = False
    #: With ``make_connection``: the pauses between two MakeConnection messages; they start again from the shortest when
    #: a message was sent or fetched.
    polling: Backoff = field(default_factory=lambda: Backoff(base=1.0, cap=15.0))
    #: Whether messages are sent as MTOM messages: binary content of at least 1 KiB is sent as it is, not in base64.
    mtom: bool = False
    #: The most messages of one HTTP exchange to a destination that is Mercury and takes batches; 1 = each message has
    #: an exchange of its own.
    batch: int = 256
    #: The most bytes of the bodies of one batch.
    batch_bytes: int = 256 * 1024
    #: How long a message may wait for others of its key, so that they leave as one batch; 0 = it never waits. It does
    #: not wait while as many messages, or bytes, wait as a batch takes, nor for a destination that takes no batches.
    batch_wait: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch, batch_bytes=self.batch_bytes)
        at_least(0, batch_wait=self.batch_wait)
        at_least(1, window=self.window, max_unanswered=self.max_unanswered, end_attempts=self.end_attempts)
        above(0, expires=self.expires, inactivity_timeout=self.inactivity_timeout)
        above(0, close_unacknowledged_after=self.close_unacknowledged_after)
        at_least(0, idle_timeout=self.idle_timeout, tombstone=self.tombstone)
