"""Where a message that is missing at the server is now, by the stores in between."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.reconcile.source import Consistency

#: A store that is lost with its process.
MEMORY = "memory:"


class Where(enum.Enum):
    """The places of a missing row. The values are what programs read."""

    #: The application says so itself; see `Config.handed_over`.
    NOT_HANDED_OVER = "not_handed_over"
    #: Stored at the source, not transmitted yet.
    WAITING_IN_RMS = "waiting_in_rms"
    #: Transmitted, and neither acknowledged nor found at the destination.
    IN_FLIGHT = "in_flight"
    #: Stored at the destination, not consumed by the application yet.
    IN_INVOKER_BUFFER = "in_invoker_buffer"
    #: Given up by one of the sides.
    DEAD_LETTER = "dead_letter"
    #: Nowhere, while a two-phase commit of the destination is not finished: its rows cannot be seen yet.
    IN_DOUBT = "in_doubt"
    #: Nowhere.
    LOST = "lost"
    #: No store was named, or rows have no correlation.
    UNKNOWN = "unknown"


#: The row is still on its way: it will arrive without anybody doing anything.
UNDER_WAY = frozenset(
    {Where.NOT_HANDED_OVER, Where.WAITING_IN_RMS, Where.IN_FLIGHT, Where.IN_INVOKER_BUFFER, Where.IN_DOUBT}
)


@dataclass(frozen=True, slots=True)
class Found:
    """A place, and what is known beside it."""

    where: Where
    #: The reason of a dead letter, or for an unknown place.
    reason: str = ""


class Places(Protocol):
    """The stores between two applications, at one moment."""

    def of(self, correlations: Sequence[str], /) -> Mapping[str, Found]:
        """Where the messages of these correlations are. One that is left out is nowhere.

        :raises StorageError: a store refuses.
        """

    @property
    def notes(self) -> Sequence[str]:
        """What a reader should know about the stores."""

    def consistency(self) -> Consistency:
        """What is known about the moment."""


class NoPlaces:
    """No stores were named: nothing can be said."""

    notes: Sequence[str] = ()

    def of(self, correlations: Sequence[str], /) -> Mapping[str, Found]:
        return {each: Found(Where.UNKNOWN, "no stores were named") for each in correlations}

    def consistency(self) -> Consistency:
        return Consistency.SNAPSHOT


class NothingLeft:
    """Stores that are gone with their processes: what has not arrived is lost."""

    notes: Sequence[str] = ()

    def of(self, _correlations: Sequence[str], /) -> Mapping[str, Found]:
        return {}

    def consistency(self) -> Consistency:
        return Consistency.SNAPSHOT
