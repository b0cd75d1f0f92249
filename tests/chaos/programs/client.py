"""The client: ``python -m tests.chaos.programs.client SETUP``. Sends every order that is not marked as sent.

Marking and sending are one transaction. The program prints ``sent`` when all orders are sent and ``done`` when all have
arrived, and ends at SIGTERM.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import nullcontext, suppress

from sqlalchemy import Connection, func, select, update
from sqlalchemy.exc import DBAPIError

from mercury import MessageContext, StorageError
from mercury.errors import OutcomeUnknown
from mercury.storage.api import Transaction
from mercury.storage.application import Ending
from tests.chaos import hook
from tests.chaos.caught import described
from tests.chaos.kinds import Form, Mode, Way
from tests.chaos.programs.messages import Confirmation, Order
from tests.chaos.programs.setup import HOST, SERVICE, Place, Setup, serve
from tests.chaos.programs.stream import Stream
from tests.chaos.programs.tables import CONFIRMATIONS, ORDERS

log = logging.getLogger("client")

CALLBACK = "confirmed"
#: Seconds before a failed transaction is retried.
RETRY_DELAY = 0.05
#: The number of orders in one sequence.
CLOSE_EVERY = 8
#: In the middle of each sequence it waits for acknowledgements, seconds at most, and then for so many seconds, so that
#: the next order is a lone message (decision 111).
PATIENCE, REST = 2.0, 0.05


class Client:
    """Sends orders in a thread of its own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._mercury = place.mercury
        self._mode = place.setup.mode
        self._ending = threading.Event()
        #: The last transaction, and whether the application's own statements in it were executed.
        self._last: Transaction | None = None
        self._at_commit = False
        self._mercury.callback(CALLBACK)(self._confirmed)
        self._sender = self._mercury.to(f"http://{HOST}:{place.setup.server_port}/services/{SERVICE}", key="orders")
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the order that is being sent, and send no more."""
        self._ending.set()
        self._thread.join()

    def _confirmed(self, confirmation: Confirmation, context: MessageContext) -> None:
        self._place.insert(context.transaction, CONFIRMATIONS, confirmation)

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException:
            log.exception("the application is broken")
            os._exit(1)

    def _send_all(self) -> None:
        left = True
        while left and not self._ending.is_set():
            try:
                left = self._send_next()
            except (StorageError, OutcomeUnknown, DBAPIError) as error:
                # The database shows whether it was committed: the order is marked, or not, or locked until recovery.
                ending = self._last.outcome.ending if self._last is not None else Ending.OPEN
                hook.say(described(error, ending, at_commit=self._at_commit))
                log.warning("an order is tried again: %s", str(error).partition("\n")[0])
                self._ending.wait(RETRY_DELAY)
        hook.say("sent")
        while not self._ending.is_set():
            try:
                if self._sender.wait(RETRY_DELAY).settled:
                    hook.say("done")
                    return
            except StorageError as error:
                hook.say(described(error, Ending.OPEN, at_commit=False))
                log.warning("it is not known whether everything has arrived: %s", error)
                self._ending.wait(RETRY_DELAY)

    def _send_next(self) -> bool:
        """Mark the next order as sent, and send it. Returns whether there may be another."""
        separate = self._place.setup.form.separate
        self._last, self._at_commit = None, False
        with nullcontext() if separate else self._mercury.transaction() as tx:
            self._last = tx
            with self._place.connection(tx) as connection:
                order, last = _take(connection)
            if order is None:
                self._at_commit = not separate
                return not last
            if self._mode is Mode.IN_OUT:
                self._sender.request_with_callback(order, CALLBACK, tx=tx)
            else:
                self._sender.send(order, tx=tx)
            # With separate commits, only orders are sent, so that the comparison counts nothing else.
            if last or (order.id % CLOSE_EVERY == 0 and not separate):
                self._sender.close(tx=tx)
            self._at_commit = not separate
        if self._place.setup.form is Form.SAME_DATABASE and order.id % CLOSE_EVERY == CLOSE_EVERY // 2:
            self._rest()
        return not last

    def _rest(self) -> None:
        with suppress(StorageError):  # the order is committed, whatever is not known of its acknowledgement
            self._sender.wait(PATIENCE)
        self._ending.wait(REST)


def _take(connection: Connection) -> tuple[Order | None, bool]:
    """Mark the first order that is not sent, and return it; and whether there is no other."""
    waiting = select(ORDERS).where(~ORDERS.c.sent).order_by(ORDERS.c.id).limit(1).with_for_update()
    row = connection.execute(waiting).first()
    left = connection.execute(select(func.count()).select_from(ORDERS).where(~ORDERS.c.sent)).scalar_one()
    if row is None:
        return None, left == 0  # another client has just sent the order that was first
    connection.execute(update(ORDERS).where(ORDERS.c.id == row.id).values(sent=True))
    return Order(row.id, row.item, row.quantity), left == 1


def main(setup: Setup) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    place = Place(setup)
    client = Stream(place) if setup.keys else Client(place)
    if setup.way is not Way.FETCHED:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        serve(place.mercury.app(), setup.port, client.start)
        client.stop()
    else:
        with place.mercury:
            client.start()
            signal.sigwait([signal.SIGTERM])
            client.stop()
    place.report()


if __name__ == "__main__":
    main(Setup.load(sys.argv[1]))
