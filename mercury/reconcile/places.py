"""Where a message that has not arrived is now, told by the stores in between."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.reconcile.source import Consistency


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
    #: Nowhere, while a two-phase commit of the destination is not finished: its rows can not be seen yet.
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


@contextlib.contextmanager
def opened(
    source: str | None,
    destination: str | None,
    *,
    responses: bool,
    source_log: str | None = None,
    destination_log: str | None = None,
    tables: Sequence[str] = (),
) -> Iterator[Places]:
    """The places of messages between two stores, at the present moment, until the block ends.

    :param source: the URL of the store that sends; ``memory:`` = gone with its process; ``None`` = not known.
    :param destination: that of the store that receives.
    :param responses: the messages are responses to requests that went the other way.
    :param source_log: the URL of the decision log of the store that sends, where it has one of its own.
    :param destination_log: that of the store that receives.
    :param tables: the URLs of the applications' databases: a transaction that is prepared there is not finished,
        whichever log decides it.
    :raises StorageError: a store, a log or a database can not be reached.
    :raises ConfigurationError: a URL names no store.
    """
    from mercury.reconcile.stores import SqlPlaces, opened_store, prepared

    if source is None and destination is None:
        yield NoPlaces()
        return
    if source in (None, MEMORY) and destination in (None, MEMORY):
        yield NothingLeft() if source == destination == MEMORY else NoPlaces()
        return
    with contextlib.ExitStack() as stack:
        # The source first: what has left it by then has reached the destination when that is looked at.
        first = stack.enter_context(opened_store(source)) if source not in (None, MEMORY) else None
        second = stack.enter_context(opened_store(destination)) if destination not in (None, MEMORY) else None
        # The logs after the stores and before the table: what is finished there by then is seen in the table.
        logs = [
            stack.enter_context(opened_store(log)) if log is not None and store is not None else None
            for log, store in ((source_log, first), (destination_log, second))
        ]
        yield SqlPlaces(
            first,
            second,
            complete=source is not None and destination is not None,
            responses=responses,
            source_log=logs[0],
            destination_log=logs[1],
            gids=prepared((source, destination, *tables)),
        )


#: A store that is lost with its process.
MEMORY = "memory:"
