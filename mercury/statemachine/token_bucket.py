"""A limit on a rate: a bucket of tokens that fills with the time. Pure: the time is an argument."""

from __future__ import annotations

#: Seconds of the rate that are waited for at least, so that a limit of many messages a second does not wake for each.
PORTION = 0.25


class TokenBucket:
    """Lets ``rate`` things a second pass, and after a rest those of one second at once, one at least.

    :param rate: things a second, above 0.
    :param now: seconds since the epoch; the bucket is full then.
    """

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._most = max(1.0, rate)
        self._tokens = self._most
        self._at = now

    def available(self, now: float) -> int:
        """How many things may pass now."""
        self._fill(now)
        return max(0, int(self._tokens))

    def spend(self, count: int, now: float) -> None:
        """Note that things have passed; also more than were available, which delays the next ones."""
        self._fill(now)
        self._tokens -= count

    def ready_at(self, now: float) -> float:
        """When things may pass again: some of them together, if the rate is high."""
        self._fill(now)
        wanted = max(1.0, min(self._most, self.rate * PORTION))
        return now + max(0.0, wanted - self._tokens) / self.rate

    def _fill(self, now: float) -> None:
        # A time before the last one: the clock was set back.
        self._tokens = min(self._most, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = now
