"""A client that sends orders of several keys as long as it runs. Several such processes may share the databases.

It continues after every error, and prints each one as ``caught WHERE TYPE ATTEMPT TEXT``. The transaction that marks an
order as sent stores its attempt in the row. So it can be checked afterwards whether a transaction was committed
although its error said that it was not.
"""

from __future__ import annotations

import os
import threading

from sqlalchemy import Connection, Engine, create_engine, func, select, update

from mercury import MessageContext, Sender
from tests.chaos import hook
from tests.chaos.kinds import Mode
from tests.chaos.programs.messages import Confirmation, Order
from tests.chaos.programs.setup import HOST, SERVICE, Place
from tests.chaos.programs.tables import CONFIRMATIONS, ORDERS

CALLBACK = "confirmed"
#: The first word of an error's line; the values of WHERE: polling, a statement, the commit.
CAUGHT = "caught"
POLLING, WITHIN, LEAVING = "polling", "within", "leaving"
#: Seconds between two polls, and before a retry after an error.
POLL_INTERVAL, RETRY_DELAY = 0.05, 0.1
#: The sequence is closed after every order whose number is a multiple of this.
CLOSE_EVERY = 500


class Stream:
    """Sends orders in a thread of its own, until it is stopped."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._mercury = place.mercury
        self._mercury.callback(CALLBACK)(self._confirmed)
        self._senders = [self._sender(key) for key in range(place.setup.keys)]
        #: For polling for orders, outside of all transactions.
        self._engine: Engine = create_engine(place.setup.app, pool_size=1)
        self._attempts = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the order that is being sent, and send no more."""
        self._ending.set()
        self._thread.join()

    def _sender(self, key: int) -> Sender:
        # For every second key the server posts acknowledgements and responses; for the others they are fetched.
        url = f"http://{HOST}:{self._place.setup.server_port}/services/{SERVICE}"
        return self._mercury.to(url, key=f"orders-{key}", listen=key % 2 == 0)

    def _confirmed(self, confirmation: Confirmation, context: MessageContext) -> None:
        self._place.insert(context.transaction, CONFIRMATIONS, confirmation)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                keys = self._keys_that_wait()
            except Exception as error:
                _tell(POLLING, error, "-")
                self._ending.wait(RETRY_DELAY)
                continue
            sent = [self._send_next(key) for key in keys if not self._ending.is_set()]
            if not any(sent):
                self._ending.wait(POLL_INTERVAL)

    def _keys_that_wait(self) -> list[int]:
        key = ORDERS.c.id % self._place.setup.keys
        with self._engine.connect() as connection:
            return list(connection.execute(select(key).where(~ORDERS.c.sent).group_by(key)).scalars())

    def _send_next(self, key: int) -> bool:
        """Mark the first order of a key as sent, and send it, in one transaction. Returns whether there was one."""
        self._attempts += 1
        attempt, where = f"{os.getpid()}-{self._attempts}", WITHIN
        try:
            with self._mercury.transaction() as tx:
                with self._place.connection(tx) as connection:
                    order = self._take(connection, key, attempt)
                if order is not None:
                    sender = self._senders[key]
                    if self._place.setup.mode is Mode.IN_OUT:
                        sender.request_with_callback(order, CALLBACK, tx=tx)
                    else:
                        sender.send(order, tx=tx)
                    if order.id % CLOSE_EVERY == 0:
                        sender.close(tx=tx)
                where = LEAVING
        except Exception as error:
            _tell(where, error, attempt)
            self._ending.wait(RETRY_DELAY)
            return False
        return order is not None

    def _take(self, connection: Connection, key: int, attempt: str) -> Order | None:
        """The first unsent order of a key; ``None`` also while another client has locked it."""
        mine = ORDERS.c.id % self._place.setup.keys == key
        first = select(func.min(ORDERS.c.id)).where(~ORDERS.c.sent, mine).scalar_subquery()
        # No waiting for a row that another client has locked: orders of this key must not overtake it, but other keys
        # can go on.
        row = connection.execute(
            select(ORDERS).where(ORDERS.c.id == first, ~ORDERS.c.sent).with_for_update(skip_locked=True)
        ).first()
        if row is None:
            return None
        connection.execute(update(ORDERS).where(ORDERS.c.id == row.id).values(sent=True, attempt=attempt))
        return Order(row.id, row.item, row.quantity)


def _tell(where: str, error: Exception, attempt: str) -> None:
    kind = type(error)
    text = " ".join(str(error).split())[:300]
    hook.say(f"{CAUGHT} {where} {kind.__module__}.{kind.__qualname__} {attempt} {text}")
