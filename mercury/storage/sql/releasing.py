"""Returns connections to their pool after the outcome of the transaction is known."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from sqlalchemy import Connection

from mercury.storage.sql.ends import Ends
from mercury.storage.sql.sqlite_connections import SqliteConnection
from mercury.storage.sql.store_connections import StoreConnection

log = logging.getLogger("mercury.storage")

#: The key in `Connection.info` of the transaction that a connection belongs to, unless it is of a store's engine.
OWNER = "mercury transaction"
#: The key in `Connection.info` of a connection whose buffers have grown, unless it is a `StoreConnection`.
GROWN = "mercury grown"
#: Bytes of one statement or result from which a connection is not used again. libpq's buffers for what it sends and
#: for what it receives grow to the longest that there was, and shrink only when the connection is closed: each
#: connection of the pool would keep both. A new connection costs less than a message of this size.
GROWN_BYTES = 4 * 1024 * 1024


def own(connection: Connection, owner: Ends | None) -> None:
    """Note whose transaction a connection is in; ``None`` = in none of Mercury's."""
    driver: object = connection.connection.dbapi_connection
    if isinstance(driver, StoreConnection | SqliteConnection):
        driver.owner = owner
    else:
        connection.info[OWNER] = owner


def note_bytes(connection: Connection, values: Iterable[object]) -> None:
    """Note what is sent or received in one statement: if its bytes are many, `release` drops the connection."""
    if are_many_bytes(values):
        driver: object = connection.connection.dbapi_connection
        if isinstance(driver, StoreConnection):
            driver.grown = True
        else:
            connection.info[GROWN] = True


def are_many_bytes(values: Iterable[object]) -> bool:
    """Whether the buffers of a connection grow for good if one statement has these values."""
    return sum([len(value) for value in values if type(value) is bytes]) >= GROWN_BYTES


def release(connection: Connection) -> None:
    """Return a connection to its pool, or drop it if its session has ended or was changed by the application, or its
    buffers have grown. Never raises an `Exception`.

    The outcome is decided already. An error of the driver about a lost session would replace it, and the caller would
    repeat work that is committed.
    """
    try:
        if not connection.invalidated:
            driver: object = connection.connection.dbapi_connection
            own(connection, None)
            if isinstance(driver, StoreConnection):
                spoilt = driver.grown or driver.changed
            else:
                spoilt = bool(connection.info.pop(GROWN, False))
            if spoilt:
                connection.invalidate()
        connection.close()
    except Exception as error:
        log.info("a connection is dropped, its session has ended: %s", error)
        with contextlib.suppress(Exception):
            connection.invalidate()
        with contextlib.suppress(Exception):
            connection.close()
