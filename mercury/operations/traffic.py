"""How much is sent and delivered, and how long handlers take, from what processes write about each minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.storage.nodes import PERIOD, Traffic
from mercury.storage.sql.reads import traffic
from mercury.storage.sql.store import SqlStore

#: Minutes of a rate, and minutes that are shown one by one.
RATE_MINUTES, SHOWN_MINUTES = 5, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What was done in the last minutes."""

    sums: Traffic
    #: The time in which it was done.
    seconds: float

    def a_second(self, name: str) -> float:
        """How many a second.

        :param name: a field of `Traffic`.
        """
        return float(getattr(self.sums, name)) / self.seconds

    @property
    def handler_time(self) -> float | None:
        """How long a call of a handler takes, in seconds, on average; ``None`` = there was none."""
        return self.sums.seconds / self.sums.calls if self.sums.calls else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTraffic:
    """Rates, and the minutes before now."""

    rates: Rates
    #: The last `SHOWN_MINUTES`, the oldest first, each with its begin in seconds since the epoch.
    minutes: tuple[tuple[int, Traffic], ...]

    def values(self, name: str) -> list[tuple[int, float]]:
        """A field of `Traffic` in each minute."""
        return [(at, float(getattr(each, name))) for at, each in self.minutes]


class TrafficReads:
    """The traffic of a store in a database. Processes write theirs every 15 seconds.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def recent(self, service: str | None = None) -> RecentTraffic:
        """The last minutes.

        :param service: only of this service, where empty means responses; ``None`` = of all.
        :raises StorageError: the store failed.
        """
        now = self._clock()
        this = int(now) // PERIOD
        with self._store.transaction() as tx:
            found = traffic.by_minute(tx, this - SHOWN_MINUTES + 1, service)
        minutes = [(each, found.get(each, Traffic())) for each in range(this - SHOWN_MINUTES + 1, this + 1)]
        sums = sum((each for _, each in minutes[-RATE_MINUTES:]), Traffic())
        return RecentTraffic(
            rates=Rates(sums=sums, seconds=_seconds(now)),
            minutes=tuple((minute * PERIOD, each) for minute, each in minutes),
        )

    def by_service(self) -> dict[str, Rates]:
        """The rates of each service that has done something.

        :raises StorageError: the store failed.
        """
        now = self._clock()
        with self._store.transaction() as tx:
            found = traffic.by_service(tx, int(now) // PERIOD - RATE_MINUTES + 1)
        return {each.service: Rates(sums=each, seconds=_seconds(now)) for each in found}


def _seconds(now: float) -> float:
    """The time of the last minutes, of which the last one is not over."""
    return (RATE_MINUTES - 1) * PERIOD + max(1.0, now % PERIOD)
