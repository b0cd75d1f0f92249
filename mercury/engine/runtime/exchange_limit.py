"""How many exchanges may be open with one server: as many as make it faster, and no more."""

from __future__ import annotations

import enum

from mercury.bounded import BoundedDict

#: The exchanges with a server of which nothing is known, since foreign servers often have a dozen threads; and the
#: fewest that failures leave, so that a network that loses much is used at all.
FIRST, LEAST = 8, 4
#: A round measures the messages a second while so many times the limit end, and lasts at least so many seconds: one
#: answer of a server may end many exchanges at once. What begins before a change of the limit does not count.
TURNS, ROUND_SECONDS = 3, 0.02
#: More exchanges are tried with twice as many, and kept if the server ends so much more messages a second with them.
MORE, GAIN = 2.0, 1.08
#: Fewer are tried with three quarters, and kept if the server ends nearly as many messages a second.
FEWER, LOSS = 0.75, 0.94
#: Fewer are tried at once when a server has become so slow, compared with before.
SLOWED = 0.6
#: The rounds between two trials: as many as the first at the beginning, twice as many after each trial without effect.
#: After a failure the pause is that of `CAREFUL`.
PAUSE, CAREFUL, LONGEST_PAUSE = 1, 8, 32
#: After so many seconds without an exchange nothing is known of a server any more.
FORGOTTEN_AFTER = 60.0
#: The servers that are remembered. Peers name some of them: above it, the one that was used longest ago is forgotten.
MOST_SERVERS = 256


class Trial(enum.Enum):
    """What a round measures."""

    NONE = enum.auto()
    MORE = enum.auto()
    FEWER = enum.auto()


class ExchangeLimit:
    """The limit on the open exchanges with one server. Times are seconds of a monotonic clock. Not thread-safe.

    It begins low. While posts wait for the limit, it compares rounds: the limit grows while more exchanges bring more
    messages a second, and shrinks when fewer bring as many, so exchanges that only wait at the server are not begun. A
    failure (no connection, a timeout, a refusal as busy) halves it.

    A server that stores together what arrives together gets the most at once, until a failure: the more exchanges,
    the fewer transactions it has for as many messages, which rounds do not show while others use the machine.

    :param most: the largest limit.
    :param first: the limit of a server of which nothing is known.
    :param least: the smallest limit.
    """

    def __init__(self, most: int, now: float, first: int = FIRST, least: int = LEAST) -> None:
        self._most = most
        self._first, self._least = min(first, most), min(least, most)
        self._cut_at = now
        self._forget(now)

    def _forget(self, now: float) -> None:
        #: The most open exchanges now.
        self.limit = self._settled = self._first
        self._trial, self._next = Trial.NONE, Trial.MORE
        #: Whether the server stores together what arrives together.
        self._together = False
        #: The messages a second at the settled limit.
        self._rate = 0.0
        #: The rounds until the next trial, and the pause after it.
        self._rounds = self._pause = PAUSE
        self._ended_at = now
        self._begin_round(now)

    def _begin_round(self, now: float, limit: int | None = None) -> None:
        """Measure anew.

        :param limit: the limit changes to this, and what is open now says nothing about it.
        """
        self._hidden = 0
        if limit is not None and limit != self.limit:
            self._hidden, self.limit = self.limit, limit
        self._since, self._ends, self._messages, self._full = now, 0, 0, False

    def used(self, now: float) -> None:
        """An exchange begins while none is open: the time before it says nothing about the server."""
        if now - self._ended_at >= FORGOTTEN_AFTER:
            self._forget(now)
        else:
            self._begin_round(now)

    def reached(self) -> None:
        """A post has to wait because as many exchanges are open as may be."""
        self._full = True

    def failed(self, began: float, now: float) -> None:
        """An exchange has failed that began at a time. Those that were open at the last failure do not count again."""
        self._ended_at = now
        if began < self._cut_at:
            return
        self._cut_at = now
        self._trial, self._next = Trial.NONE, Trial.MORE
        self._settled = max(self._least, min(self.limit, self._settled) // 2)
        self._rounds = self._pause = CAREFUL
        self._begin_round(now, self._settled)

    def ended(self, messages: int, now: float, *, together: bool = False) -> None:
        """An exchange has ended without a failure.

        :param messages: how many messages it carried.
        :param together: the server stores together what arrives together.
        """
        self._ended_at = now
        if together and not self._together:
            self._together = True
            self._settled = self._most
            self._begin_round(now, self._most)
            return
        if self._hidden:
            self._hidden -= 1
            self._since = now
            return
        self._ends += 1
        self._messages += messages
        if self._ends < TURNS * self.limit or now - self._since < ROUND_SECONDS:
            return
        rate, full = self._messages / (now - self._since), self._full
        if full:
            self._judge(rate, now)
        else:  # posts did not wait: the limit is not what bounds them
            self._trial = Trial.NONE
            self._begin_round(now, self._settled)

    def _judge(self, rate: float, now: float) -> None:
        """Decide after a round in which posts waited."""
        trial, self._trial = self._trial, Trial.NONE
        if trial is Trial.NONE:
            if rate < SLOWED * self._rate:
                self._next, self._rate, self._rounds, self._pause = Trial.FEWER, rate, 0, PAUSE
            else:
                self._rate = (self._rate + rate) / 2 if self._rate else rate
                self._rounds -= 1
        elif rate >= self._rate * (GAIN if trial is Trial.MORE else LOSS):
            self._settled, self._rate = self.limit, rate
            self._next, self._rounds, self._pause = trial, 0, PAUSE
        else:
            self._next = Trial.FEWER if trial is Trial.MORE else Trial.MORE
            self._rounds = self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if self._rounds > 0:
            self._begin_round(now, self._settled)
        else:
            self._try(now)

    def _try(self, now: float) -> None:
        """Begin the next trial in the direction that can be tried."""
        more = min(self._most, round(self._settled * MORE))
        fewer = self._settled if self._together else max(self._least, int(self._settled * FEWER))
        self._trial = self._next
        if self._trial is Trial.MORE and more == self._settled:
            self._trial = Trial.FEWER
        elif self._trial is Trial.FEWER and fewer == self._settled:
            self._trial = Trial.MORE
        self._begin_round(now, more if self._trial is Trial.MORE else fewer)


class ExchangeLimits:
    """The limits of the servers that were used last. Not thread-safe.

    :param most, first, least: see `ExchangeLimit`.
    """

    def __init__(self, most: int, first: int = FIRST, least: int = LEAST) -> None:
        self._most, self._first, self._least = most, first, least
        #: By server; the one that was used longest ago comes first.
        self._servers: BoundedDict[str, ExchangeLimit] = BoundedDict(MOST_SERVERS)

    def of(self, server: str, now: float) -> ExchangeLimit:
        """The limit of a server with which no exchange is open."""
        found = self._servers.get(server)
        if found is None:
            found = self._servers[server] = ExchangeLimit(self._most, now, self._first, self._least)
        else:
            self._servers.move_to_end(server)
            found.used(now)
        return found
