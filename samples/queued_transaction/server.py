"""The server: every order that arrives becomes a row of ``received_orders``.

`take_order` and `confirm_order` are all there is to it. ``mercury serve samples.queued_transaction.server:app`` runs
them.

Settings: ``MERCURY_STORE`` is Mercury's store, ``ORDERS_DATABASE`` the application's database, which may be the
store's.
"""

from __future__ import annotations

import os

from fastapi import FastAPI

from mercury import Mercury, Service, Transaction
from samples.queued_transaction import two_commits
from samples.queued_transaction.messages import Confirmation, Order
from samples.queued_transaction.tables import add_received

service = Service("orders")


@service.operation("TakeOrder")
def take_order(order: Order, tx: Transaction) -> None:
    """The row and the end of the message are one transaction: both, or neither."""
    add_received(tx.connection("app"), order)


@service.operation("ConfirmOrder")
def confirm_order(order: Order, tx: Transaction) -> Confirmation:
    """The same with an answer, which is stored in that transaction too."""
    return Confirmation(order.number, arrival=add_received(tx.connection("app"), order))


def app() -> FastAPI:
    return Mercury(resources={"app": os.environ["ORDERS_DATABASE"]}).app(service)


def two_commits_app() -> FastAPI:
    """How it should not be done."""
    return Mercury().app(two_commits.service(os.environ["ORDERS_DATABASE"]))
