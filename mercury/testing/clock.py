"""A clock that a test sets."""

from __future__ import annotations

#: 2026-01-01T00:00:00Z.
START = 1_767_225_600.0


class FakeClock:
    """A clock that only the test advances, for parameters such as ``clock=time.time``.

    :param start: its first time, in seconds since the epoch.
    """

    def __init__(self, start: float = START) -> None:
        self.start = start
        #: The time in seconds since the epoch. A test may set it, also back.
        self.now = start

    def __call__(self) -> float:
        return self.now

    @property
    def elapsed(self) -> float:
        """Seconds since the start, to the microsecond."""
        return round(self.now - self.start, 6)

    def advance(self, seconds: float) -> None:
        """Add to the time. No work is done: in a `Pair` use `Pair.advance`, which also does the work that becomes
        due."""
        self.now += seconds
