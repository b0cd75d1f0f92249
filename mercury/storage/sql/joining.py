"""Mercury's work inside a transaction of the application (decision 13)."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

from sqlalchemy import Connection, Engine, RootTransaction, TwoPhaseTransaction, event, inspect, select

from mercury.errors import CapabilityError
from mercury.storage.sql.errors import translated
from mercury.storage.sql.releasing import OWNER
from mercury.storage.sql.schema import STORE
from mercury.storage.sql.store_parts import StoreParts
from mercury.storage.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction

ENLIST = (
    "name its engine in Mercury(..., resources={...}), and use mercury.transaction() with tx.session(name) or "
    "tx.connection(name): then Mercury commits in both databases or in none"
)
#: Seconds between two looks whether the commit of a connection is over.
COMMIT_CHECK_DELAY = 0.01


def guard_ends(engine: Engine) -> None:
    """Report to Mercury's transactions when the application commits or rolls back their connection. Idempotent.

    For engines of the application: the connections of a store report it, and with listeners SQLAlchemy does more for
    each statement.
    """
    if not event.contains(engine, "commit", _on_commit):
        event.listen(engine, "commit", _on_commit)
        event.listen(engine, "rollback", _on_rollback)


def _is_session(work: object) -> TypeGuard[Session]:
    """Whether it is a session of SQLAlchemy's ORM. Who has none has not imported it."""
    if "sqlalchemy.orm" not in sys.modules:
        return False
    from sqlalchemy.orm import Session

    return isinstance(work, Session)


def _on_commit(connection: Connection) -> None:
    _complete(connection, commit=True)


def _on_rollback(connection: Connection) -> None:
    _complete(connection, commit=False)


def _complete(connection: Connection, *, commit: bool) -> None:
    if connection.invalidated or connection.closed:
        return
    owner = connection.info.get(OWNER)
    if isinstance(owner, SqlTransaction):
        owner.ended_by_application(commit=commit)


def _follow_commit(tx: SqlTransaction, transaction: RootTransaction | None) -> None:
    """Look until the commit is over: what is announced before is not found, and is not looked for again."""
    if transaction is not None and transaction.is_active:
        later = threading.Timer(COMMIT_CHECK_DELAY, _follow_commit, (tx, transaction))
        later.daemon = True  # a process that ends does not wait for a commit that hangs
        later.start()
    else:
        tx.committed()


class Joins:
    """Joins sessions and connections of the application; caches which engines are of the store's database."""

    def __init__(self, store: StoreParts) -> None:
        self._store = store
        self._checked: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._joined: weakref.WeakKeyDictionary[Connection, SqlTransaction] = weakref.WeakKeyDictionary()
        #: The connections of joined sessions.
        self._connections: weakref.WeakKeyDictionary[Session, Connection] = weakref.WeakKeyDictionary()

    @contextmanager
    def join(self, work: object) -> Iterator[SqlTransaction]:
        # An AsyncSession or AsyncConnection has a synchronous side; it is used within its ``run_sync``.
        work = getattr(work, "sync_session", None) or getattr(work, "sync_connection", None) or work
        if _is_session(work) and work.twophase:
            raise CapabilityError(f"a Session with twophase=True coordinates its commit by itself: {ENLIST}")
        with translated():
            connection = work.connection() if _is_session(work) else work
        if not isinstance(connection, Connection):
            raise CapabilityError(f"a SQLAlchemy Session or Connection can be joined, not {type(work).__name__}")
        if isinstance(connection.get_transaction(), TwoPhaseTransaction):
            raise CapabilityError(f"the connection is in a two-phase transaction of its own: {ENLIST}")
        self._check(connection)
        tx = self._joined.get(connection)
        if tx is None:
            with translated():
                if not connection.in_transaction():
                    connection.begin()
            tx = SqlTransaction(self._store, connection)
            self._joined[connection] = tx
            if _is_session(work):
                self._follow_session(work, connection)
            else:
                self._follow_connection(connection)
        yield tx
        tx.close_sessions(keep=True)
        if tx.broken is None:  # otherwise the application has ended it in the block
            tx.check_member()

    # --- the end that the application makes ------------------------------------------------------------------------

    # The listeners are not removed: SQLAlchemy cannot remove a listener while it calls it.

    def _follow_session(self, session: Session, connection: Connection) -> None:
        self._connections[session] = connection
        if not event.contains(session, "after_commit", self._session_committed):
            event.listen(session, "after_commit", self._session_committed)
            event.listen(session, "after_transaction_end", self._session_ended)

    def _session_committed(self, session: Session) -> None:
        if session.in_nested_transaction():
            return  # SQLAlchemy has this event for each savepoint too, before it closes it
        connection = self._connections.get(session)
        tx = self._joined.get(connection) if connection is not None else None
        if tx is not None:
            tx.committed()

    def _session_ended(self, session: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is None:
            connection = self._connections.pop(session, None)
            if connection is not None:
                self._end(connection)

    def _follow_connection(self, connection: Connection) -> None:
        if not event.contains(connection, "commit", self._connection_commits):
            event.listen(connection, "commit", self._connection_commits)
            event.listen(connection, "rollback", self._connection_ended)

    def _connection_commits(self, connection: Connection) -> None:
        tx, transaction = self._connection_ended(connection), connection.get_transaction()
        if tx is not None:
            # SQLAlchemy has an event just before the commit of a connection, and none after it.
            _follow_commit(tx, transaction)

    def _connection_ended(self, connection: Connection) -> SqlTransaction | None:
        if connection in self._connections.values():
            return None  # its session reports the end
        return self._end(connection)

    def _end(self, connection: Connection) -> SqlTransaction | None:
        """The next transaction of the connection is joined anew. Returns the one that has ended."""
        tx = self._joined.pop(connection, None)
        if tx is not None:
            tx.ended()
        return tx

    # --- whether it may be joined ----------------------------------------------------------------------------------

    def _check(self, connection: Connection) -> None:
        if connection.engine in self._checked:
            return
        here = connection.execute(select(STORE.c.id)).scalar() if inspect(connection).has_table(STORE.name) else None
        if here != self._store.id:
            raise CapabilityError(f"the session is of another database than Mercury's store: {ENLIST}")
        self._store.dialect.check_durable(connection)
        self._checked.add(connection.engine)
