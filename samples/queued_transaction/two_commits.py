"""The wrong way: the application commits, then Mercury commits, and the process may be killed in between.

On the client, an order is then marked as sent although no message is stored: it is lost. On the server, the order's row
is stored and its message is delivered again: it is repeated. Every program that updates its database and sends a
message in two steps has this defect.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from sqlalchemy import create_engine

from mercury import Mercury, Sender, Service
from samples.queued_transaction.messages import Confirmation, Order
from samples.queued_transaction.tables import add_confirmation, add_received, take_unsent


class CrashPoint:
    """The point between two commits. After SIGUSR1 the process kills itself when it reaches this point."""

    def __init__(self) -> None:
        self._armed = False
        signal.signal(signal.SIGUSR1, self._arm)

    def here(self) -> None:
        if self._armed:
            os.kill(os.getpid(), signal.SIGKILL)

    def _arm(self, *_: object) -> None:
        self._armed = True


class Client:
    def __init__(self, database: str) -> None:
        self.engine = create_engine(database)
        self.between_commits = CrashPoint()

    def hand_over_next(
        self, send: Callable[[Sender, Order, str], None], _mercury: Mercury, orders: Sender, mode: str
    ) -> bool:
        with self.engine.begin() as connection:
            order = take_unsent(connection)
        if order is None:
            return False
        self.between_commits.here()
        send(orders, order, mode)  # a transaction of its own
        return True

    def confirm(self, confirmation: Confirmation) -> None:
        with self.engine.begin() as connection:
            add_confirmation(connection, confirmation)


def service(database: str) -> Service:
    engine = create_engine(database)
    between_commits = CrashPoint()
    orders = Service("orders")

    @orders.operation("TakeOrder")
    def take_order(order: Order) -> None:
        receive(order)

    @orders.operation("ConfirmOrder")
    def confirm_order(order: Order) -> Confirmation:
        return Confirmation(order.number, arrival=receive(order))

    def receive(order: Order) -> int:
        with engine.begin() as connection:
            arrival = add_received(connection, order)
        between_commits.here()  # Mercury commits the delivery of the message after the handler has returned
        return arrival

    return orders
