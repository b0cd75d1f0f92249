"""The server: every order that arrives becomes a row of ``received_orders``.

`take_order` and `confirm_order` are the essential functions. ``mercury serve samples.queued_transaction.server:app``
runs them.

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
    """Insert the row. The row and the consumption of the message are one transaction: both, or neither."""
    add_received(tx.connection("app"), order)


@service.operation("ConfirmOrder")
def confirm_order(order: Order, tx: Transaction) -> Confirmation:
    """Insert the row and return a response, which is stored in the same transaction."""
    return Confirmation(order.number, arrival=add_received(tx.connection("app"), order))


def app() -> FastAPI:
    return Mercury(resources={"app": os.environ["ORDERS_DATABASE"]}).app(service)


def two_commits_app() -> FastAPI:
    """The wrong way: see two_commits.py."""
    return Mercury().app(two_commits.service(os.environ["ORDERS_DATABASE"]))
