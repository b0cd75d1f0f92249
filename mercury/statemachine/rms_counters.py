"""The counters of a sequence at its source, and what follows from them; `rms` changes them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mercury.statemachine.effects import Numbered
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Ranges
from mercury.statemachine.flow import Window
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rms_table import RMS, RmsEvent, RmsState
from mercury.statemachine.round_trip import RoundTrip


class RmsWork(enum.Enum):
    """The messages that a state requires on the wire."""

    CREATE = "CreateSequence"
    TRANSMIT = "messages"
    #: Request the current BufferRemaining of a destination without room.
    REQUEST_ACK = "AckRequested"
    CLOSE = "CloseSequence"
    TERMINATE = "TerminateSequence"


#: The states in which a message gets a number, while one is left.
_NUMBERING = frozenset(
    state for state in RmsState if Numbered in RMS.row(state, RmsEvent.AMR, lambda _no_number_left: False).effects
)


@dataclass
class RmsCounters:
    """The counters of a sequence at its source, and its state. Times are seconds since the epoch."""

    rm: RmVersion
    state: RmsState
    #: When the destination last answered, or when no answer was last expected.
    last_heard: float
    #: C: the destination has sent its final acknowledgement.
    closed: bool = False
    #: F: why the sequence failed.
    failure: FailureReason | None = None
    identifier: str | None = None
    #: The highest number assigned.
    last_number: int = 0
    #: The highest number that may be on the wire.
    highest_sent: int = 0
    acknowledged: RangeSet = field(default_factory=RangeSet)
    #: Numbers that moved to a successor sequence.
    moved: RangeSet = field(default_factory=RangeSet)
    #: The last number of the sequence, once known; 0 = the sequence ends without a message.
    last_message: int | None = None
    #: When the end was settled.
    settled_at: float | None = None
    #: The application does not wait for what is not acknowledged.
    abandoned: bool = False
    #: Requests whose response is not stored yet; the end waits for them.
    unanswered: int = 0
    #: The limit on numbers in flight that the destination requires.
    flow: Window = field(default_factory=Window)
    round_trip: RoundTrip = field(default_factory=RoundTrip)
    incomplete_behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD
    expires_at: float | None = None
    #: Transmissions of the current control message (CreateSequence, AckRequested, CloseSequence or TerminateSequence).
    control_attempts: int = 0
    #: When the control message is due again.
    control_due: float = 0.0

    @property
    def alive(self) -> bool:
        """Whether the sequence has neither ended nor failed."""
        return self.failure is None and self.state is not RmsState.ENDED

    @property
    def at(self) -> RmsState:
        """The state by which rows are looked up: F while it is set, otherwise the tuple."""
        return self.state if self.failure is None else RmsState.FAILED

    @property
    def takes_messages(self) -> bool:
        """Whether a new message may get a number."""
        return self.at in _NUMBERING and self.last_number < MAX_MESSAGE_NUMBER

    def invalid(self, ranges: Ranges) -> bool:
        """RM-ACK-03. A missing number that was acknowledged before is valid, because the network may reorder
        messages."""
        return any(low < 1 or low > high or high > self.highest_sent for low, high in ranges)

    @property
    def outstanding(self) -> bool:
        """MIB: a number is neither acknowledged nor moved."""
        return not self._done().covers(1, self.last_number)

    @property
    def in_flight(self) -> int:
        """How many numbers may be on the wire and are neither acknowledged nor moved."""
        done = self._done()
        if done.highest <= self.highest_sent:
            return self.highest_sent - done.count
        return sum(high - low + 1 for low, high in done.gaps(1, self.highest_sent))

    def lowest_outstanding(self) -> int:
        """The lowest number that is neither acknowledged nor moved; one above the last when there is none."""
        return min(self._done().first_missing(), self.last_number + 1)

    def crowded(self, policy: SourcePolicy) -> bool:
        """Whether no more requests may be sent before one is answered."""
        return self.unanswered >= policy.max_unanswered

    @property
    def starved(self) -> bool:
        """Whether messages wait for their first transmission, the destination has no room, and no message is in flight
        whose retransmission would cause a new acknowledgement (FC-02).
        """
        return self.flow.room == 0 and self.last_number > self.highest_sent and not self.in_flight

    def window(self, policy: SourcePolicy) -> int:
        """The size of the window if the destination limits nothing."""
        return min(policy.window, self.flow.grown)

    def ack_request_interval(self, policy: SourcePolicy) -> int:
        """While the window is full, every nth message requests an acknowledgement; this is n."""
        return max(1, self.window(policy) // 4)

    def most_in_flight(self, policy: SourcePolicy, least: int = 1) -> int:
        """The most numbers in flight. If the destination has no room, one message in flight is still sent again,
        because the messages that fill the destination may wait for it.

        :param least: how many at least, if the destination has room for them.
        """
        return self.flow.limit(policy.window, least) or min(1, self.in_flight)

    def window_end(self, policy: SourcePolicy, least: int = 1) -> int:
        """The highest number that may be in flight; ``least`` as in `most_in_flight`."""
        left = self.most_in_flight(policy, least)
        for low, high in self._done().gaps(1, self.last_number):
            if high - low + 1 >= left:
                return low + left - 1
            left -= high - low + 1
        return self.last_number

    def predicate(self) -> str:
        """The tuple that follows from the counters: it equals the state's value while F is not set."""
        factors = (
            self.identifier is not None,
            self.outstanding,
            self.last_message is not None,
            self.settled_at is not None,
        )
        return "".join("01"[factor] for factor in factors)

    def requests_final(self, policy: SourcePolicy) -> bool:
        """Whether to send CloseSequence too, because the destination may acknowledge only then (LIVE-07).

        CloseSequence is not sent to a destination that discards messages behind a gap, because a late message would be
        the gap; nor while responses are missing, because a closed destination may refuse the repeated requests that
        fetch them.
        """
        silent = self.state is RmsState.SENDING_LAST and not self.acknowledged and not self.abandoned
        silent = silent and not self.unanswered
        whole = self.highest_sent == self.last_number and not self.moved
        enabled = policy.close and policy.close_unacknowledged_after is not None and self.rm is RmVersion.RM11
        discards = self.incomplete_behavior is not IncompleteSequenceBehavior.NO_DISCARD
        return silent and whole and enabled and not discards and self.failure is None

    def work(self, policy: SourcePolicy) -> RmsWork | None:
        """The work of this state on the wire, whether it is due or not."""
        if self.failure is not None:
            return None
        match self.state:
            case RmsState.CREATING | RmsState.CREATING_LAST:
                return RmsWork.CREATE
            case RmsState.SENDING:
                return RmsWork.REQUEST_ACK if self.starved else RmsWork.TRANSMIT
            case RmsState.SENDING_LAST:
                abandons = self.abandoned and self.rm is RmVersion.RM11
                if abandons or self.requests_final(policy):
                    return RmsWork.CLOSE
                return RmsWork.REQUEST_ACK if self.starved else RmsWork.TRANSMIT
            case RmsState.ENDING:
                closes = self.rm is RmVersion.RM11 and not self.closed
                if self.unanswered and not self.abandoned:
                    # A destination that withholds everything until it knows the end answers nothing before.
                    withheld = self.incomplete_behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
                    return RmsWork.CLOSE if closes and withheld else None
                return RmsWork.CLOSE if closes and policy.close else RmsWork.TERMINATE
            case RmsState.NEW | RmsState.IDLE | RmsState.ENDED | RmsState.FAILED:
                return None

    def retains(self, number: int) -> bool:
        """Whether an acknowledged body may still be needed for a successor sequence (IncompleteSequenceBehavior)."""
        match self.incomplete_behavior:
            case IncompleteSequenceBehavior.NO_DISCARD:
                return False
            case IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
                return number >= self.acknowledged.first_missing()
            case IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
                return self.state not in (RmsState.ENDING, RmsState.ENDED)

    def next_due(self, policy: SourcePolicy, *, posts: bool = True) -> float | None:
        """When `Tick` or control work is due next; the retransmission of messages has its own schedule.

        :param posts: whether control messages can be sent at all.
        """
        if not self.alive:
            return None
        times = [self.expires_at, self.inactive_at(policy), self.idle_at(policy)]
        if posts and self.work(policy) not in (None, RmsWork.TRANSMIT):
            times.append(self.control_due)
        return min((at for at in times if at is not None), default=None)

    def inactive_at(self, policy: SourcePolicy) -> float | None:
        """When the sequence fails because the peer is silent; ``None`` = never, or no answer is expected."""
        if policy.inactivity_timeout is None or self.state in (RmsState.NEW, RmsState.IDLE, RmsState.ENDING):
            return None  # nothing is unacknowledged
        return self.last_heard + policy.inactivity_timeout

    def idle_at(self, policy: SourcePolicy) -> float | None:
        """When an idle sequence ends; ``None`` = it is not idle, or never ends for that."""
        if policy.idle_timeout is None or self.state is not RmsState.IDLE or self.unanswered:
            return None
        return self.last_heard + policy.idle_timeout

    def _done(self) -> RangeSet:
        """The numbers that are acknowledged or moved; callers do not change it."""
        if not self.moved:
            return self.acknowledged
        done = self.acknowledged.copy()
        done.update(self.moved)
        return done
