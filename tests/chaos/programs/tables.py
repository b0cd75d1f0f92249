"""The tables of the two applications. No key forbids a repetition: it has to be seen."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Engine, Identity, Index, MetaData, Table, Text, false

METADATA = MetaData()

#: The client's: what it has to send.
ORDERS = Table(
    "orders",
    METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("item", Text, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("sent", Boolean(create_constraint=False), nullable=False, server_default=false()),
    #: Which attempt has marked it as sent, where that is noted.
    Column("attempt", Text),
)
Index("orders_waiting", ORDERS.c.id, postgresql_where=~ORDERS.c.sent)

#: The server's: what its handler was given, in the order in which it was.
RECEIVED_ORDERS = Table(
    "received_orders",
    METADATA,
    Column("arrival", BigInteger, Identity(), primary_key=True),
    Column("id", BigInteger, nullable=False),
    Column("item", Text, nullable=False),
    Column("quantity", BigInteger, nullable=False),
)

#: The client's: what its callback was given.
CONFIRMATIONS = Table(
    "confirmations",
    METADATA,
    Column("arrival", BigInteger, Identity(), primary_key=True),
    Column("id", BigInteger, nullable=False),
    Column("item", Text, nullable=False),
    Column("quantity", BigInteger, nullable=False),
)

ITEMS = ("tea", "coffee", "sugar", "salt", "<&> 'ß'")


def orders(count: int, first: int = 1) -> list[dict[str, int | str]]:
    """So many orders, from a number on."""
    return [
        {"id": number, "item": ITEMS[number % len(ITEMS)], "quantity": number * 7 % 11}
        for number in range(first, first + count)
    ]


def make(engine: Engine, count: int) -> None:
    """Make the tables, with so many orders to be sent."""
    METADATA.create_all(engine)
    with engine.begin() as connection:
        if count:
            connection.execute(ORDERS.insert(), orders(count))
