"""What became of a transaction of PostgreSQL's, asked by its id (decision 20).

Only of one that was prepared: before that its id is not durable, and may be given to another one after a crash.
"""

from __future__ import annotations

import enum

import psycopg
from sqlalchemy import Connection, exc

STATUS = "select pg_xact_status(%(xid)s::xid8)"


class TransactionStatus(enum.Enum):
    """What PostgreSQL knows of a transaction that it had."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_PROGRESS = "in progress"
    #: It is so long ago that PostgreSQL has forgotten it.
    FORGOTTEN = "forgotten"


def transaction_status(connection: Connection, xid: int) -> TransactionStatus:
    """What became of a transaction."""
    try:
        status = connection.exec_driver_sql(STATUS, {"xid": str(xid)}).scalar()
    except exc.DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.InvalidParameterValue):
            raise
        status = None  # it is yet to come: the database was set back
    return TransactionStatus.FORGOTTEN if status is None else TransactionStatus(status)
