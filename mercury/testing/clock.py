"""A clock that a test sets."""

from __future__ import annotations

#: 2026-01-01T00:00:00Z.
START = 1_767_225_600.0


class FakeClock:
    """Seconds since the epoch that pass when a test says so: for whatever takes ``clock=time.time``.

    :param start: what it shows at first.
    """

    def __init__(self, start: float = START) -> None:
        self.start = start
        #: What it shows. It may be set, back too.
        self.now = start

    def __call__(self) -> float:
        return self.now

    @property
    def elapsed(self) -> float:
        """Seconds since the start, to the microsecond."""
        return round(self.now - self.start, 6)

    def advance(self, seconds: float) -> None:
        """Let time pass. Nobody is woken: in a `Pair` use `Pair.advance`, which does what becomes due."""
        self.now += seconds
