"""Flow control at a source: how many messages may be in flight to a destination that takes only some of them. Pure.

Some destinations take only the next number: what comes before its turn is dropped, or its exchange is left unanswered
until the gap closes (LIVE-05). To send a whole window there costs every message but one a retransmission. So the
window shrinks to one when the acknowledgements show it, and grows again, the more carefully the more often that failed.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Messages to be acknowledged before the window grows, after the first, second, third ... time it has shrunk.
PROVED = (1, 16, 64, 256)


@dataclass(frozen=True, slots=True)
class Window:
    """How many numbers may be in flight now, and what led to it."""

    #: ``None`` = as many as the policy allows.
    size: int | None = None
    #: How often it has shrunk since it was as large as the policy allows.
    shrinks: int = 0
    #: How many messages were acknowledged when it changed last.
    since: int = 0

    def limit(self, most: int) -> int:
        """How many numbers may be in flight.

        :param most: what the policy allows.
        """
        return most if self.size is None else min(self.size, most)

    def overdue(self, numbers: int, acknowledged: int) -> Window:
        """The lowest number in flight is due again, although the destination has answered since it was sent, and
        nothing that follows it is acknowledged: if something follows it, the destination takes only the next number.

        :param numbers: how many are in flight.
        :param acknowledged: how many were acknowledged so far.
        """
        if numbers < 2:
            return self
        return Window(1, self.shrinks + 1, acknowledged)

    def acknowledged(self, count: int, in_flight: int, most: int) -> Window:
        """An acknowledgement came. The window doubles when nothing is in flight any more and enough was taken.

        :param count: how many were acknowledged so far.
        :param in_flight: how many were sent and are not acknowledged.
        :param most: what the policy allows.
        """
        if self.size is None or in_flight:
            return self
        needed = PROVED[min(self.shrinks, len(PROVED)) - 1]
        if count - self.since < needed * self.size:
            return self
        size = 2 * self.size
        return Window() if size >= most else Window(size, self.shrinks, count)
