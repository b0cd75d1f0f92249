"""Reads the databases of an experiment: whether it is over, and which rows are lost, repeated or out of order."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import psycopg

from tests.chaos.databases import MEMORY, ExperimentDatabases, connect
from tests.chaos.kinds import Mode
from tests.chaos.programs.client import CLOSE_EVERY

Row = tuple[Any, ...]

DECISIONS = "select count(*) from mercury_decision where outcome = 'commit'"
#: Rows that a store must not have at the end: their description and a statement that counts them.
UNFINISHED = {
    "source sequences have not ended": "select count(*) from mercury_rms_sequence where ended_at is null",
    "destination sequences have not ended": "select count(*) from mercury_rmd_sequence where ended_at is null",
    "messages wait to be sent": "select count(*) from mercury_rms_message",
    "messages wait for the application": "select count(*) from mercury_invoker_message",
    "decisions to commit are not forgotten": DECISIONS,
}
HEURISTIC = "select gid || ' is ' || found || ', and not ' || decided from mercury_heuristic"
DEAD = "select reason from mercury_dead_letter"
PREPARED = "select gid from pg_prepared_xacts where database = any(%s)"
ORDERS = "select id, item, quantity from orders order by id"
UNSENT = "select count(*) from orders where not sent"
RECEIVED = "select id, item, quantity from received_orders order by arrival"
CONFIRMED = "select id, item, quantity from confirmations order by arrival"


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between the rows that were sent and those that arrived."""

    lost: int = 0
    repeated: int = 0
    #: Rows that arrived after one that was sent later.
    out_of_order: int = 0
    #: Rows that arrived with a content that was not sent.
    altered: int = 0

    def __add__(self, other: Difference) -> Difference:
        return Difference(
            self.lost + other.lost,
            self.repeated + other.repeated,
            self.out_of_order + other.out_of_order,
            self.altered + other.altered,
        )

    def __bool__(self) -> bool:
        return bool(self.lost or self.repeated or self.out_of_order or self.altered)

    def __str__(self) -> str:
        counts = (
            (self.lost, "lost"),
            (self.repeated, "repeated"),
            (self.out_of_order, "out of order"),
            (self.altered, "altered"),
        )
        return ", ".join(f"{count} {what}" for count, what in counts if count)


def one_order(number: int) -> object:
    """All rows are in one order."""
    return ""


def by_sequence(number: int) -> object:
    """Rows of the same sequence are in order: responses of different sequences are not ordered."""
    return (number - 1) // CLOSE_EVERY


def compare(sent: Sequence[Row], arrived: Sequence[Row], together: Callable[[int], object] = one_order) -> Difference:
    """Compare row by row: each row that was sent must have arrived once, in the same order.

    :param sent: rows whose first column is their number, ascending.
    :param together: returns a group for a row's number; order is compared within groups.
    """
    known, numbers = set(sent), {row[0] for row in sent}
    counts = Counter(row[0] for row in arrived)
    first = list(dict.fromkeys(row[0] for row in arrived if row[0] in numbers))
    late, highest = 0, dict[object, int]()
    for number in first:
        group = together(number)
        late += number < highest.get(group, 0)
        highest[group] = max(highest.get(group, 0), number)
    return Difference(
        lost=sum(number not in counts for number in numbers),
        repeated=sum(count - 1 for number, count in counts.items() if number in numbers),
        out_of_order=late,
        altered=sum(row not in known for row in arrived),
    )


class Witness:
    """Queries the databases of an experiment; tolerates that their server is down at times."""

    def __init__(self, databases: ExperimentDatabases, mode: Mode) -> None:
        self._databases = databases
        self._mode = mode
        self._connections: dict[str, psycopg.Connection] = {}

    def __enter__(self) -> Witness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- is it over? -----------------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Whether everything has arrived and every sequence has ended; ``False`` also while the server is down."""
        with contextlib.suppress(psycopg.OperationalError):
            return self._all_there() and not self.left()
        return False

    def _all_there(self) -> bool:
        wanted = self._count(self._databases.client.app, "select count(*) from orders")
        there = [self._count(self._databases.server.app, "select count(*) from received_orders")]
        if self._mode is Mode.IN_OUT:
            there.append(self._count(self._databases.client.app, "select count(*) from confirmations"))
        return min(there) >= wanted and not self._count(self._databases.client.app, UNSENT)

    def left(self) -> list[str]:
        """The unfinished work, as text."""
        left = []
        for name, urls in (("client", self._databases.client), ("server", self._databases.server)):
            if urls.store != MEMORY:
                counts = {what: self._count(urls.store, query) for what, query in UNFINISHED.items()}
                left += [f"{name}: {count} {what}" for what, count in counts.items() if count]
            if urls.log and self._count(urls.log, DECISIONS):
                left.append(f"{name}: decisions to commit are not forgotten in the log")
        prepared = self.prepared()
        return left + ([f"{len(prepared)} transactions are prepared"] if prepared else [])

    # --- results ---------------------------------------------------------------------------------------------------

    def difference(self) -> Difference:
        """The differences of the rows, in both directions."""
        sent = self._rows(self._databases.client.app, ORDERS)
        found = compare(sent, self._rows(self._databases.server.app, RECEIVED))
        if self._mode is Mode.IN_OUT:
            found += compare(sent, self._rows(self._databases.client.app, CONFIRMED), by_sequence)
        return found

    def prepared(self) -> list[str]:
        """The prepared branches that are neither committed nor rolled back."""
        sides = (self._databases.client.app, self._databases.server.app)  # they may be on two servers
        rows = [row for url in sides for row in self._rows(url, PREPARED, (self._databases.names,))]
        return list(dict.fromkeys(gid for (gid,) in rows))

    def errors(self) -> list[str]:
        """Other violations: dead letters, and heuristic outcomes."""
        sides = (self._databases.client, self._databases.server)
        stores = [urls.store for urls in sides if urls.store != MEMORY]
        found = [f"dead letter: {reason}" for url in stores for (reason,) in self._rows(url, DEAD)]
        logs = stores + [urls.log for urls in sides if urls.log]
        return found + [f"heuristic outcome: {what}" for url in logs for (what,) in self._rows(url, HEURISTIC)]

    def advance(self) -> object:
        """A value that changes while the experiment makes progress, up to the end of the sequences."""
        with contextlib.suppress(psycopg.OperationalError):
            return self.progress(), self.left()
        return None

    def progress(self) -> tuple[int, ...]:
        """Numbers of sent and received rows, which change while the experiment makes progress."""
        client, server = self._databases.client.app, self._databases.server.app
        counts = [self._count(client, UNSENT), self._count(client, "select count(*) from confirmations")]
        return (*counts, self._count(server, "select count(*) from received_orders"))

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _count(self, url: str, query: str) -> int:
        return int(self._rows(url, query)[0][0])

    def _rows(self, url: str, query: str, parameters: Iterable[Any] = ()) -> list[Row]:
        connection = self._connections.get(url)
        if connection is None or connection.broken:
            connection = self._connections[url] = connect(url)
        try:
            return connection.execute(query, tuple(parameters) or None).fetchall()
        except psycopg.OperationalError:
            self._connections.pop(url).close()
            raise
