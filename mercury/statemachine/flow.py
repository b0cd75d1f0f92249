"""Flow control at a source: how many messages may be in flight to one destination. Pure.

Some destinations take only the next number. They drop a message above a gap, or do not answer its exchange until the
gap closes (LIVE-05). If a source sends them a whole window, every message but one has to be retransmitted. So the
window shrinks to one when the acknowledgements show such a destination. It grows again later; each time it has shrunk,
more messages must be acknowledged first (`PROVED`). It has its full size as soon as a number behind a gap is
acknowledged.

At its start a window has at most `START` messages. It doubles, up to the policy's size, whenever twice as many as it
holds were acknowledged while it was full, without a gap: a larger one needs fewer transactions.

Other destinations state in each acknowledgement how many more messages they can hold (FC-01). The window never exceeds
that number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: How many messages must be acknowledged before the window grows, after it has shrunk once, twice, three times ...
PROVED = (1, 16, 64, 256)
#: The most messages in flight at the start of a sequence.
START = 64


@dataclass(frozen=True, slots=True)
class Window:
    """How many numbers may be in flight now, and the counters from which that is computed."""

    #: ``None`` = as many as the policy allows.
    size: int | None = None
    #: How often the window has shrunk since it last had the policy's size.
    shrinks: int = 0
    #: How many messages were acknowledged when the window last changed.
    since: int = 0
    #: BufferRemaining of the newest acknowledgement; ``None`` = the element was absent.
    room: int | None = None
    #: The most messages in flight, as far as the window has grown.
    grown: int = START

    @property
    def narrow(self) -> bool:
        """Whether the window may be smaller than the policy's size."""
        return self.size is not None or self.room is not None

    def limit(self, most: int, least: int = 1) -> int:
        """How many numbers may be in flight.

        :param most: `SourcePolicy.window`.
        :param least: how many at least, if the destination has room for them.
        """
        limit = min(most, self.grown)
        if self.size is not None:
            limit = min(limit, max(self.size, least))
        return limit if self.room is None else min(limit, self.room)

    def with_room(self, room: int | None) -> Window:
        """An acknowledgement states how many more messages the destination can hold; ``None`` = it does not state
        it."""
        return self if room == self.room else replace(self, room=room)

    def overdue(self, numbers: int, acknowledged: int) -> Window:
        """The lowest number in flight is due again, the destination has answered since it was sent, and no higher
        number is acknowledged. If higher numbers are in flight, the destination takes only the next number.

        :param numbers: how many numbers are in flight.
        :param acknowledged: how many numbers were acknowledged so far.
        """
        if numbers < 2:
            return self
        return Window(1, self.shrinks + 1, acknowledged, self.room)

    def keeps_pace(self, count: int, most: int) -> Window:
        """Everything up to a number was acknowledged while the window was full. It doubles when that was enough.

        :param count: how many numbers were acknowledged so far.
        :param most: `SourcePolicy.window`.
        """
        if self.narrow or self.grown >= most or count - self.since < 2 * self.grown:
            return self
        return replace(self, grown=min(most, 2 * self.grown), since=count)

    def taken_behind_a_gap(self) -> Window:
        """A number behind a gap is acknowledged: the destination does not take only the next number."""
        return Window(room=self.room, grown=self.grown)

    def acknowledged(self, count: int, in_flight: int, most: int) -> Window:
        """An acknowledgement arrived. The window doubles when nothing is in flight and enough was acknowledged.

        :param count: how many numbers were acknowledged so far.
        :param in_flight: how many numbers were sent and are not acknowledged.
        :param most: `SourcePolicy.window`.
        """
        if self.size is None or in_flight:
            return self
        needed = PROVED[min(self.shrinks, len(PROVED)) - 1]
        if count - self.since < needed * self.size:
            return self
        size = 2 * self.size
        return Window(room=self.room) if size >= min(most, START) else Window(size, self.shrinks, count, self.room)
