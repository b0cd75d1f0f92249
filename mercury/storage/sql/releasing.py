"""Returns connections to their pool after the outcome of the transaction is known."""

from __future__ import annotations

import contextlib
import logging

from sqlalchemy import Connection

log = logging.getLogger("mercury.storage")

#: The key in `Connection.info` of the transaction that a connection belongs to.
OWNER = "mercury transaction"


def release(connection: Connection) -> None:
    """Return a connection to its pool, or drop it if its session has ended. Never raises an `Exception`.

    The outcome is decided already. An error of the driver about a lost session would replace it, and the caller would
    repeat work that is committed.
    """
    try:
        if not connection.invalidated:
            connection.info.pop(OWNER, None)
        connection.close()
    except Exception as error:
        log.info("a connection is dropped, its session has ended: %s", error)
        with contextlib.suppress(Exception):
            connection.invalidate()
        with contextlib.suppress(Exception):
            connection.close()
