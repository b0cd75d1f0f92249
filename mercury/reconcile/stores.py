"""Finds where messages are by SQL queries on Mercury's own tables.

The application's correlation gives the MessageID at the source: from the RMS's buffer while the message waits, from the
retained correlations of settled messages afterwards. The MessageID then finds the message in the destination's
InvokerBuffer and among the dead letters.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mercury.errors import ConfigurationError
from mercury.reconcile import source as sources
from mercury.reconcile.places import MEMORY, Found, NoPlaces, NothingLeft, Places, Where
from mercury.reconcile.source import Consistency, Source, held, shown, translating
from mercury.storage.records import InboundKind, OutboundKind
from mercury.storage.sql.schema import (
    DEAD_LETTER,
    DECISION,
    INVOKER_MESSAGE,
    RMS_KEPT,
    RMS_MESSAGE,
    STORE,
)
from mercury.storage.xa.names import STORE_BRANCH, prefix, read_gid

#: Values in the `in` list of one statement, within every database's limit.
BATCH = 500


@contextlib.contextmanager
def opened_store(url: str | None) -> Iterator[Source]:
    """A store, read in a snapshot that is taken now.

    :raises ConfigurationError: the database is not a Mercury store.
    :raises StorageError: it cannot be reached.
    """
    assert url is not None
    with held(url, STORE.name, None) as source:
        with translating(shown(url)):
            if not sa.inspect(source.connection).has_table(STORE.name):
                raise ConfigurationError(f"{shown(url)} is not a Mercury store: it has no table {STORE.name}")
        yield source


class SqlPlaces:
    """The places of messages between two stores.

    :param source: the sending store; ``None`` = it was lost with its process, or is not known.
    :param destination: the receiving store; ``None`` as for ``source``.
    :param complete: both stores are known, so that a message in neither of them is lost.
    :param responses: the messages are responses; they are found by the requests they answer.
    :param source_log: the decision log of the sending store; ``None`` = the store itself.
    :param destination_log: the decision log of the receiving store; ``None`` = the store itself.
    :param gids: the gids of the transactions that are prepared in the databases concerned (see `prepared`).
    :param stages: the stages of the destination, which take messages before its store.
    :param sides: what the two stores are called in reasons.
    """

    def __init__(
        self,
        source: Source | None,
        destination: Source | None,
        *,
        complete: bool,
        responses: bool = False,
        source_log: Source | None = None,
        destination_log: Source | None = None,
        gids: Iterable[str] = (),
        stages: Sequence[Source] = (),
        sides: tuple[str, str] = ("the source", "the destination"),
    ) -> None:
        self._source, self._destination = source, destination
        self._stages = tuple(stages)
        self._sides = sides
        self._complete, self._responses = complete, responses
        gids = frozenset(gids)
        at_destination = _unfinished(destination, destination_log, gids)
        at_source = _unfinished(source, source_log, gids)
        #: The rows of an unfinished two-phase commit are invisible: a missing row, or its message, may be one of them.
        self._in_doubt = bool(at_destination) or any(STORE_BRANCH in branches for branches in at_source)
        notes = []
        if at_destination:
            notes.append(f"{len(at_destination)} unfinished two-phase commits at {sides[1]}")
        if at_source:
            notes.append(
                f"{len(at_source)} unfinished two-phase commits at {sides[0]}: their rows may count as unexpected"
            )
        self.notes: Sequence[str] = tuple(notes)

    def consistency(self) -> Consistency:
        stores = (self._source, *self._stages, self._destination)
        found = [store.consistency() for store in stores if store is not None]
        return next((each for each in (Consistency.NONE, Consistency.UNCHANGED) if each in found), Consistency.SNAPSHOT)

    def of(self, correlations: Sequence[str]) -> Mapping[str, Found]:
        found: dict[str, Found] = {}
        for start in range(0, len(correlations), BATCH):
            found |= self._some(list(dict.fromkeys(correlations[start : start + BATCH])))
        return found

    def message_ids(self, correlations: Sequence[str]) -> dict[str, str]:
        """The correlations by the MessageIDs of their messages, as far as the source knows them."""
        found: dict[str, str] = {}
        for part in _parts(list(dict.fromkeys(correlations))):
            found |= self._requests(part)
        return found

    def left_at_source(self) -> tuple[int, int]:
        """How many messages wait in the source, received or to be sent, and how many dead letters it has."""
        inbound = sa.select(INVOKER_MESSAGE.c.position).where(INVOKER_MESSAGE.c.kind == InboundKind.MESSAGE.value)
        outbound = sa.select(RMS_MESSAGE.c.position).where(
            RMS_MESSAGE.c.kind == OutboundKind.MESSAGE.value, RMS_MESSAGE.c.acknowledged.is_(False)
        )
        rows = [_count(self._source, query) for query in (inbound, outbound, sa.select(DEAD_LETTER.c.id))]
        return rows[0] + rows[1], rows[2]

    def _some(self, correlations: list[str]) -> dict[str, Found]:
        requests = self._requests(correlations)
        ids: dict[str, list[str]] = defaultdict(list)
        for message_id, correlation in requests.items():
            ids[correlation].append(message_id)
        sent = self._sent(correlations, requests)
        arrived = self._arrived(self._destination, correlations, requests)
        staged: set[str] = set()
        for stage in self._stages:
            staged |= self._arrived(stage, correlations, requests)
        dead = self._dead(correlations, requests)
        found = {}
        for correlation in correlations:
            if correlation in arrived:
                found[correlation] = Found(Where.IN_INVOKER_BUFFER)
            elif correlation in staged:
                found[correlation] = Found(Where.IN_INVOKER_BUFFER, "in a stage")
            elif correlation in sent:
                found[correlation] = Found(sent[correlation])
            elif correlation in dead:
                found[correlation] = Found(Where.DEAD_LETTER, dead[correlation])
            elif self._in_doubt:
                found[correlation] = Found(Where.IN_DOUBT)
            elif not self._complete:
                found[correlation] = Found(Where.UNKNOWN, "only one of the two stores was named")
        return found

    def _requests(self, correlations: list[str]) -> dict[str, str]:
        """MessageID -> correlation of the applications' requests, from the store that sent the requests."""
        store = self._destination if self._responses else self._source
        found: dict[str, str] = {}
        for table in (RMS_MESSAGE, RMS_KEPT):
            query = sa.select(table.c.message_id, table.c.correlation).where(table.c.correlation.in_(correlations))
            found.update((message_id, correlation) for message_id, correlation in _rows(store, query))
        return found

    def _sent(self, correlations: list[str], requests: Mapping[str, str]) -> dict[str, Where]:
        """Correlations with a message in the source's buffer that is not acknowledged."""
        name = RMS_MESSAGE.c.relates_to if self._responses else RMS_MESSAGE.c.correlation
        keys = list(requests) if self._responses else correlations
        found: dict[str, Where] = {}
        for part in _parts(keys):
            query = sa.select(name, RMS_MESSAGE.c.attempts).where(
                name.in_(part), RMS_MESSAGE.c.kind == OutboundKind.MESSAGE.value, RMS_MESSAGE.c.acknowledged.is_(False)
            )
            for key, attempts in _rows(self._source, query):
                correlation = requests[key] if self._responses else key
                # If a correlation has several messages, a transmitted one counts before one that still waits.
                if attempts or correlation not in found:
                    found[correlation] = Where.IN_FLIGHT if attempts else Where.WAITING_IN_RMS
        return found

    def _arrived(self, store: Source | None, correlations: list[str], requests: Mapping[str, str]) -> set[str]:
        """Correlations with a message in the InvokerBuffer of the destination, or of a stage."""
        name = INVOKER_MESSAGE.c.relates_to if self._responses else INVOKER_MESSAGE.c.message_id
        message = INVOKER_MESSAGE.c.kind == InboundKind.MESSAGE.value
        found: set[str] = set()
        for part in _parts(list(requests)):
            query = sa.select(name).where(name.in_(part), message)
            found.update(requests[key] for (key,) in _rows(store, query))
        query = sa.select(INVOKER_MESSAGE.c.correlation).where(INVOKER_MESSAGE.c.correlation.in_(correlations), message)
        found.update(key for (key,) in _rows(store, query))
        return found

    def _dead(self, correlations: list[str], requests: Mapping[str, str]) -> dict[str, str]:
        """The reasons of dead letters on either side."""
        found: dict[str, str] = {}
        stages = ((stage, "a stage") for stage in self._stages)
        for store, side in ((self._destination, self._sides[1]), *stages, (self._source, self._sides[0])):
            query = sa.select(
                DEAD_LETTER.c.correlation, DEAD_LETTER.c.message_id, DEAD_LETTER.c.reason, DEAD_LETTER.c.certainty
            )
            keys: list[tuple[Any, list[str]]] = [(DEAD_LETTER.c.correlation, correlations)]
            keys += [(DEAD_LETTER.c.message_id, part) for part in _parts(list(requests))]
            for column, values in keys:
                for correlation, message_id, reason, certainty in _rows(store, query.where(column.in_(values))):
                    known = correlation if correlation in correlations else requests.get(message_id)
                    if known is not None:
                        found[known] = f"{reason} ({certainty}; at {side})"
        return found


@contextlib.contextmanager
def opened(
    source: str | None,
    destination: str | None,
    *,
    responses: bool,
    source_log: str | None = None,
    destination_log: str | None = None,
    stages: Sequence[str] = (),
    tables: Sequence[str] = (),
) -> Iterator[Places]:
    """The places of messages between two stores, in snapshots that are taken now and kept until the block ends.

    :param source: the URL of the sending store; ``memory:`` = it was lost with its process; ``None`` = not known.
    :param destination: the URL of the receiving store, likewise.
    :param responses: the messages are responses to requests that went the other way.
    :param source_log: the URL of the sending store's decision log; ``None`` = the store itself.
    :param destination_log: the URL of the receiving store's decision log; ``None`` = the store itself.
    :param stages: the URLs of the destination's stages.
    :param tables: the URLs of the applications' databases. A transaction that is prepared there is not finished,
        whichever log decides it.
    :raises StorageError: a store, a log or a database cannot be reached.
    :raises ConfigurationError: a URL is not that of a Mercury store.
    """
    if source is None and destination is None:
        yield NoPlaces()
        return
    if source in (None, MEMORY) and destination in (None, MEMORY):
        yield NothingLeft() if source == destination == MEMORY else NoPlaces()
        return
    with contextlib.ExitStack() as stack:
        # In the order of the way: a message that is not in one any more has reached the next before that is read.
        first = stack.enter_context(opened_store(source)) if source not in (None, MEMORY) else None
        staged = [stack.enter_context(opened_store(stage)) for stage in stages]
        second = stack.enter_context(opened_store(destination)) if destination not in (None, MEMORY) else None
        # The logs after the stores and before the table: the rows of a commit that is finished then are visible there.
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
            stages=staged,
        )


def prepared(urls: Iterable[str | None]) -> Iterator[str]:
    """The gids of the transactions that are prepared in these databases at the moment of the call.

    ``None`` and a store in memory have none.

    :raises StorageError: a database cannot be reached.
    """
    for url in {each for each in urls if each is not None and each != MEMORY}:
        yield from sources.prepared(url)


def _unfinished(store: Source | None, log: Source | None, gids: frozenset[str]) -> list[set[str]]:
    """The databases of each two-phase commit that is not finished.

    A commit is not finished if the store or its log has its decision and not its end, or if it is prepared in a
    database and the log that decides it was not named.
    """
    query = sa.select(DECISION.c.gtrid, DECISION.c.branches).where(DECISION.c.outcome == "commit")
    found: dict[str, set[str]] = {gtrid: set(json.loads(branches)) for gtrid, branches in _rows(store, query)}
    for (known,) in _rows(store, sa.select(STORE.c.id)):  # several stores may share a log
        own = query.where(DECISION.c.gtrid.startswith(prefix(known), autoescape=True))
        found |= {gtrid: set(json.loads(branches)) for gtrid, branches in _rows(log, own)}
        for gtrid, resource in filter(None, map(read_gid, gids)):
            if gtrid.store == known:
                found.setdefault(str(gtrid), set()).add(resource)
    return list(found.values())


def _rows(store: Source | None, query: sa.Select[Any]) -> Iterable[Sequence[Any]]:
    if store is None:
        return []
    with translating(shown(store.place.url)):
        return store.connection.execute(query).all()


def _count(store: Source | None, query: sa.Select[Any]) -> int:
    ((count,),) = _rows(store, sa.select(sa.func.count()).select_from(query.subquery())) or ((0,),)
    return int(count)


def _parts(values: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
