"""A client to which orders come for as long as it runs, of several keys. Another may do the same beside it.

It goes on whatever it is told, and hides nothing: for each error that it catches it prints ``caught WHERE TYPE ATTEMPT
TEXT``. The attempt stands in the row that is marked as sent with it: so it can be seen afterwards whether something was
committed although an error said that it was not.
"""

from __future__ import annotations

import dataclasses
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
#: The word that begins the line of an error; where it came up.
CAUGHT = "caught"
LOOKING, WITHIN, LEAVING = "looking", "within", "leaving"
#: Seconds before it looks again, where there was nothing, and where there was an error.
LOOK, AGAIN = 0.05, 0.1
#: So often no message comes after an order on its sequence.
CLOSE_EVERY = 500


class Stream:
    """Sends orders in a thread of its own, until it is stopped."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._mercury = place.mercury
        self._mercury.callback(CALLBACK)(self._confirmed)
        self._senders = [self._sender(key) for key in range(place.setup.keys)]
        #: To look for orders with, beside all transactions.
        self._engine: Engine = create_engine(place.setup.app, pool_size=1)
        self._attempts = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the order that is being sent; nothing new is begun."""
        self._ending.set()
        self._thread.join()

    def _sender(self, key: int) -> Sender:
        # What the server says is posted for every other key, and fetched for the rest.
        url = f"http://{HOST}:{self._place.setup.server_port}/services/{SERVICE}"
        return self._mercury.to(url, key=f"orders-{key}", listen=key % 2 == 0)

    def _confirmed(self, confirmation: Confirmation, context: MessageContext) -> None:
        with self._place.connection(context.transaction) as connection:
            connection.execute(CONFIRMATIONS.insert().values(dataclasses.asdict(confirmation)))

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                keys = self._keys_that_wait()
            except Exception as error:
                _tell(LOOKING, error, "-")
                self._ending.wait(AGAIN)
                continue
            sent = [self._send_next(key) for key in keys if not self._ending.is_set()]
            if not any(sent):
                self._ending.wait(LOOK)

    def _keys_that_wait(self) -> list[int]:
        key = ORDERS.c.id % self._place.setup.keys
        with self._engine.connect() as connection:
            return list(connection.execute(select(key).where(~ORDERS.c.sent).group_by(key)).scalars())

    def _send_next(self, key: int) -> bool:
        """Mark the first order of a key as sent, and send it: one transaction. Returns whether that was done."""
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
            self._ending.wait(AGAIN)
            return False
        return order is not None

    def _take(self, connection: Connection, key: int, attempt: str) -> Order | None:
        """The first order of a key that waits; none while another client has it."""
        mine = ORDERS.c.id % self._place.setup.keys == key
        first = select(func.min(ORDERS.c.id)).where(~ORDERS.c.sent, mine).scalar_subquery()
        # One that another client has locked is not waited for: nothing of this key may overtake it, other keys can.
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
