"""The application of a node that also sends: ``mercury serve node:app``, with any version of Mercury.

Its store is a PostgreSQL database with the tables ``taken`` and ``answered``. The handler inserts each order into the
first one, and the callback inserts each response into the other one, in the transaction that consumes the message. It
imports nothing but Mercury and its dependencies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from sqlalchemy import text

import mercury as package
from mercury import Mercury, MessageContext, Service

mercury = Mercury()
service = Service("orders")
ANSWERED = text("insert into answered (id) values (:id)")
TAKEN = text("insert into taken (key, id, pid) values (:key, :id, :pid)")


@dataclass(frozen=True)
class Order:
    key: str
    id: int


@dataclass(frozen=True)
class Taken:
    id: int


def take(order: Order, context: MessageContext) -> None:
    row = {"key": order.key, "id": order.id, "pid": os.getpid()}
    context.transaction.connection().execute(TAKEN, row)


@service.operation
def put(order: Order, context: MessageContext) -> None:
    take(order, context)


@dataclass(frozen=True)
class Ask:
    key: str
    id: int


@service.operation
def ask(question: Ask, context: MessageContext) -> Taken:
    take(Order(question.key, question.id), context)
    return Taken(question.id)


app = mercury.app(service)


@app.post("/send")
def send(to: str, key: str, first: int, count: int) -> int:
    """Send orders in one transaction."""
    sender = mercury.to(f"{to}/services/orders", key=key)
    with mercury.transaction() as tx:
        for number in range(first, first + count):
            sender.send(Order(key, number), tx=tx)
    return count


@mercury.callback("answered")
def answered(answer: Taken, context: MessageContext) -> None:
    context.transaction.connection().execute(ANSWERED, {"id": answer.id})


@app.post("/ask")
def ask_for(to: str, key: str, number: int) -> int:
    """Send a request. Its callback is called in any process on the store."""
    mercury.to(f"{to}/services/orders", key=key).request_with_callback(Ask(key, number), "answered")
    return number


@app.get("/version")
def version() -> str:
    return package.__file__
