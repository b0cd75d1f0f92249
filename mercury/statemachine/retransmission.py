"""When something that got no answer is tried again, and when that ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that grow exponentially up to a cap, with jitter. Times are seconds.

    :raises ValueError: the figures make no sense together.
    """

    #: The first pause.
    base: float = 1.0
    #: Each further pause is this many times longer.
    factor: float = 2.0
    #: No pause is longer.
    cap: float = 60.0
    #: A pause is shortened by a random part of up to this share, so that many do not beat in time.
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.base <= 0 or self.factor < 1 or self.cap < self.base or not 0 <= self.jitter < 1:
            raise ValueError("base > 0, factor >= 1, cap >= base and 0 <= jitter < 1 are needed")

    def delay(self, attempts: int, chance: float) -> float:
        """Seconds until the next attempt.

        :param attempts: attempts made so far, from 1.
        :param chance: a random number, 0 <= chance < 1.
        """
        try:
            interval = min(self.cap, self.base * self.factor ** (max(attempts, 1) - 1))
        except OverflowError:
            interval = self.cap
        return interval * (1 - self.jitter * chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmissionPolicy(Backoff):
    """A backoff with a limit, if one is set.

    Without ``max_attempts`` and ``max_age`` a message is sent until it is acknowledged: this is what "exactly once"
    rests on, so a limit is a decision to accept dead letters.

    :raises ValueError: the figures make no sense together.
    """

    #: Give up after so many transmissions; ``None`` = never.
    max_attempts: int | None = None
    #: Give up on a message this long after it was handed over; ``None`` = never.
    max_age: float | None = None

    def __post_init__(self) -> None:
        Backoff.__post_init__(self)
        attempts, age = self.max_attempts, self.max_age
        if (attempts is not None and attempts < 1) or (age is not None and age <= 0):
            raise ValueError("max_attempts must be at least 1 and max_age above 0")

    def exhausted(self, attempts: int, age: float) -> bool:
        """Whether to give up on a message transmitted ``attempts`` times and handed over ``age`` seconds ago."""
        too_often = self.max_attempts is not None and attempts >= self.max_attempts
        return too_often or (self.max_age is not None and age >= self.max_age)
