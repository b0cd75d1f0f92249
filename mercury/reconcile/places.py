"""Where a row that is missing on the server is now: the result of a search in the stores in between."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.reconcile.source import Consistency

#: A store that is lost with its process.
MEMORY = "memory:"


class Where(enum.Enum):
    """The places of a missing row. The values appear in the files and the JSON output."""

    #: Not handed over to Mercury yet, according to the column `Config.handed_over`.
    NOT_HANDED_OVER = "not_handed_over"
    #: Stored at the source, not transmitted yet.
    WAITING_IN_RMS = "waiting_in_rms"
    #: Transmitted, and neither acknowledged nor found at the destination.
    IN_FLIGHT = "in_flight"
    #: Stored at the destination, not consumed by the application yet.
    IN_INVOKER_BUFFER = "in_invoker_buffer"
    #: A dead letter on one of the sides.
    DEAD_LETTER = "dead_letter"
    #: Not found, while a two-phase commit is not finished, whose rows are not visible yet.
    IN_DOUBT = "in_doubt"
    #: Not found in any place.
    LOST = "lost"
    #: Not searched: no store was named, or the config has no correlation.
    UNKNOWN = "unknown"


#: The places of rows that are still on their way: they arrive without intervention.
UNDER_WAY = frozenset(
    {Where.NOT_HANDED_OVER, Where.WAITING_IN_RMS, Where.IN_FLIGHT, Where.IN_INVOKER_BUFFER, Where.IN_DOUBT}
)


@dataclass(frozen=True, slots=True)
class Found:
    """A place, with its reason."""

    where: Where
    #: Why the message is a dead letter, or why the place is unknown; otherwise empty.
    reason: str = ""


class Places(Protocol):
    """A search in the stores between two applications."""

    def of(self, correlations: Sequence[str], /) -> Mapping[str, Found]:
        """The places of the messages of these correlations. A correlation that is not in the result was not found.

        :raises StorageError: a store fails.
        """

    @property
    def notes(self) -> Sequence[str]:
        """Remarks about the stores for the report."""

    def consistency(self) -> Consistency:
        """Whether the stores were read in one snapshot each."""


class NoPlaces:
    """The result when no stores were named: every place is unknown."""

    notes: Sequence[str] = ()

    def of(self, correlations: Sequence[str], /) -> Mapping[str, Found]:
        return {each: Found(Where.UNKNOWN, "no stores were named") for each in correlations}

    def consistency(self) -> Consistency:
        return Consistency.SNAPSHOT


class NothingLeft:
    """The result for stores in memory that were lost with their processes: a row that has not arrived is lost."""

    notes: Sequence[str] = ()

    def of(self, _correlations: Sequence[str], /) -> Mapping[str, Found]:
        return {}

    def consistency(self) -> Consistency:
        return Consistency.SNAPSHOT
