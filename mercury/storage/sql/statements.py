"""The statements and locks of one unit of work, as the managers of each kind of row use them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import Connection, CursorResult, Executable, Select, Table
from sqlalchemy.sql.dml import ReturningDelete, ReturningInsert

from mercury.errors import StorageError
from mercury.storage.api import Topic
from mercury.storage.sql.dialect import Marker
from mercury.storage.sql.ends import Ends
from mercury.storage.sql.errors import translated
from mercury.storage.sql.lock_order import LockOrder
from mercury.storage.sql.new_work import NewWork
from mercury.storage.sql.prepared import Prepared, Row, change, fetch, fetch_together, run, session_of
from mercury.storage.sql.releasing import are_many_bytes, own
from mercury.storage.sql.round_trips import PLAN_AS_USUAL, SEARCH, ApplicationCallFailed, Call, Ready, Session
from mercury.storage.sql.savepoints import FIRST_SAVEPOINT
from mercury.storage.sql.store_parts import StoreParts
from mercury.storage.sql.together import Change, together

#: The most statements of the application that wait.
MOST_LEFT = 500

Parameters: TypeAlias = Mapping[str, Any]
#: A query with its parameters.
Question: TypeAlias = tuple[Prepared, Parameters]


class Statements(Ends, LockOrder):
    """The connection of one transaction, taken at its first use; the locks it holds; the topics its commit announces.

    :param connection: the application's connection, in a transaction that the application commits.
    """

    def __init__(self, store: StoreParts, connection: Connection | None = None) -> None:
        super().__init__()
        self.store = store
        self.dialect = store.dialect
        self.joined = connection is not None
        self._connection = connection
        self._writing = False
        self.topics: set[Topic] = set()
        #: Topics to announce to other processes only.
        self.topics_elsewhere: set[Topic] = set()
        #: Digests of the keys to which messages were appended that get their numbers later: work of `Topic.RMS`.
        self.appended_keys: set[str] = set()
        #: Changes that are sent with the next statement.
        self._pending: list[Change] = []
        #: Statements of the application that are sent with the next statement, and what sends them.
        self._left: list[Ready] = []
        self._session: Session | None = None
        #: The database searches indexes where statistics say that it should read whole tables.
        self._searches = False
        #: The first savepoint of the transaction was begun for handlers of the application.
        self._delivers = False
        #: The answers to queries that were sent ahead; they hold until this transaction changes something.
        self._ahead: dict[object, Sequence[Row]] = {}
        #: `Attachments.id` of deleted rows; other rows of this transaction may name them now.
        self.unnamed: set[str] = set()
        #: The number of statements so far.
        self.statements = 0

    # --- statements ------------------------------------------------------------------------------------------------

    def writing(self) -> Connection:
        """The connection of this transaction, ready to write; all changes before are sent."""
        self.send_pending()
        self._ahead.clear()
        return self._begun()

    def _begun(self) -> Connection:
        connection = self._connected()
        if not self._writing:
            if not self.joined:
                with translated():
                    self.dialect.begin_writing(connection)
                    if not connection.in_transaction():
                        connection.begin()  # otherwise a session on it would begin the transaction, and commit it
            self._writing = True  # not before: where the lock was waited for in vain, the next use begins it
        return connection

    def _connected(self) -> Connection:
        self.require_whole()
        if self._connection is None:
            with translated():
                self._connection = self.store.kept.take()
                own(self._connection, self)
        return self._connection

    def read(
        self, query: Select[Any] | ReturningInsert[Any] | Prepared, parameters: Parameters | None = None
    ) -> Sequence[Row]:
        """Read rows, as committed or as this transaction has changed them. Takes no lock."""
        if self._ahead and isinstance(query, Prepared):
            known = self._ahead.pop(_name_of((query, parameters or {})), None)
            if known is not None:
                return known
        self.send_pending()
        connection = self._connected()
        self.statements += 1
        with translated():
            if isinstance(query, Prepared):
                given = parameters or {}
                compiled = self.dialect.compiled(query, given)
                values = compiled.parameters(given)
                return compiled.rows(fetch(connection, compiled.text, values, binary=compiled.binary))
            return connection.execute(query, parameters).mappings().all()

    def read_locked(
        self,
        query: Select[Any] | ReturningInsert[Any] | Prepared,
        parameters: Parameters | None = None,
        ahead: Sequence[Question] = (),
        *,
        savepoint: bool = False,
        delivers: bool = False,
        handlers: bool = False,
    ) -> Sequence[Row]:
        """Read rows by a query with ``for update`` or with a change. In SQLite this takes the lock of the file.

        :param ahead: queries to be answered behind it, as by `read_ahead`; only behind one without a change.
        :param savepoint: as for `read_ahead`; so are ``delivers`` and ``handlers``.
        """
        if ahead and isinstance(query, Prepared):
            self._begun()
            questions = [(query, parameters or {}), *ahead]
            self.read_ahead(questions, savepoint=savepoint, delivers=delivers, handlers=handlers)
        else:
            self.writing()
        return self.read(query, parameters)

    def read_ahead(
        self,
        questions: Sequence[Question],
        *,
        savepoint: bool = False,
        delivers: bool = False,
        handlers: bool = False,
    ) -> None:
        """Send what waits and these queries in one round trip, if the database can; `read` returns the answers once,
        unless this transaction changes something before.

        The database answers one after the other: behind a query that locks rows, the rows are read under the lock.

        :param savepoint: begin the first savepoint behind them; it is used if nothing is changed before.
        :param delivers: that savepoint is for handlers of the application: statements are planned as usual from now on.
        :param handlers: handlers follow behind the queries: statements are planned as usual from there on.
        :raises StorageError: something that waits fails, or a query.
        """
        session = session_of(self._connected())
        if session is None:
            self.send_pending()
            return
        waiting = self.take_pending()
        if waiting:
            self._ahead.clear()
        compiled = [self.dialect.compiled(*question) for question in questions]
        calls = self._begin_to_search(ends=handlers) if handlers or not delivers else []
        self._delivers = self._delivers or delivers
        begun = len(calls)
        for each, (_, parameters) in zip(compiled, questions, strict=True):
            values = each.parameters(parameters)
            assert isinstance(values, dict)
            calls.append(Call(each.text, values, each.binary))
        if handlers:
            calls += self._end_search()
        if savepoint:
            calls.append(Call(FIRST_SAVEPOINT, {}))
        self.statements += len(waiting) + len(calls)
        with self._application_errors(), translated():
            found = fetch_together(self._connected(), session, calls, waiting)
        if savepoint:
            self._ahead[FIRST_SAVEPOINT] = found[-1]
        answers = found[begun : begun + len(compiled)]
        for question, each, rows in zip(questions, compiled, answers, strict=True):
            self._ahead[_name_of(question)] = each.rows(rows)

    def search(self, query: Prepared, parameters: Parameters, *, handlers: bool = False) -> Sequence[Row]:
        """As `read`, but the database searches its tables by their indexes; ``handlers`` is as for `read_ahead`."""
        if not self.is_ahead((query, parameters)):
            self.read_ahead([(query, parameters)], handlers=handlers or self._delivers)
        return self.read(query, parameters)

    def is_ahead(self, question: Question) -> bool:
        """Whether `read` would return an answer that was read ahead."""
        return _name_of(question) in self._ahead

    def read_changing(self, query: Prepared, parameters: Parameters, *tables: Table) -> Sequence[Row]:
        """Read rows by a query that locks rows, and may change rows of these tables; together with the changes before,
        if none is of these tables."""
        self._ahead.clear()
        self._send_pending_of([table.name for table in tables])
        if not self._pending:
            self.send_pending()
        session = session_of(self._begun())
        if session is None and not self._pending:
            return self.read_locked(query, parameters)
        compiled, pending = self.dialect.compiled(query, parameters), self._pending
        self._pending = []
        values = compiled.parameters(parameters)
        assert isinstance(values, dict)
        call = Call(*together(pending, Change((), (compiled.text,), values)))
        calls = [call] if session is None else [*self._begin_to_search(), call]
        self.statements += len(calls)
        with translated():
            if session is None:
                return compiled.rows(fetch(self._begun(), call.text, call.parameters))
            return compiled.rows(fetch_together(self._begun(), session, calls)[-1])

    def _begin_to_search(self, *, ends: bool = False) -> list[Call]:
        """What is to be sent before statements of Mercury, so that the database searches its tables by their indexes
        from now on, or until `_end_search`, which the same round trip ``ends`` with."""
        if self._searches or self.joined or (self._delivers and not ends):
            return []
        self._searches = True
        return [Call(SEARCH, {})]

    def _end_search(self) -> list[Call]:
        """What is to be sent before statements of the application, so that they are planned as usual."""
        if not self._searches:
            return []
        self._searches = False
        return [Call(PLAN_AS_USUAL, {})]

    def later(self, table: Table, text: str, parameters: dict[str, Any]) -> None:
        """Change a table with the next statement of this transaction, or before its commit.

        :raises Exception: changes before this one fail.
        """
        self._later(Change((table.name,), (text,), parameters))

    def _later(self, change: Change) -> None:
        self._begun()
        self._ahead.clear()
        self._send_pending_of(change.tables)
        self._pending.append(change)

    def _send_pending_of(self, tables: Collection[str]) -> None:
        """Send the changes that wait, if one is of these tables: a statement may change each table once."""
        if any(name in tables for change in self._pending for name in change.tables):
            self.send_pending()

    def leave(self, session: Session, call: Ready) -> None:
        """Send a statement of the application with the next one of this transaction, or before its commit.

        :param session: of this transaction's connection.
        :raises Exception: statements before this one fail.
        """
        if len(self._left) >= MOST_LEFT:
            self.send_pending()
        self._ahead.clear()
        self._session = session
        self._left.append(call)

    def send_pending(self) -> None:
        """Send what waits: the statements of the application, and the changes, which are one statement.

        :raises StorageError: one fails.
        """
        if self._left:
            self._send_left()
        if not self._pending:
            return
        self._ahead.clear()
        (*before, last), self._pending = self._pending, []
        self.statements += 1
        with translated():
            change(self._begun(), *together(before, last))

    def _send_left(self) -> None:
        """Send what waits in one round trip."""
        assert self._session is not None
        calls = self.take_pending()
        self._ahead.clear()
        self.statements += len(calls)
        with self._application_errors(), translated():
            run(self._begun(), self._session, calls)

    @contextmanager
    def _application_errors(self) -> Iterator[None]:
        """Raise the error of a statement that the application has left as that of one which it executes itself."""
        try:
            yield
        except ApplicationCallFailed as failed:
            raise self.translate(failed.error) or failed from failed.error

    def translate(self, error: Exception) -> StorageError | None:
        """As `Transaction.translate`."""
        raise NotImplementedError

    def take_pending(self, text: str = "", parameters: dict[str, Any] | None = None) -> list[Call | Ready]:
        """What waits, which the caller sends now: the statements of the application, and at most one more with the
        changes and a statement behind them."""
        waiting, self._pending = self._pending, []
        calls: list[Call | Ready] = [*self._left]
        self._left.clear()
        if text:
            waiting.append(Change((), (text,), parameters or {}))
        if waiting:
            calls.append(Call(*together(waiting[:-1], waiting[-1])))
        return calls

    def drop_pending(self) -> None:
        """Drop what waits: what it belongs to is rolled back."""
        self._pending.clear()
        self._left.clear()
        self._ahead.clear()

    @property
    def _may_wait(self) -> bool:
        """Whether changes may wait: not if the application commits, which does not send them."""
        return self.dialect.changes_in_queries and not self.joined

    def write(self, statement: Executable | Prepared, parameters: Parameters | None = None) -> int:
        """Execute a change; returns how many rows it has changed."""
        connection = self.writing()
        self.statements += 1
        with translated():
            if isinstance(statement, Prepared):
                given = parameters or {}
                compiled = self.dialect.compiled(statement, given)
                return change(connection, compiled.text, compiled.parameters(given))
            result = connection.execute(statement, parameters)
            assert isinstance(result, CursorResult)
            return result.rowcount

    def delete_naming(self, statement: ReturningDelete[Any] | Prepared, parameters: Parameters | None = None) -> None:
        """Delete rows that may name attachments. The commit removes the attachments that no row names any more.

        :param statement: returns ``attachments_id`` of the deleted rows.
        """
        connection = self.writing()
        self.statements += 1
        with translated():
            if isinstance(statement, Prepared):
                given = parameters or {}
                compiled = self.dialect.compiled(statement, given)
                found = fetch(connection, compiled.text, compiled.parameters(given))
                self.note_unnamed(row[0] for row in found)
            else:
                self.note_unnamed(connection.execute(statement, parameters).scalars())

    def note_unnamed(self, identifiers: Iterable[str | None]) -> None:
        """Note the names of attachments that were in deleted rows; ``None`` = a row had no attachments."""
        found = {identifier for identifier in identifiers if identifier is not None}
        if found:
            self.unnamed |= found
            self.store.attachments_used()  # if the application commits this transaction, they are searched later

    def insert(self, table: Table, rows: Sequence[Parameters], *, ignore: bool = False) -> None:
        if rows:
            connection = self.writing()
            self.statements += 1
            with translated():
                self.dialect.insert(connection, table, rows, ignore=ignore)

    def insert_later(self, table: Table, rows: Sequence[Parameters]) -> None:
        """Insert rows, whose errors may appear with a later statement."""
        if rows and self._may_wait and not are_many_bytes(value for row in rows for value in row.values()):
            self.later(table, *self.dialect.inserting(table, rows))
        else:
            self.insert(table, rows)

    def insert_both(
        self,
        first: Table,
        first_rows: Sequence[Parameters],
        second: Table,
        second_rows: Sequence[Parameters],
        marker: Marker | None = None,
    ) -> None:
        """Insert into two tables, of which the second has the bytes, with a commit marker; errors may appear with a
        later statement."""
        if self._may_wait and not are_many_bytes([value for row in second_rows for value in row.values()]):
            self._later(self.dialect.inserting_both(first, first_rows, second, second_rows, marker))
            return
        connection = self.writing()
        self.statements += 1
        with translated():
            self.dialect.insert_both(connection, first, first_rows, second, second_rows, marker)

    def insert_marker(self, marker: Marker) -> None:
        """Insert a commit marker; errors may appear with a later statement."""
        if self._may_wait:
            self.later(marker[0], *self.dialect.inserting_marker(*marker))
        else:
            self.store.commit_markers.insert(self.writing(), marker)

    def update(self, table: Table, key: str, rows: Sequence[Parameters]) -> None:
        """Update rows by their column ``key``; errors may appear with a later statement."""
        if rows and self._may_wait:
            self.later(table, *self.dialect.updating(table, key, rows))
        elif rows:
            connection = self.writing()
            self.statements += 1
            with translated():
                self.dialect.update(connection, table, key, rows)

    def work(self) -> NewWork:
        """What this transaction makes for the workers of this process to do."""
        return NewWork.of(self.topics, self.appended_keys)

    def work_elsewhere(self) -> NewWork:
        """What this transaction makes for the workers of other processes to do."""
        return NewWork.of(self.topics | self.topics_elsewhere, self.appended_keys)


def _name_of(question: Question) -> object:
    query, parameters = question
    return query, *((name, tuple(given) if isinstance(given, list) else given) for name, given in parameters.items())
