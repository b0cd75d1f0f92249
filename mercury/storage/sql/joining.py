"""Mercury's part in a transaction that the application has (transactions.md 16)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, event, inspect, select, text
from sqlalchemy.orm import Session, SessionTransaction

from mercury.errors import CapabilityError
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import STORE
from mercury.storage.sql.transaction import OWNER, SqlTransaction

if TYPE_CHECKING:
    from mercury.storage.sql.store import SqlStore

#: Seconds after which a commit that was announced is made.
SOON = 0.01


def guard_ends(engine: Engine) -> None:
    """Let Mercury's transactions know when the application ends them behind their back. Done twice is done once."""
    if not event.contains(engine, "commit", _on_commit):
        event.listen(engine, "commit", _on_commit)
        event.listen(engine, "rollback", _on_rollback)


def _on_commit(connection: Connection) -> None:
    _tell(connection, commit=True)


def _on_rollback(connection: Connection) -> None:
    _tell(connection, commit=False)


def _tell(connection: Connection, *, commit: bool) -> None:
    if connection.invalidated or connection.closed:
        return
    owner = connection.info.get(OWNER)
    if isinstance(owner, SqlTransaction):
        owner.ended_by_application(commit=commit)


class Joins:
    """Joins sessions and connections of the application, and remembers which engines are the store's database."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._checked: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._joined: weakref.WeakKeyDictionary[Connection, SqlTransaction] = weakref.WeakKeyDictionary()

    @contextmanager
    def join(self, work: object) -> Iterator[SqlTransaction]:
        # An AsyncSession or AsyncConnection has a synchronous side; it is used within its ``run_sync``.
        work = getattr(work, "sync_session", None) or getattr(work, "sync_connection", None) or work
        with translated():
            connection = work.connection() if isinstance(work, Session) else work
        if not isinstance(connection, Connection):
            raise CapabilityError(f"a SQLAlchemy Session or Connection can be joined, not {type(work).__name__}")
        self._check(connection)
        tx = self._joined.get(connection)
        if tx is None:
            with translated():
                if not connection.in_transaction():
                    connection.begin()
            tx = SqlTransaction(self._store, connection)
            self._joined[connection] = tx
            if isinstance(work, Session):
                self._follow_session(work, connection, tx)
            else:
                self._follow_connection(connection, tx)
        yield tx
        tx.close_sessions(keep=True)

    # --- the end that the application makes ------------------------------------------------------------------------

    def _follow_session(self, session: Session, connection: Connection, tx: SqlTransaction) -> None:
        def ended(_session: Session, transaction: SessionTransaction) -> None:
            if transaction.parent is not None:
                return
            event.remove(session, "after_transaction_end", ended)
            event.remove(session, "after_commit", committed)
            self._joined.pop(connection, None)

        def committed(_session: Session) -> None:
            tx.committed()

        event.listen(session, "after_commit", committed)
        event.listen(session, "after_transaction_end", ended)

    def _follow_connection(self, connection: Connection, tx: SqlTransaction) -> None:
        transaction = connection.get_transaction()
        assert transaction is not None

        def ended(ended_connection: Connection, *, commit: bool) -> None:
            if ended_connection is not connection:
                return
            event.remove(connection, "commit", on_commit)
            event.remove(connection, "rollback", on_rollback)
            self._joined.pop(connection, None)
            if commit:
                # SQLAlchemy says it just before the commit, and nothing after it.
                threading.Timer(SOON, tx.committed).start()

        def on_commit(ended_connection: Connection) -> None:
            ended(ended_connection, commit=True)

        def on_rollback(ended_connection: Connection) -> None:
            ended(ended_connection, commit=False)

        event.listen(connection, "commit", on_commit)
        event.listen(connection, "rollback", on_rollback)

    # --- whether it may be joined ----------------------------------------------------------------------------------

    def _check(self, connection: Connection) -> None:
        if connection.engine in self._checked:
            return
        here = connection.execute(select(STORE.c.id)).scalar() if inspect(connection).has_table(STORE.name) else None
        if here != self._store.id:
            raise CapabilityError(
                "the session is of another database than Mercury's store: name its engine in "
                "Mercury(..., resources={...}) and work with tx.session(name), which makes it a two-phase commit"
            )
        if connection.dialect.name == "postgresql":
            setting = connection.execute(text("show synchronous_commit")).scalar()
            if setting == "off":
                raise CapabilityError("the session has synchronous_commit off: what it commits may be lost")
        self._checked.add(connection.engine)
