"""Statements that are compiled once and executed on the driver.

SQLAlchemy's execution of a statement costs several times the driver's: it finds the compiled text by a key made of the
whole expression, expands lists, and makes a context and a result for each execution. A `Prepared` statement is written
as a SQLAlchemy expression too, but each store compiles it at its first use, and executes the text on the connection of
SQLAlchemy's transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    FromClause,
    LargeBinary,
    RowMapping,
    ScalarSelect,
    bindparam,
    literal_column,
    select,
)
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.engine.interfaces import Dialect as SqlDialect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeEngine, UserDefinedType

from mercury.storage.sql.releasing import note_bytes
from mercury.storage.sql.round_trips import SEARCH_OR_READ, Call, Ready, Result, Session
from mercury.storage.sql.store_connections import StoreConnection

#: A row by the names of its columns.
Row: TypeAlias = Mapping[str, Any] | RowMapping
#: Converts the value of a parameter.
Writer: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A statement whose values are all parameters, lists included (`among`): its text never changes."""

    #: A query, or a change with or without ``returning``.
    statement: Any


class Among(ColumnElement[bool]):
    """Whether the value of a column is in a list, which is one parameter: see `among`. Each dialect writes it."""

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any]) -> None:
        self.column = column
        self.values = values
        self.type = Boolean()

    def self_group(self, against: OperatorType | None = None) -> Among:  # noqa: ARG002 - in SQLite `= 1` would follow
        return self


class Sought(ColumnElement[bool]):
    """Whether a column of a table has the value of another: see `sought`. Each dialect writes it."""

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], value: ColumnElement[Any]) -> None:
        self.column = column
        self.value = value
        self.type = Boolean()

    def self_group(self, against: OperatorType | None = None) -> Sought:  # noqa: ARG002 - as in `Among`
        return self

    @property
    def _from_objects(self) -> list[FromClause]:
        return [*self.column._from_objects, *self.value._from_objects]


def sought(column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a column has the value of another one, for each of whose rows PostgreSQL searches the column's index.

    By statistics of a table that was empty it would read the whole index instead, for a merge or for each row
    (decision 105).
    """
    return Sought(column, value)


def least(column: ColumnElement[Any], *where: ColumnElement[bool], greatest: bool = False) -> ScalarSelect[Any]:
    """The least value of an indexed column, or the greatest; NULL = there is no row.

    Of ``min`` some versions of PostgreSQL make a scan of the whole index, by statistics of a table that was empty.
    """
    order = column.desc() if greatest else column
    return select(column).where(*where).order_by(order).limit(literal_column("1")).scalar_subquery()


#: An option of SQLAlchemy's compiler: the lists of texts (`TextsOf`) have a single one each.
SINGLE = "mercury_single"


class ListOf(UserDefinedType[Sequence[str]]):
    """The type of a parameter that is a list; the `writers` of a dialect say how the driver gets it."""

    cache_ok = True


class TextsOf(ListOf):
    """The type of a list of texts for which a statement has a form of its own if there is a single one."""

    cache_ok = True


def among(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Whether a text column has one of the texts in the list ``name``.

    In contrast to SQLAlchemy's ``in_`` the statement is the same for every length of the list but one: if all lists of
    texts in a statement have a single one, the columns are compared with it (`Compiled.of`). PostgreSQL keeps the plan
    of that; it plans a statement with an array at each execution, because it expects more elements than it gets.
    """
    return Among(column, bindparam(name, type_=TextsOf()))


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a prepared statement for one kind of database, with what executing it needs."""

    text: str
    #: The values of the parameters that are part of the statement, by name.
    constants: Mapping[str, Any]
    #: The parameters in the order of the text; ``None`` = the driver takes them by name.
    order: tuple[str, ...] | None
    #: Converts the values of these parameters.
    writes: tuple[tuple[str, Callable[[Any], Any]], ...]
    #: The names of the columns of its rows.
    columns: tuple[str, ...]
    #: The places of the columns with values that the database has no type for.
    flags: tuple[int, ...]
    #: Its rows have bytes, and the driver is to receive them in binary.
    binary: bool = False
    #: The lists of texts (`TextsOf`).
    lists: tuple[str, ...] = ()
    #: The form for lists with one text each, if there are lists.
    single: Compiled | None = None

    def of(self, given: Mapping[str, Any]) -> Compiled:
        """The form for these parameters."""
        if self.single is None or any(len(given[name]) != 1 for name in self.lists):
            return self
        return self.single

    def parameters(self, given: Mapping[str, Any]) -> Mapping[str, Any] | tuple[Any, ...]:
        """The parameters of one execution, as the driver takes them."""
        values = {**self.constants, **given}
        for name, write in self.writes:
            values[name] = write(values[name])
        return values if self.order is None else tuple([values[name] for name in self.order])

    def rows(self, found: Sequence[Sequence[Any]]) -> list[Row]:
        """The rows of one execution by the names of the columns."""
        columns = self.columns
        rows: list[Any] = [dict(zip(columns, row, strict=True)) for row in found]
        for place in self.flags:
            name = columns[place]
            for row in rows:
                if row[name] is not None:
                    row[name] = bool(row[name])
        return rows


def compile_for(
    dialect: SqlDialect,
    statement: Any,
    writers: Mapping[type[TypeEngine[Any]], Writer],
    *,
    has_flags: bool,
    has_texts: bool = False,
) -> Compiled:
    """Compile a statement.

    :param writers: convert the parameters of these types.
    :param has_flags: the database has a type for truth values.
    :param has_texts: the driver receives values as texts unless a cursor is for binary values. The text of bytes is
        twice as long, and libpq has it twice, with a buffer of a size that stays with the connection.
    """
    form = _form(dialect, statement, writers, has_flags=has_flags, has_texts=has_texts)
    if not form.lists:
        return form
    of_one = {**writers, TextsOf: _only}
    return replace(
        form, single=_form(dialect, statement, of_one, has_flags=has_flags, has_texts=has_texts, single=True)
    )


def _form(
    dialect: SqlDialect,
    statement: Any,
    writers: Mapping[type[TypeEngine[Any]], Writer],
    *,
    has_flags: bool,
    has_texts: bool,
    single: bool = False,
) -> Compiled:
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True, SINGLE: single})
    assert isinstance(compiled, SQLCompiler)
    order = tuple(compiled.positiontup) if compiled.positional and compiled.positiontup is not None else None
    writes = {
        name: write
        for bind, name in compiled.bind_names.items()
        for kind, write in writers.items()
        if isinstance(bind.type, kind)
    }
    given = {name: value for name, value in compiled.params.items() if value is not None}
    returned = list(getattr(statement, "exported_columns", ()))
    return Compiled(
        text=compiled.string,
        constants={name: writes[name](value) if name in writes else value for name, value in given.items()},
        order=order,
        writes=tuple((name, write) for name, write in writes.items() if name not in given),
        columns=tuple(column.name for column in returned),
        flags=() if has_flags else tuple(n for n, column in enumerate(returned) if isinstance(column.type, Boolean)),
        binary=has_texts and any(isinstance(column.type, LargeBinary) for column in returned),
        lists=tuple(name for bind, name in compiled.bind_names.items() if isinstance(bind.type, TextsOf)),
    )


def _only(texts: Collection[str]) -> str:
    (text,) = texts
    return text


# --- on the driver ---------------------------------------------------------------------------------------------------


def fetch(connection: Connection, text: str, parameters: Any, *, binary: bool = False) -> list[Any]:
    """Execute a statement and return its rows as tuples.

    :param binary: the driver is to receive the values in binary; see `Compiled.binary`.
    :raises Exception: an error of the driver, or of SQLAlchemy; `errors.translated` translates both.
    """
    if _is_watched(connection):
        return list(connection.exec_driver_sql(text, parameters).all())
    session = session_of(connection)
    if session is not None:
        return _rows(run(connection, session, [Call(text, parameters, binary)])[0], connection, binary=binary)
    cursor = execute(connection, text, parameters, binary=binary)
    try:
        rows = list(cursor.fetchall())
    finally:
        cursor.close()
    return _rows(rows, connection, binary=binary)


def change(connection: Connection, text: str, parameters: Any) -> int:
    """Execute a statement without rows; returns how many rows it has changed. Errors as for `fetch`."""
    if _is_watched(connection):
        return connection.exec_driver_sql(text, parameters).rowcount
    session = session_of(connection)
    if session is not None:
        (done,) = run(connection, session, [Call(text, parameters)])
        return done if isinstance(done, int) else len(done)
    cursor = execute(connection, text, parameters)
    try:
        return cursor.rowcount
    finally:
        cursor.close()


def session_of(connection: Connection) -> Session | None:
    """What executes several statements in one round trip on a connection now; ``None`` = nothing does."""
    if _is_watched(connection):
        return None
    driver: object = connection.connection.dbapi_connection
    if not isinstance(driver, StoreConnection) or driver.closed or not driver.session.usable:
        return None
    return driver.session


def fetch_together(
    connection: Connection, session: Session, calls: Sequence[Call], waiting: Sequence[Call | Ready] = ()
) -> list[list[Any]]:
    """Execute queries in one round trip, one after the other, and return the rows of each. Errors as for `fetch`.

    :param waiting: statements that are executed before.
    """
    results = run(connection, session, [*waiting, *calls])[len(waiting) :]
    return [_rows(result, connection, binary=call.binary) for call, result in zip(calls, results, strict=True)]


def search(connection: Connection, text: str, parameters: Any) -> list[Any]:
    """As `fetch`, on a connection where each round trip is a transaction of its own; see `SEARCH_OR_READ`."""
    session = session_of(connection)
    if session is None:
        return fetch(connection, text, parameters)
    return fetch_together(connection, session, [Call(SEARCH_OR_READ, {}), Call(text, parameters)])[1]


def run(
    connection: Connection,
    session: Session,
    calls: Sequence[Call | Ready],
    *,
    commit: bool = False,
    behind: str | None = None,
) -> list[Result]:
    """As `Session.run`, in the transaction of a connection."""
    if not connection.in_transaction():
        connection.begin()  # as in `execute`
    try:
        return session.run(calls, commit=commit, behind=behind)
    except Exception as error:
        note_lost(connection, error)
        raise


def _rows(result: Result, connection: Connection, *, binary: bool) -> list[Any]:
    rows: list[Any] = [] if isinstance(result, int) else result
    if binary:
        note_bytes(connection, chain.from_iterable(rows))
    return rows


def change_many(connection: Connection, text: str, parameters: list[tuple[Any, ...]]) -> None:
    """Execute a statement without rows once for each tuple of parameters. Errors as for `fetch`."""
    if _is_watched(connection):
        connection.exec_driver_sql(text, parameters)
    else:
        execute(connection, text, parameters, many=True).close()


def execute(
    connection: Connection, text: str, parameters: Any, *, many: bool = False, binary: bool = False
) -> DBAPICursor:
    """Execute a statement on the driver, in the transaction of the connection; the caller closes the cursor.

    If the server is gone, SQLAlchemy must know that too: then a rollback of the application does not fail, and no other
    connection to that server is used.
    """
    if not connection.in_transaction():
        connection.begin()  # the driver begins with the first statement, and SQLAlchemy ends only what it began
    cursor = connection.connection.cursor(binary=True) if binary else connection.connection.cursor()
    try:
        if many:
            cursor.executemany(text, parameters)
        else:
            cursor.execute(text, parameters)
    except Exception as error:
        note_lost(connection, error)
        raise
    return cursor


def note_lost(connection: Connection, error: Any) -> None:
    """Let SQLAlchemy find out that a connection is lost, if an error of the driver says so."""
    known = isinstance(error, connection.dialect.loaded_dbapi.Error)
    if known and connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, None):
        with contextlib.suppress(SQLAlchemyError):
            connection.exec_driver_sql("select 1")


def _is_watched(connection: Connection) -> bool:
    """Whether the application listens to statements of the engine: SQLAlchemy calls listeners for its own executions
    only."""
    if not (connection._has_events or connection.engine._has_events):  # as SQLAlchemy asks, before it makes `dispatch`
        return False
    events = connection.dispatch
    return bool(events.before_cursor_execute or events.after_cursor_execute)
