"""How many more messages of a sequence fit into its buffer, which acknowledgements state (FC-01, FC-02). Pure.

A source that knows BufferRemaining stops at 0 and waits. So 0 is stated only if the source hears of it when there is
room again. In all other cases at least 1 is stated: a message that does not fit after all is refused as busy, and its
source sends it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DestinationPolicy

#: The highest BufferRemaining that may be sent (FC-01). While this many fit, the element is not sent for the first
#: time: it would limit no source, and peers that do not know it do not see it.
MOST = 4096
#: After 0 was stated, an unasked acknowledgement is sent when this part of both limits is free; otherwise each single
#: place would cause one.
FREE = 1 / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlogged:
    """What waits in the buffer of one sequence."""

    #: How many messages wait, and their bytes.
    messages: int
    size: int
    behavior: IncompleteSequenceBehavior
    #: Bytes that the limits on all sequences of the peer, and of all peers, leave; ``None`` = those are not reached
    #: before the limits of the sequence.
    left_by_others: int | None = None

    @property
    def _mean(self) -> int:
        """The mean size of a waiting message, which is the estimate for the next ones."""
        return max(1, self.size // max(1, self.messages))

    def room(self, policy: DestinationPolicy, stated: int | None, *, is_notified: bool) -> int | None:
        """How many more messages fit; ``None`` = it is not stated.

        :param stated: the number that the newest acknowledgement states. Once a number was stated, each later
            acknowledgement states one: a source of .NET counts its messages down from the last number that it read.
        :param is_notified: an acknowledgement reaches the source when there is room again, or the source asks for one.
        """
        if not policy.buffer_remaining:
            return None
        places = policy.max_backlog - self.messages
        if self.messages:
            places = min(places, (policy.max_backlog_bytes - self.size) // self._mean)
        # With DiscardEntireSequence nothing is delivered before the end: the next message is accepted above the limit.
        entire = self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
        places = max(places, 0 if is_notified and not entire else 1)
        if self.left_by_others is not None and places:
            # Room for another sequence's messages returns without an event of this one.
            places = min(places, max(1, self.left_by_others // self._mean))
        return min(places, MOST) if stated is not None or places < MOST else None

    def is_free(self, policy: DestinationPolicy) -> bool:
        """Whether so much is free that an unasked acknowledgement states it after 0."""
        if not self.messages:
            return True
        places, octets = policy.max_backlog - self.messages, policy.max_backlog_bytes - self.size
        return places >= max(1, policy.max_backlog * FREE) and octets >= policy.max_backlog_bytes * FREE
