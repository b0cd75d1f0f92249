"""The application's part of a unit of work on a SQL store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from mercury.errors import Conflict, DataError, StorageError
from mercury.storage.sql.application_calls import application_call, shown
from mercury.storage.sql.deferred import DeferredConstraints
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.errors import translate, translated
from mercury.storage.sql.parts import Part
from mercury.storage.sql.prepared import execute, session_of
from mercury.storage.sql.sessions import Sessions
from mercury.storage.sql.statement_limit import StatementLimit
from mercury.storage.sql.statements import Statements
from mercury.storage.sql.store_parts import StoreParts
from mercury.storage.sql.unknown_database import unknown_database

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class ApplicationPart(Statements):
    """The connections and sessions of the application in one transaction, and what it has left to be executed later.

    :param connection: the application's connection, in a transaction that the application commits.
    """

    def __init__(self, store: StoreParts, connection: Connection | None = None) -> None:
        super().__init__(store, connection)
        self._sessions = Sessions()
        #: The innermost open savepoint.
        self._part: Part | None = None
        #: The application has used this connection: its statements may violate a deferred constraint.
        self._deferred: DeferredConstraints | None = None
        #: How often the application has got the connection, or left a statement.
        self._uses = 0
        #: The application can execute statements in the store's database by itself, so none of it may wait.
        self._handed_out = False
        self._limit: StatementLimit | None = None

    def connection(self, resource: str | None = None) -> Connection:
        self._check_own(resource)
        connection = self.writing()
        self._handed_out = True
        for call in self._end_search():
            with translated():
                execute(connection, call.text, None).close()
        self._used_by_application(connection)
        self._limit_statements_on(connection, self.dialect)
        return connection

    def session(self, resource: str | None = None) -> Session:
        return self._sessions.on(self.connection(resource))

    def execute_later(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, resource: str | None = None
    ) -> None:
        given = parameters or {}
        if not self._leave(statement, given, resource):
            try:
                self.connection(resource).execute(text(statement), given)
            except Exception as error:
                known = self.translate(error)
                if known is None:
                    raise
                raise type(known)(f"{known} (in {shown(statement)})") from error

    def _leave(self, statement: str, parameters: Mapping[str, Any], resource: str | None) -> bool:
        """Leave a statement to be sent with the next one. ``False`` = it has to be executed now."""
        if self._handed_out or self._limit is not None or not self._may_wait or not self._is_own(resource):
            return False
        with translated():
            call = application_call(statement, parameters, self.dialect)
            if call is None:
                return False
            connection = self._begun()
            session = session_of(connection)
            if session is None:
                return False
            self._used_by_application(connection)
            for before in self._end_search():
                self.leave(session, session.ready(before))
            self.leave(session, session.ready(call))
        return True

    def _check_own(self, resource: str | None) -> None:
        """:raises CapabilityError: this is not a name of the store's own database."""
        if not self._is_own(resource):
            raise unknown_database(resource or "", joined=self.joined)

    def _is_own(self, resource: str | None) -> bool:
        return resource is None or self.store.is_own_database(resource)

    def _used_by_application(self, connection: Connection) -> None:
        self._uses += 1
        if self._deferred is None:
            self._deferred = DeferredConstraints(connection, self.dialect, self.store.deferrable)

    def close_sessions(self, *, keep: bool) -> None:
        """End the sessions of the application; flush them first if ``keep``.

        :raises StorageError: the flush failed.
        """
        try:
            if keep:
                self._sessions.keep()
            self._sessions.give_up()
        except Exception as error:
            known = self.translate(error)
            if known is None:
                raise
            raise known from error

    @contextmanager
    def limited_statements(self, seconds: float) -> Iterator[None]:
        self._limit = limit = StatementLimit(seconds)
        try:
            yield
        finally:
            self._limit = None
        self.check_usable()
        limit.end()

    def _limit_statements_on(self, connection: Connection, dialect: Dialect) -> None:
        if self._limit is not None:
            self._limit.add(connection, dialect)

    @property
    def in_database(self) -> bool:
        return self._deferred is not None

    def end_work(self) -> None:
        self.check_usable()
        self._sessions.keep()
        if self._part is not None:
            self._part.end_work()

    def keep_nested(self) -> None:
        """Keep all savepoints that the application has left open in the store's database."""
        connection = self._connection if self._deferred is not None else None
        while connection is not None and (nested := connection.get_nested_transaction()) is not None:
            nested.commit()

    def check_usable(self) -> None:
        """Check that each database of the application still executes statements in this transaction."""
        if self._deferred is not None and self._writing:
            self._deferred.check_usable()

    @property
    def only_leaves(self) -> bool:
        """Whether statements of the application wait, and no constraint has to be checked behind them."""
        return bool(self._left) and self._deferred is not None and not self._deferred.any

    def check_deferred(self) -> None:
        """Check deferred constraints now: an error at the commit would roll back all messages of the transaction."""
        if self._deferred is not None:
            self._deferred.check()

    def translate(self, error: Exception) -> StorageError | None:
        known = translate(error)
        if isinstance(known, Conflict) and known is not error:
            return DataError(str(known))  # a unique violation of the application's tables, not a conflict in Mercury's
        return known
