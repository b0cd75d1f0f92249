"""Giving connections back to their pool when the outcome of the transaction is known."""

from __future__ import annotations

import contextlib
import logging

from sqlalchemy import Connection

log = logging.getLogger("mercury.storage")

#: Under this name a connection knows the transaction that it belongs to.
OWNER = "mercury transaction"


def release(connection: Connection) -> None:
    """Give a connection back, or drop it if its session has ended. Never raises an `Exception`.

    The outcome is decided by now: an error of the driver about a session that is gone would replace it, and a caller
    who sees one repeats what is committed.
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
