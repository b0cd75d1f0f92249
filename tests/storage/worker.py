"""``python -m tests.storage.worker``: a process that handles orders of the store in MERCURY_STORE until it is ended.

For each order it takes the shared lock `GATE`, and inserts the order into the table ``taken`` of the store's database,
in the transaction that consumes the message.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from sqlalchemy import text

from mercury import Mercury, MessageContext, Service
from tests.storage.shop import Order

#: An advisory lock.
GATE = 4711

service = Service("shop")


@service.operation
def put(order: Order, context: MessageContext) -> None:
    connection = context.transaction.connection()
    connection.execute(text(f"select pg_advisory_xact_lock_shared({GATE})"))
    row = {"sequence": context.sequence, "id": order.id, "pid": os.getpid()}
    connection.execute(text("insert into taken (sequence, id, pid) values (:sequence, :id, :pid)"), row)


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    mercury = Mercury()
    mercury.add_service(service)
    with mercury:
        sys.stdout.write(f"ready {os.getpid()}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
