"""The gauges of a store: how much waits in it, and for how long. Times are seconds since the epoch."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mercury.storage.letters import Direction

#: The claim of the process that reads the gauges; it does not count in `Gauges.claims`.
READER = "metrics"
#: Rows of one kind that `GaugeSource.gauges` reads at most, unless the caller sets another limit.
MOST_ROWS = 20_000


class Waits(enum.Enum):
    """What a message in the store waits for."""

    #: Outbound: it was never transmitted.
    TRANSMISSION = "transmission"
    #: Outbound: it was transmitted and is not acknowledged.
    ACKNOWLEDGEMENT = "acknowledgement"
    #: Outbound: the request is acknowledged and not answered.
    RESPONSE = "response"
    #: Inbound: no handler has consumed it.
    DELIVERY = "delivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The gauges of a store at one time. Counts cover at most a limit of rows of each kind: see ``uncounted``."""

    #: Messages that wait, by what they wait for and by destination: an endpoint, or a service (empty: responses).
    waiting: Mapping[tuple[Waits, str], int] = field(default_factory=dict)
    #: At most so many messages are newer than those that ``waiting`` counts, by direction.
    uncounted: Mapping[Direction, int] = field(default_factory=dict)
    #: When the oldest unacknowledged message of them was handed over, without those that wait for their time, and when
    #: the oldest undelivered one arrived; ``None`` = there is none.
    oldest_unacknowledged: float | None = None
    oldest_undelivered: float | None = None
    #: Sequences that have not ended.
    open_sources: int = 0
    open_destinations: int = 0
    #: Open destination sequences with a gap.
    gaps: int = 0
    #: Dead letters, the newest, by direction and reason; and how many older ones there are at most.
    dead_letters: Mapping[tuple[Direction, str], int] = field(default_factory=dict)
    letters_uncounted: int = 0
    #: Decisions of two-phase commits that are not finished in every database, and when the oldest was made.
    decisions: int = 0
    oldest_decision: float | None = None
    #: The numbers of claims that are held, one for each process that holds any, in descending order.
    claims: tuple[int, ...] = ()


class GaugeSource(Protocol):
    """What a store provides for metrics."""

    def count_commits(self, counter: Callable[[int], None]) -> None:
        """Call ``counter`` after each commit of this process, with the number of statements of the transaction (0 in a
        store that has none). It must not block or raise.
        """

    def gauges(self, now: float, most: int = MOST_ROWS) -> Gauges:
        """Read the gauges, as committed, by a few queries that do not depend on the number of rows in the store.

        :param now: the time for claims, unless the store measures leases by its own clock.
        :param most: rows of each kind that are read: the oldest messages, the newest dead letters, the newest
            source sequences.
        :raises StorageError: the store failed.
        """
