"""The orders: rows that the driver inserts into the client's database, and their comparison at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

from tests.chaos.databases import ExperimentDatabases, connect
from tests.chaos.kinds import Mode
from tests.chaos.programs import tables
from tests.chaos.programs.stream import CLOSE_EVERY
from tests.chaos.soak.stage import KEYS
from tests.chaos.verdict import CONFIRMED, ORDERS, RECEIVED, Difference, Row, compare

INSERT = """
    insert into orders (id, item, quantity)
    select * from unnest(%s::bigint[], %s::text[], %s::bigint[]) on conflict do nothing
"""
MADE, UNSENT = "select count(*) from orders", "select count(*) from orders where not sent"
TAKEN = "select count(*) from received_orders"
ANSWERED = "select count(*) from confirmations"
ATTEMPTS = "select attempt from orders where attempt is not null"
#: Counts the client processes that have marked an order as sent.
SENDERS = "select count(distinct split_part(attempt, '-', 1)) from orders"
#: The most rows in one statement.
MOST = 500


@dataclass(slots=True)
class Progress:
    """The progress of the orders. A figure whose database is down keeps its last value."""

    made: int = 0
    sent: int = 0
    received: int = 0
    confirmed: int = 0

    def backlog(self, mode: Mode) -> int:
        return self.made - (self.confirmed if mode is Mode.IN_OUT else self.received)


class Orders:
    """Inserts orders at a rate, while not too many are in transit.

    :param rate: orders a second.
    :param most: the most orders in transit.
    """

    def __init__(self, databases: ExperimentDatabases, mode: Mode, rate: float, most: int) -> None:
        self._databases = databases
        self._mode = mode
        self._rate = rate
        self._most = most
        self._begun = time.monotonic()
        self._due_before = 0.0
        self._connections: dict[str, psycopg.Connection] = {}
        self.progress = Progress()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def make(self, count: int) -> None:
        """Insert ``count`` orders now."""
        rows = tables.orders(count, self.progress.made + 1)
        try:
            columns = [[row[name] for row in rows] for name in ("id", "item", "quantity")]
            self._connection(self._databases.client.app).execute(INSERT, columns)
            self.progress.made += count
        except psycopg.OperationalError:
            self._lost(self._databases.client.app)  # the next call inserts the same rows, whether or not they exist

    def turn(self) -> None:
        """Insert the orders that are due now."""
        due = (time.monotonic() - self._begun) * self._rate
        # Orders that were due during a fault are skipped; otherwise many would come at once after each fault.
        count = min(MOST, int(due - self._due_before), self._most - self.progress.backlog(self._mode))
        if due - self._due_before >= 1:
            self._due_before = due
        if count > 0:
            self.make(count)

    def update(self) -> Progress:
        """Read the progress."""
        client, server = self._databases.client.app, self._databases.server.app
        seen = self.progress
        seen.sent = max(seen.sent, seen.made - self._count(client, UNSENT, seen.made - seen.sent))
        seen.received = self._count(server, TAKEN, seen.received)
        seen.confirmed = self._count(client, ANSWERED, seen.confirmed)
        return seen

    def difference(self) -> Difference:
        """The differences of the rows; order is compared within each key."""
        sent = self._rows(self._databases.client.app, ORDERS)
        found = compare(sent, self._rows(self._databases.server.app, RECEIVED), by_key)
        if self._mode is Mode.IN_OUT:
            found += compare(sent, self._rows(self._databases.client.app, CONFIRMED), by_key_and_sequence)
        return found

    def attempts(self) -> set[str]:
        """The attempts whose transactions were committed."""
        return {attempt for (attempt,) in self._rows(self._databases.client.app, ATTEMPTS)}

    def senders(self) -> int:
        """The number of processes that have sent orders."""
        return int(self._rows(self._databases.client.app, SENDERS)[0][0])

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _count(self, url: str, query: str, otherwise: int) -> int:
        try:
            return int(self._rows(url, query)[0][0])
        except psycopg.OperationalError:
            self._lost(url)
            return otherwise

    def _rows(self, url: str, query: str) -> list[Row]:
        return self._connection(url).execute(query).fetchall()

    def _connection(self, url: str) -> psycopg.Connection:
        if url not in self._connections:
            self._connections[url] = connect(url)
        return self._connections[url]

    def _lost(self, url: str) -> None:
        connection = self._connections.pop(url, None)
        if connection is not None:
            connection.close()


def by_key(number: int) -> object:
    """Orders of the same key are in order; `Stream` derives the key from the order's number."""
    return number % KEYS


def by_key_and_sequence(number: int) -> object:
    """Responses to requests of the same sequence are in order."""
    return number % KEYS, (number - 1) // CLOSE_EVERY
