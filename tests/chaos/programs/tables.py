"""The tables of the two applications, without unique keys, so that repeated rows are stored and counted."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Engine, Identity, Index, MetaData, Table, Text, false

METADATA = MetaData()

#: The client's orders.
ORDERS = Table(
    "orders",
    METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("item", Text, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("sent", Boolean(create_constraint=False), nullable=False, server_default=false()),
    #: The attempt that has marked the order as sent; only in a soak.
    Column("attempt", Text),
)
Index("orders_waiting", ORDERS.c.id, postgresql_where=~ORDERS.c.sent)

#: The orders that the server's handler has received, in their order.
RECEIVED_ORDERS = Table(
    "received_orders",
    METADATA,
    Column("arrival", BigInteger, Identity(), primary_key=True),
    Column("id", BigInteger, nullable=False),
    Column("item", Text, nullable=False),
    Column("quantity", BigInteger, nullable=False),
)

#: The confirmations that the client's callback has received.
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
    """``count`` orders, numbered from ``first``."""
    return [
        {"id": number, "item": ITEMS[number % len(ITEMS)], "quantity": number * 7 % 11}
        for number in range(first, first + count)
    ]


def make(engine: Engine, count: int) -> None:
    """Create the tables, with ``count`` orders to send."""
    METADATA.create_all(engine)
    with engine.begin() as connection:
        if count:
            connection.execute(ORDERS.insert(), orders(count))
