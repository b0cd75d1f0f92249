"""What became of a transaction of PostgreSQL's, asked by its id (transactions.md 24, 26)."""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from sqlalchemy import Connection, Engine, exc

from mercury.errors import OutcomeUnknown, StorageError
from mercury.storage.sql.errors import translated

log = logging.getLogger("mercury.storage")

#: The id, and the process that works on it, if the transaction has written anything.
MINE = "select pg_current_xact_id_if_assigned()::text, pg_backend_pid()"
STATUS = "select pg_xact_status(%(xid)s::xid8)"
#: A session whose client is gone may wait for the commit that never came: it is ended, if it is at this transaction.
END_SESSION = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid = %(process)s and backend_xid = %(xid)s::xid8::xid
"""
#: How often, and with which pause in seconds, a database is asked that does not answer.
TRIES, PAUSE = 20, 0.25


class Fate(enum.Enum):
    """What PostgreSQL knows of a transaction that it had."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_PROGRESS = "in progress"
    #: It is so long ago that PostgreSQL has forgotten it.
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class TransactionId:
    """One transaction of PostgreSQL's."""

    #: With its epoch.
    xid: int
    #: Of the server's process that works on it.
    process: int


def current(connection: Connection) -> TransactionId | None:
    """The transaction that a connection is in; ``None`` = it has written nothing.

    :raises StorageError: the database does not answer.
    """
    with translated():
        xid, process = connection.exec_driver_sql(MINE).one()
    return TransactionId(int(xid), process) if xid is not None else None


def fate(connection: Connection, xid: int) -> Fate:
    """What became of a transaction."""
    try:
        status = connection.exec_driver_sql(STATUS, {"xid": str(xid)}).scalar()
    except exc.DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.InvalidParameterValue):
            raise
        status = None  # it is yet to come: the database was set back
    return Fate.FORGOTTEN if status is None else Fate(status)


def was_committed(
    engine: Engine, transaction: TransactionId, error: StorageError, wait: Callable[[float], object] = time.sleep
) -> bool:
    """Whether a commit happened whose answer was lost: the database is asked, until it is one or the other.

    :param error: what was raised instead of the answer.
    :param wait: waits for so many seconds.
    :raises OutcomeUnknown: the database does not answer, or can not tell.
    """
    log.warning("a commit was not answered: %s; the database is asked what became of it", error)
    why = str(error)
    for attempt in range(TRIES):
        if attempt:
            wait(PAUSE)
        try:
            with translated(), engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                match fate(connection, transaction.xid):
                    case Fate.COMMITTED:
                        return True
                    case Fate.ABORTED:
                        return False
                    case Fate.IN_PROGRESS:
                        why = "it is still going on"
                        asked = {"process": transaction.process, "xid": str(transaction.xid)}
                        connection.exec_driver_sql(END_SESSION, asked)
                    case Fate.FORGOTTEN:
                        why = "the database has forgotten it"
        except StorageError as trouble:
            why = str(trouble)
    raise OutcomeUnknown(
        f"whether transaction {transaction.xid} of {engine.url.render_as_string(hide_password=True)} is committed can "
        f"not be told: {why}. Look at what it has written before it is repeated"
    ) from error
