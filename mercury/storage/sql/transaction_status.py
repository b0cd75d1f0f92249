"""The status of a PostgreSQL transaction, by its id (decision 20).

Use it for prepared transactions only: before PREPARE an id is not durable, and may be reused after a crash.
"""

from __future__ import annotations

import enum

import psycopg
from sqlalchemy import Connection, exc

STATUS = "select pg_xact_status(%(xid)s::xid8)"


class TransactionStatus(enum.Enum):
    """The status of a transaction, as PostgreSQL reports it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_PROGRESS = "in progress"
    #: The transaction is so old that PostgreSQL has removed its status.
    FORGOTTEN = "forgotten"


def transaction_status(connection: Connection, xid: int) -> TransactionStatus:
    """The status of the transaction with this id."""
    try:
        status = connection.exec_driver_sql(STATUS, {"xid": str(xid)}).scalar()
    except exc.DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.InvalidParameterValue):
            raise
        status = None  # an id in the future: the database was restored from a backup
    return TransactionStatus.FORGOTTEN if status is None else TransactionStatus(status)
