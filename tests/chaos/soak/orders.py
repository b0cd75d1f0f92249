"""The orders: rows that the driver makes in the client's database, and what became of them at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

from tests.chaos.databases import Ground, connect
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
#: So many clients have marked an order as sent.
SENDERS = "select count(distinct split_part(attempt, '-', 1)) from orders"
#: Rows of one statement at most.
MOST = 500


@dataclass(slots=True)
class Progress:
    """How far the orders have come. What could not be seen is as it was."""

    made: int = 0
    sent: int = 0
    received: int = 0
    confirmed: int = 0

    def backlog(self, mode: Mode) -> int:
        return self.made - (self.confirmed if mode is Mode.IN_OUT else self.received)


class Orders:
    """Makes orders, not faster than they are told to, while not too many are on their way.

    :param rate: orders a second.
    :param most: on their way at once.
    """

    def __init__(self, ground: Ground, mode: Mode, rate: float, most: int) -> None:
        self._ground = ground
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
        """Make so many at once."""
        rows = tables.orders(count, self.progress.made + 1)
        try:
            columns = [[row[name] for row in rows] for name in ("id", "item", "quantity")]
            self._connection(self._ground.client.app).execute(INSERT, columns)
            self.progress.made += count
        except psycopg.OperationalError:
            self._lost(self._ground.client.app)  # whether it was committed or not: the next time makes the same

    def turn(self) -> None:
        """Make those that are due now."""
        due = (time.monotonic() - self._begun) * self._rate
        # What could not be made in time is not made up for: there would be a flood after each fault.
        count = min(MOST, int(due - self._due_before), self._most - self.progress.backlog(self._mode))
        if due - self._due_before >= 1:
            self._due_before = due
        if count > 0:
            self.make(count)

    def look(self) -> Progress:
        """See how far they are."""
        client, server = self._ground.client.app, self._ground.server.app
        seen = self.progress
        seen.sent = max(seen.sent, seen.made - self._count(client, UNSENT, seen.made - seen.sent))
        seen.received = self._count(server, TAKEN, seen.received)
        seen.confirmed = self._count(client, ANSWERED, seen.confirmed)
        return seen

    def difference(self) -> Difference:
        """What is wrong with the rows: each key has an order of its own."""
        sent = self._rows(self._ground.client.app, ORDERS)
        found = compare(sent, self._rows(self._ground.server.app, RECEIVED), by_key)
        if self._mode is Mode.IN_OUT:
            found += compare(sent, self._rows(self._ground.client.app, CONFIRMED), by_key_and_sequence)
        return found

    def attempts(self) -> set[str]:
        """The attempts that were committed."""
        return {attempt for (attempt,) in self._rows(self._ground.client.app, ATTEMPTS)}

    def senders(self) -> int:
        """How many processes have sent orders."""
        return int(self._rows(self._ground.client.app, SENDERS)[0][0])

    # --- within ----------------------------------------------------------------------------------------------------

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
    """Orders have the order of their key, which `Stream` chooses by their numbers."""
    return number % KEYS


def by_key_and_sequence(number: int) -> object:
    """Responses have that of the sequence of their requests."""
    return number % KEYS, (number - 1) // CLOSE_EVERY
