"""The client: every row of ``orders`` becomes a row of the server's ``received_orders``, once and in order.

`hand_over_next` and `confirm` are the essential functions; the rest is the program around them. The client may be
killed at any moment. After a restart it hands over the remaining rows, and Mercury sends the stored messages.

Settings: ``MERCURY_STORE`` is Mercury's store, ``ORDERS_DATABASE`` the application's database, which may be the
store's.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

from sqlalchemy.exc import OperationalError

from mercury import Mercury, Sender, Transaction
from mercury.errors import OutcomeUnknown, TransientStorageError
from samples.queued_transaction import two_commits
from samples.queued_transaction.messages import Confirmation, Order
from samples.queued_transaction.tables import add_confirmation, take_unsent

log = logging.getLogger("client")

#: The name of the callback for responses, stored with each request, so that it is found after a restart too.
CONFIRM = "confirm"
#: Seconds between two polls of the table, before a retry, and of waiting for earlier messages.
POLL_INTERVAL, RETRY_DELAY, PATIENCE = 0.02, 0.2, 3.0


def hand_over_next(mercury: Mercury, orders: Sender, mode: str) -> bool:
    """One transaction marks the next order as sent and stores its message: both, or neither.

    :returns: whether there was an order to hand over.
    """
    with mercury.transaction() as tx:
        order = take_unsent(tx.connection("app"))
        if order is None:
            return False
        send(orders, order, mode, tx)
    return True


def send(orders: Sender, order: Order, mode: str, tx: Transaction | None = None) -> None:
    # With the correlation `mercury reconcile` finds the message of a row in the stores.
    correlation = f"order:{order.number}"
    if mode == "in-out":
        orders.request_with_callback(order, CONFIRM, operation="ConfirmOrder", correlation=correlation, tx=tx)
    else:
        orders.send(order, operation="TakeOrder", correlation=correlation, tx=tx)


def confirm(confirmation: Confirmation, tx: Transaction) -> None:
    """Consume a response: inserting the row and settling the request are one transaction."""
    add_confirmation(tx.connection("app"), confirmation)


# --- the program ---------------------------------------------------------------------------------------------------

parser = argparse.ArgumentParser(prog="python -m samples.queued_transaction.client", description=__doc__)
parser.add_argument("url", help="the URL of the server's service")
parser.add_argument("--address", help="URL for responses to this client; default: where it listens")
parser.add_argument("--mode", choices=("in-only", "in-out"), default="in-only")
parser.add_argument("--pause", type=float, default=0.0, help="seconds between two orders")
parser.add_argument("--ahead", type=int, default=1000, help="the most unacknowledged messages before the client waits")
parser.add_argument("--two-commits", action="store_true", help="the wrong way with two commits: see two_commits.py")


def main() -> None:
    options = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    database = os.environ["ORDERS_DATABASE"]
    hand_over: Callable[[Mercury, Sender, str], bool]
    if options.two_commits:
        mercury, wrong = Mercury(address=options.address), two_commits.Client(database)
        mercury.callback(CONFIRM)(wrong.confirm)
        hand_over = partial(wrong.hand_over_next, send)
    else:
        mercury = Mercury(address=options.address, resources={"app": database})
        mercury.callback(CONFIRM)(confirm)
        hand_over = hand_over_next
    logging.basicConfig(level=mercury.settings.log.level.upper(), format="%(asctime)s %(name)s: %(message)s")
    report(url=mercury.listen())
    with mercury:
        orders = mercury.to(options.url, key="orders")
        while not ended.wait(options.pause):
            wait_for_room(orders, options.ahead, ended)
            try:
                if not hand_over(mercury, orders, options.mode):
                    break
            except (TransientStorageError, OperationalError, OutcomeUnknown) as error:
                # A database is unreachable, or another transaction has locked the row. The table still says which
                # orders are sent, so the loop continues.
                log.warning("will retry: %s", error)
                ended.wait(RETRY_DELAY)
        else:
            return
        orders.close()  # the sequence ends when all messages are acknowledged
        while not orders.wait(timeout=POLL_INTERVAL).settled:
            if ended.is_set():
                return
        report(done=True)
        ended.wait()  # keep receiving late responses until SIGTERM


def wait_for_room(orders: Sender, ahead: int, ended: threading.Event) -> None:
    """Wait, for `PATIENCE` seconds at most, until fewer than ``ahead`` messages are unacknowledged."""
    until = time.monotonic() + PATIENCE
    while orders.pending >= ahead and time.monotonic() < until and not ended.wait(POLL_INTERVAL):
        pass


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
