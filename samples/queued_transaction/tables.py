"""The tables of the two applications. Mercury's tables are separate."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Identity,
    MetaData,
    Numeric,
    Row,
    Table,
    Text,
    func,
    insert,
    select,
    update,
)

from samples.queued_transaction.messages import Confirmation, Order

CLIENT, SERVER = MetaData(), MetaData()


def _contents() -> Iterable[Column[Any]]:
    """The columns of an order, the same on both sides."""
    yield Column("customer", Text, nullable=False)
    yield Column("placed_on", Date, nullable=False)
    yield Column("amount", Numeric(12, 2), nullable=False)
    yield Column("express", Boolean)
    yield Column("deliver_after", DateTime(timezone=True))
    yield Column("note", Text)
    yield Column("body", Text, nullable=False)


ORDERS = Table(
    "orders",
    CLIENT,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    *_contents(),
    #: When the order was handed over to Mercury; null = not yet.
    Column("sent_at", DateTime(timezone=True), index=True),
)

#: Without a unique key on the order, so that an order that is delivered twice has two rows.
CONFIRMATIONS = Table(
    "confirmations",
    CLIENT,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("order_number", BigInteger, nullable=False),
    Column("arrival", BigInteger, nullable=False),
    Column("confirmed_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)

#: Without a unique key on the order, for the same reason.
RECEIVED_ORDERS = Table(
    "received_orders",
    SERVER,
    Column("arrival", BigInteger, Identity(), primary_key=True),
    Column("order_number", BigInteger, nullable=False),
    *_contents(),
    Column("received_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)


def take_unsent(connection: Connection) -> Order | None:
    """Mark the first order that is not sent yet as sent, and return it; None = there is none."""
    unsent = ORDERS.c.sent_at.is_(None)
    while (number := connection.scalar(select(func.min(ORDERS.c.number)).where(unsent))) is not None:
        taken = connection.execute(
            update(ORDERS)
            .where(ORDERS.c.number == number, unsent)
            .values(sent_at=func.clock_timestamp())
            .returning(ORDERS)
        ).one_or_none()
        if taken is not None:  # otherwise another transaction has just marked it
            return _order(taken)
    return None


def _order(row: Row[Any]) -> Order:
    values = dict(row._mapping)
    del values["sent_at"]
    return Order(**values)


def add_received(connection: Connection, order: Order) -> int:
    """Insert an order that has arrived; returns its arrival number."""
    values = {"order_number" if name == "number" else name: value for name, value in vars(order).items()}
    arrival: int = connection.execute(
        insert(RECEIVED_ORDERS).values(values).returning(RECEIVED_ORDERS.c.arrival)
    ).scalar_one()
    return arrival


def add_confirmation(connection: Connection, confirmation: Confirmation) -> None:
    connection.execute(insert(CONFIRMATIONS).values(order_number=confirmation.order, arrival=confirmation.arrival))
