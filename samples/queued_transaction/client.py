"""The client: every row of ``orders`` becomes a row of the server's ``received_orders``, once and in order.

`hand_over_next` and `confirm` are all there is to it. It may be killed at any moment and started again: what it has not
handed over is handed over then, what it has handed over is sent by Mercury.

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

from mercury import Mercury, Sender, Transaction
from mercury.errors import TransientStorageError
from samples.queued_transaction import two_commits
from samples.queued_transaction.messages import Confirmation, Order
from samples.queued_transaction.tables import add_confirmation, take_unsent

log = logging.getLogger("client")

#: Under this name the responses find their callback, after a restart too.
CONFIRM = "confirm"
#: Orders that may wait to arrive. Mercury would take a million; here they are to arrive while others are handed over.
AHEAD = 48
#: Seconds.
LOOK, AGAIN = 0.02, 0.2


def hand_over_next(mercury: Mercury, orders: Sender, mode: str) -> bool:
    """One transaction marks the next order as sent and stores its message: both, or neither.

    :returns: whether there was one.
    """
    with mercury.transaction() as tx:
        order = take_unsent(tx.connection("app"))
        if order is None:
            return False
        send(orders, order, mode, tx)
    return True


def send(orders: Sender, order: Order, mode: str, tx: Transaction | None = None) -> None:
    # By its correlation a row finds its message, wherever that is: `mercury reconcile` asks for it.
    correlation = f"order:{order.number}"
    if mode == "in-out":
        orders.request_with_callback(order, CONFIRM, operation="ConfirmOrder", correlation=correlation, tx=tx)
    else:
        orders.send(order, operation="TakeOrder", correlation=correlation, tx=tx)


def confirm(confirmation: Confirmation, tx: Transaction) -> None:
    """Consume a response: the row and the end of the request are one transaction."""
    add_confirmation(tx.connection("app"), confirmation)


# --- the program ---------------------------------------------------------------------------------------------------

parser = argparse.ArgumentParser(prog="python -m samples.queued_transaction.client", description=__doc__)
parser.add_argument("url", help="the URL of the server's service")
parser.add_argument("--address", help="where the server reaches this client; left out, where it listens")
parser.add_argument("--mode", choices=("in-only", "in-out"), default="in-only")
parser.add_argument("--pause", type=float, default=0.0, help="seconds between two orders")
parser.add_argument("--two-commits", action="store_true", help="how it should not be done: see two_commits.py")


def main() -> None:
    options = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    database = os.environ["ORDERS_DATABASE"]
    if options.two_commits:
        mercury = Mercury(address=options.address)
        wrong = two_commits.Client(database)
        mercury.callback(CONFIRM)(wrong.confirm)
    else:
        mercury = Mercury(address=options.address, resources={"app": database})
        mercury.callback(CONFIRM)(confirm)
    logging.basicConfig(level=mercury.settings.log.level.upper(), format="%(asctime)s %(name)s: %(message)s")
    tell(url=mercury.listen())
    with mercury:
        orders = mercury.to(options.url, key="orders")
        more = True
        while more and not ended.wait(options.pause):
            if orders.pending >= AHEAD:
                ended.wait(LOOK)
                continue
            try:
                if options.two_commits:
                    more = wrong.hand_over_next(lambda order: send(orders, order, options.mode))
                else:
                    more = hand_over_next(mercury, orders, options.mode)
            except TransientStorageError as error:
                log.warning("not handed over, tried again: %s", error)
                ended.wait(AGAIN)
        if not more:
            orders.close()  # no more will come: the sequence ends once everything has arrived
        while not ended.is_set() and not orders.wait(timeout=LOOK):
            pass
        tell(done=not more)
        ended.wait()  # it goes on to take what comes late, until it is told to end


def tell(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
