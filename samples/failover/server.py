"""Handles orders: ``mercury serve samples.failover.server:app --role active-standby``, twice on one store."""

import os

from sqlalchemy import text

from mercury import Mercury, MessageContext, Service
from samples.failover.messages import Order

service = Service("orders")


@service.operation
def put(order: Order, context: MessageContext) -> None:
    # The row is written in the transaction that consumes the message: both or neither.
    row = {"number": order.number, "pid": os.getpid()}
    connection = context.transaction.connection()
    connection.execute(text("insert into handled (number, pid) values (:number, :pid)"), row)


app = Mercury().app(service)
