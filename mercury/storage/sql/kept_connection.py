"""Keeps the connection of a transaction for the next one, beside the pool.

To take a connection from SQLAlchemy's pool and to return it calls some sixty functions. For a lone message, whose code
is in no cache of the processor, that took up to 0.2 ms of each transaction (decision 108).
"""

from __future__ import annotations

import threading

from sqlalchemy import Connection, Engine, event

from mercury.storage.sql.store_connections import StoreConnection


class KeptConnection:
    """At most one connection of an engine, which counts as taken from its pool. Thread-safe.

    :param engine: makes the connections.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = threading.Lock()
        self._kept: Connection | None = None
        self._ended = False
        event.listen(engine, "invalidate", self._invalidated)

    def take(self) -> Connection:
        """The kept connection, or another one."""
        kept = self._taken()
        if kept is None:
            return self._engine.connect()
        return kept

    def keep(self, connection: Connection) -> bool:
        """Keep a connection after its transaction; ``False`` = it is to be returned to the pool.

        :param connection: was never passed to the application, which may use it after its transaction.
        """
        if self._kept is not None or connection.invalidated or connection.closed or connection.in_transaction():
            return False
        driver: object = connection.connection.dbapi_connection
        if not isinstance(driver, StoreConnection) or not driver.is_reusable:
            return False
        driver.owner = None
        with self._mutex:
            if self._kept is not None or self._ended:
                return False
            self._kept = connection
        return True

    def close(self) -> None:
        """Return what is kept, and keep nothing any more."""
        self._ended = True
        self._drop()

    def _taken(self) -> Connection | None:
        with self._mutex:
            kept, self._kept = self._kept, None
        return kept

    def _drop(self) -> None:
        kept = self._taken()
        if kept is not None:
            kept.close()

    def _invalidated(self, *_: object) -> None:
        """A connection is lost: the pool makes all that were made before anew when they are taken from it."""
        self._drop()
