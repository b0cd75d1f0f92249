"""Statements of PostgreSQL on libpq, several of them in one round trip (decision 51).

psycopg sends BEGIN, each statement and COMMIT by themselves, and waits for each answer. In libpq's pipeline mode they
are sent together, and the server executes them one after the other: each sees what those before it have done, and what
others have committed while it waited for a lock. After one that fails the server skips the rest.
"""

from __future__ import annotations

import contextlib
import logging
import re
import select
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.string import BytesBinaryDumper

log = logging.getLogger("mercury.storage")

#: The most statements that a connection keeps prepared; others are sent as they are.
MOST_PREPARED = 250
BEGIN, COMMIT = b"BEGIN", b"COMMIT"
NOT_COMMITTED = "a statement had failed, and PostgreSQL has rolled back the transaction instead of committing it"
#: No such prepared statement.
UNKNOWN_STATEMENT = b"26000"
#: After such statements psycopg deallocates every prepared statement of the session, Mercury's too.
DEALLOCATES = re.compile(r"\b(?:drop|alter|rollback|discard|deallocate)\b", re.IGNORECASE)
#: The most characters of a statement for which it is remembered whether it may deallocate others.
MOST_REMEMBERED = 2000
_PLACEHOLDER = re.compile(r"%(?:%|\((\w+)\)([sb]))")
_FORMATS = {"s": PyFormat.AUTO, "b": PyFormat.BINARY}
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)

#: What a statement has returned: its rows, or how many rows it has changed.
Result: TypeAlias = list[tuple[Any, ...]] | int
#: The text of a statement and the types of its parameters.
_Kind: TypeAlias = tuple[bytes, tuple[int, ...]]


class CommitFailed(Exception):
    """The commit behind other statements has failed; ``error`` is that of the driver."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Call:
    """One statement with its parameters, which are named as the driver takes them: ``%(name)s`` or ``%(name)b``."""

    text: str
    parameters: Mapping[str, Any]
    #: Its values are received in binary: see `prepared.Compiled.binary`.
    binary: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call as libpq takes it."""

    kind: _Kind
    values: Sequence[Any]
    formats: Sequence[Any]
    result: Format


class Session:
    """Executes calls on a connection of psycopg, in its transaction. One thread at a time uses it."""

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        self._driver = driver
        self._libpq = driver.pgconn
        self._transformer = Transformer.from_context(driver)
        #: The names of the prepared statements.
        self._names: dict[_Kind, bytes] = {}
        self._made = 0
        self._poll = select.poll()
        self._poll.register(self._libpq.socket, select.POLLIN)
        #: The statements may be deallocated since the last round trip.
        self.doubtful = False

    @property
    def usable(self) -> bool:
        """Whether calls may be executed now: not if a statement could be found deallocated amid a transaction."""
        return not self.doubtful or not self._names or self._is_idle

    @property
    def _is_idle(self) -> bool:
        return self._libpq.transaction_status == TransactionStatus.IDLE

    def run(self, calls: Sequence[Call], *, commit: bool = False, behind: str | None = None) -> list[Result]:
        """Execute calls in one round trip, in the transaction that has begun or begins with them.

        :param commit: commit after them.
        :param behind: a statement to execute after the commit; its error is logged.
        :raises psycopg.Error: of the first call that fails. If it has no SQLSTATE, the connection is lost, and it is
            not known what was done.
        :raises CommitFailed: the calls were executed, and the commit fails.
        """
        ready = [self._ready(call) for call in calls]  # an error here has sent nothing
        if self.doubtful and self._is_idle:
            self.settle()
        begins = not self._driver.autocommit and self._is_idle
        before, sent = [BEGIN] if begins else [], list[_Kind | None]()
        behinds = ([COMMIT] if commit else []) + ([behind.encode()] if behind is not None else [])
        with _Pipeline(self._libpq) as found:
            for text in before:
                self._libpq.send_query_params(text, None)
            for each in ready:
                sent += self._send(each)
            for text in behinds:
                self._libpq.send_query_params(text, None)
            self._receive(found)
        self._forget_failed(sent, found[len(before) :])
        answers = [
            result
            for kind, result in zip([b""] * len(before) + sent + [None] * len(behinds), found, strict=False)
            if kind is None
        ]
        for result in (*found[: len(before)], *answers[: len(calls)]):
            if result.status in _FAILED:
                raise error_of(next(each for each in found if each.status == ExecStatus.FATAL_ERROR))
        if commit:
            _check_commit(answers[len(calls)])
        if behind is not None and answers[-1].status in _FAILED:
            log.debug("what follows a commit has failed: %s", answers[-1].get_error_message())
        return [self.load(result) for result in answers[: len(calls)]]

    def settle(self) -> None:
        """Forget the prepared statements if they are deallocated; outside a transaction."""
        if self._names and self._is_gone():
            self._names.clear()
        self.doubtful = False

    # --- within ----------------------------------------------------------------------------------------------------

    def _ready(self, call: Call) -> _Ready:
        query, names, formats = _query(call.text)
        values = self._transformer.dump_sequence([call.parameters[name] for name in names], formats)
        types, sent = self._transformer.types, self._transformer.formats
        return _Ready((query, tuple(types or ())), values, sent or (), Format.BINARY if call.binary else Format.TEXT)

    def _send(self, call: _Ready) -> list[_Kind | None]:
        """Send a call. Returns an element for each answer to it: first what is prepared, ``None`` for the call."""
        libpq, kind = self._libpq, call.kind
        name = self._names.get(kind)
        if name is None and len(self._names) >= MOST_PREPARED:
            libpq.send_query_params(kind[0], call.values, kind[1], call.formats, call.result)
            return [None]
        sent: list[_Kind | None] = [None]
        if name is None:
            name = self._names[kind] = b"mercury_%d" % self._made
            self._made += 1
            libpq.send_prepare(name, *kind)
            sent = [kind, None]
        libpq.send_query_prepared(name, call.values, call.formats, call.result)
        return sent

    def _receive(self, found: list[PGresult]) -> None:
        """Send all, and receive the answers, one for each statement."""
        libpq = self._libpq
        libpq.pipeline_sync()
        if libpq.flush():
            self._send_rest()
        while True:
            while libpq.is_busy():
                self._poll.poll()
                libpq.consume_input()
            result = libpq.get_result()
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                return
            if result is not None:
                found.append(result)

    def _send_rest(self) -> None:
        """Send what did not fit into one packet, and receive meanwhile: the server may answer before it reads on."""
        both = select.poll()
        both.register(self._libpq.socket, select.POLLIN | select.POLLOUT)
        while self._libpq.flush():
            ((_, ready),) = both.poll()
            if ready & ~select.POLLOUT:
                self._libpq.consume_input()

    def _is_gone(self) -> bool:
        """Whether the server does not know a statement that was prepared: then it knows none."""
        with _Pipeline(self._libpq) as found:
            self._libpq.send_describe_prepared(next(iter(self._names.values())))
            self._receive(found)
        return found[0].status in _FAILED

    def _forget_failed(self, sent: Sequence[_Kind | None], found: Sequence[PGresult]) -> None:
        for kind, result in zip(sent, found, strict=False):
            if result.status in _FAILED:
                if result.error_field(DiagnosticField.SQLSTATE) == UNKNOWN_STATEMENT:
                    self._names.clear()
                elif kind is not None:
                    self._names.pop(kind, None)

    def load(self, result: PGresult) -> Result:
        """The rows of an answer, or how many rows the statement has changed."""
        if result.status != ExecStatus.TUPLES_OK:
            return result.command_tuples or 0
        self._transformer.set_pgresult(result)
        try:
            return self._transformer.load_rows(0, result.ntuples, tuple)
        finally:
            self._transformer.set_pgresult(None)  # or libpq's copy of the rows is kept until the next query


class _Pipeline:
    """A pipeline of libpq; its block gets a list for the answers.

    After an error in the block the connection is closed: answers are missing.
    """

    __slots__ = ("_found", "_libpq")

    def __init__(self, libpq: PGconn) -> None:
        self._libpq = libpq
        self._found: list[PGresult] = []

    def __enter__(self) -> list[PGresult]:
        self._libpq.enter_pipeline_mode()
        return self._found

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._libpq.exit_pipeline_mode()
            except psycopg.Error:
                self._libpq.finish()
                raise
            return
        self._libpq.finish()
        failed = next((each for each in self._found if each.status == ExecStatus.FATAL_ERROR), None)
        if failed is not None and isinstance(error, psycopg.Error):
            raise error_of(failed) from error  # says why the server has closed the connection


def _check_commit(result: PGresult) -> None:
    if result.status in _FAILED:
        raise CommitFailed(error_of(result))
    if result.command_status != COMMIT:
        raise CommitFailed(psycopg.errors.InFailedSqlTransaction(NOT_COMMITTED))


def error_of(result: PGresult) -> psycopg.Error:
    """The error of a statement that libpq has executed. Without a SQLSTATE: the connection is lost."""
    state, text = result.error_field(DiagnosticField.SQLSTATE), result.get_error_message()
    if state is None:
        return psycopg.OperationalError(text)
    return psycopg.errors.lookup(state.decode())(text)


@lru_cache(maxsize=512)
def _query(text: str) -> tuple[bytes, tuple[str, ...], tuple[PyFormat, ...]]:
    """A statement with numbered parameters, and the names and formats of these in their order."""
    places: dict[str, int] = {}
    formats: list[PyFormat] = []

    def number(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        if name not in places:
            places[name] = len(places) + 1
            formats.append(_FORMATS[found[2]])
        return f"${places[name]}"

    return _PLACEHOLDER.sub(number, text).encode(), tuple(places), tuple(formats)


# --- connections -----------------------------------------------------------------------------------------------------


class StoreCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor of the application, or of SQLAlchemy: notes statements after which psycopg deallocates others."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(query, str) or _may_deallocate(query):
            _doubt(self.connection)
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        _doubt(self.connection)
        super().executemany(query, *arguments, **options)


class UncopiedBytes(BytesBinaryDumper):
    """Passes bytes to libpq as they are.

    psycopg's own, of which there is one in C too, copies them first, and keeps the copy until the statement has ended:
    a second body in memory beside libpq's copy of it. As a class of its own it is not exchanged for the one in C.
    """


class Owner(Protocol):
    """Whose transaction a connection is in."""

    def ended_by_application(self, *, commit: bool) -> None:
        """Called before each commit or rollback on the connection, also those of the owner."""


class StoreConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of a store's engine, with a `Session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_factory = StoreCursor
        self._session: Session | None = None
        #: ``None`` = the connection is in no transaction of Mercury's.
        self.owner: Owner | None = None
        #: Its buffers have grown: see `releasing.release`.
        self.grown = False

    @classmethod
    def opened(cls, arguments: Sequence[Any], options: Mapping[str, Any]) -> StoreConnection:
        """A new connection.

        :param arguments: those of psycopg's ``connect``, as ``options``.
        """
        driver = cls.connect(*arguments, **options)
        driver.adapters.register_dumper(bytes, UncopiedBytes)
        return driver

    @property
    def session(self) -> Session:
        """The session on this connection."""
        if self._session is None:
            self._session = Session(self)
        return self._session

    def commit(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=True)
        if not self._has_ended:
            super().commit()
        self._settle()

    def rollback(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=False)
        if not self._has_ended:
            if not self.closed and self.pgconn.transaction_status != TransactionStatus.IDLE:
                self.session.doubtful = True
            super().rollback()
        self._settle()

    @property
    def _has_ended(self) -> bool:
        """Whether there is no transaction to end: a `Session` has ended it, and psycopg would take a while to find
        out."""
        return self._tpc is None and self.pgconn.transaction_status == TransactionStatus.IDLE

    def _settle(self) -> None:
        """Find out after a transaction which statements are left, so that the next one need not doubt."""
        if self._session is not None and self._session.doubtful and not self.closed:
            self._session.settle()

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        self.session.doubtful = True
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction


def _may_deallocate(statement: str) -> bool:
    # Statements with literals may be as long as what they store: they are not kept in memory.
    return _searched(statement) if len(statement) <= MOST_REMEMBERED else DEALLOCATES.search(statement) is not None


@lru_cache(maxsize=512)
def _searched(statement: str) -> bool:
    return DEALLOCATES.search(statement) is not None


def _doubt(connection: object) -> None:
    if isinstance(connection, StoreConnection):
        connection.session.doubtful = True
