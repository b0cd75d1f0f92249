"""When a message without an answer is sent again, and when the source gives up."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.bounds import above, at_least, below


def is_due(due: float, now: float, longest: float) -> bool:
    """Whether an action that was deferred until ``due``, by at most ``longest`` seconds, is due now.

    If the clock was set back, ``due`` may lie more than ``longest`` seconds ahead. Such a time counts as due.
    """
    return due <= now or due > now + longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that grow exponentially up to a cap, with jitter. Times are seconds.

    :raises ConfigurationError: a number is out of range, alone or with the others; the text begins with its name.
    """

    #: The first pause.
    base: float = 1.0
    #: Each further pause is longer by this factor.
    factor: float = 2.0
    #: The longest pause.
    cap: float = 60.0
    #: The largest share of a pause that is randomly taken off, so that many sources do not retry at the same moment.
    jitter: float = 0.2

    def __post_init__(self) -> None:
        above(0, base=self.base)
        at_least(1, factor=self.factor)
        at_least(self.base, cap=self.cap)
        at_least(0, jitter=self.jitter)
        below(1, jitter=self.jitter)

    def delay(self, attempts: int, chance: float, least: float = 0.0) -> float:
        """Seconds until the next attempt.

        :param attempts: attempts made so far, from 1.
        :param chance: a random number, 0 <= chance < 1.
        :param least: the shortest pause, up to the cap; no jitter is taken off it.
        """
        try:
            interval = min(self.cap, self.base * self.factor ** (max(attempts, 1) - 1))
        except OverflowError:
            interval = self.cap
        return max(min(self.cap, least), interval * (1 - self.jitter * chance))

    def is_due(self, due: float, now: float) -> bool:
        """Whether the next attempt is due.

        A time farther ahead than the longest pause comes from a clock that was ahead of this one, and counts as due.
        """
        return is_due(due, now, self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmissionPolicy(Backoff):
    """A backoff with a limit, if one is set.

    Without ``max_attempts`` and ``max_age`` a message is sent until it is acknowledged. "Exactly once" depends on this,
    so to set a limit is to accept dead letters.

    :raises ConfigurationError: a number is out of range, alone or with the others; the text begins with its name.
    """

    #: Give up after this many transmissions; ``None`` = never.
    max_attempts: int | None = None
    #: Give up on a message this long after the application sent it; ``None`` = never.
    max_age: float | None = None

    def __post_init__(self) -> None:
        Backoff.__post_init__(self)
        at_least(1, max_attempts=self.max_attempts)
        above(0, max_age=self.max_age)

    def exhausted(self, attempts: int, age: float) -> bool:
        """Whether to give up on a message that was sent ``age`` seconds ago and transmitted ``attempts`` times."""
        too_often = self.max_attempts is not None and attempts >= self.max_attempts
        return too_often or (self.max_age is not None and age >= self.max_age)
