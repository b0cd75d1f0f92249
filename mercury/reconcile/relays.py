"""Finds where messages are that pass relays: in the store of the client, of each relay, or of the server.

A relay sends a message on under a MessageID of its own, and with that of the client as the correlation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from mercury.reconcile.places import Found, Places, Where
from mercury.reconcile.source import Consistency, Source
from mercury.reconcile.stores import SqlPlaces, opened_store, prepared

#: Places that say nothing about where a message is: a later part of the way may know.
_OPEN = frozenset({Where.IN_DOUBT, Where.UNKNOWN})


class PlacesOnTheWay:
    """The places of messages on a way of several parts.

    :param parts: the search in each part, from the client to the first relay, from there to the next one, and so on.
    """

    def __init__(self, parts: Sequence[SqlPlaces]) -> None:
        self._parts = parts
        waiting = [part.left_at_source() for part in parts[1:]]
        self.notes: Sequence[str] = (
            *(note for part in parts for note in part.notes),
            *(_note(number, *left) for number, left in enumerate(waiting, 1)),
        )

    def consistency(self) -> Consistency:
        found = [part.consistency() for part in self._parts]
        return next((each for each in (Consistency.NONE, Consistency.UNCHANGED) if each in found), Consistency.SNAPSHOT)

    def of(self, correlations: Sequence[str]) -> Mapping[str, Found]:
        first, *others = self._parts
        found = {name: self._named(0, place) for name, place in first.of(correlations).items()}
        ids = first.message_ids(correlations)
        for number, part in enumerate(others, 1):
            searched = {key: name for key, name in ids.items() if name not in found or found[name].where in _OPEN}
            for key, place in part.of(list(searched)).items():
                if place.where not in _OPEN or searched[key] not in found:
                    found[searched[key]] = self._named(number, place)
        return found

    def _named(self, part: int, place: Found) -> Found:
        """With the relay at which it is."""
        at = part + 1 if place.where is Where.IN_INVOKER_BUFFER else part
        if place.reason or place.where in _OPEN or not 0 < at < len(self._parts):
            return place
        return Found(place.where, f"at relay {at}")


@contextlib.contextmanager
def opened_on_the_way(
    source: str,
    destination: str,
    relays: Sequence[str],
    *,
    source_log: str | None = None,
    destination_log: str | None = None,
    stages: Sequence[str] = (),
    tables: Sequence[str] = (),
) -> Iterator[Places]:
    """As `mercury.reconcile.stores.opened`, for requests that pass relays.

    :param relays: the URLs of their stores, in the order of the way.
    """
    with contextlib.ExitStack() as stack:
        # In the order of the way: a message that is not in one any more has reached the next before that is read.
        stores = [stack.enter_context(opened_store(url)) for url in (source, *relays)]
        staged = [stack.enter_context(opened_store(url)) for url in stages]
        stores.append(stack.enter_context(opened_store(destination)))
        logs: list[Source | None] = [
            stack.enter_context(opened_store(log)) if log is not None else None
            for log in (source_log, *(None for _ in relays), destination_log)
        ]
        names = ["the source", *(f"relay {number}" for number, _ in enumerate(relays, 1)), "the destination"]
        gids = tuple(prepared((source, *relays, destination, *tables)))
        yield PlacesOnTheWay(
            [
                SqlPlaces(
                    *stores[number : number + 2],
                    complete=True,
                    source_log=logs[number],
                    destination_log=logs[number + 1],
                    gids=gids,
                    stages=staged if number == len(relays) else (),
                    sides=(names[number], names[number + 1]),
                )
                for number in range(len(stores) - 1)
            ]
        )


def _note(number: int, waiting: int, letters: int) -> str:
    if not waiting and not letters:
        return f"relay {number} has passed on everything that it has accepted"
    return f"relay {number}: {waiting:,} messages wait, {letters:,} dead letters"
