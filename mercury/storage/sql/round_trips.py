"""Statements of PostgreSQL on libpq, several of them in one round trip (decision 51).

psycopg sends BEGIN, each statement and COMMIT by themselves, and waits for each answer. In libpq's pipeline mode they
are sent together, and the server executes them one after the other: each sees what those before it have done, and what
others have committed while it waited for a lock. After one that fails the server skips the rest.
"""

from __future__ import annotations

import logging
import re
import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

log = logging.getLogger("mercury.storage")

#: The most statements that a connection keeps prepared, and the most of them for the application; others are sent as
#: they are.
MOST_PREPARED, MOST_OF_APPLICATION = 350, 100
BEGIN, COMMIT = b"BEGIN", b"COMMIT"
#: Until the end of the transaction PostgreSQL reads no table as a whole that has an index for what is sought; and the
#: contrary (decision 105).
SEARCH = "select set_config('enable_seqscan', 'off', true)"
#: The same where some table must be read as a whole: before PostgreSQL 18 that costs so much by the planner's account
#: that it would compile the query (JIT).
SEARCH_OR_READ = "select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
PLAN_AS_USUAL = "set local enable_seqscan to default"
NOT_COMMITTED = "a statement had failed, and PostgreSQL has rolled back the transaction instead of committing it"
#: No such prepared statement.
UNKNOWN_STATEMENT = b"26000"
#: SQLSTATE classes of what a statement may fail with because the server keeps the types of its parameters, and those of
#: its tables have changed since: data exceptions, features that are not supported, access rules, internal errors.
OUTDATED = (b"22", b"0A", b"42", b"XX")
_PLACEHOLDER = re.compile(r"%(?:%|\((\w+)\)([sb]))")
_FORMATS = {"s": PyFormat.AUTO, "b": PyFormat.BINARY}
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)

#: What a statement has returned: its rows, or how many rows it has changed.
Result: TypeAlias = list[tuple[Any, ...]] | int
#: The text of a statement and the types of its parameters.
_Kind: TypeAlias = tuple[bytes, tuple[int, ...]]
#: What is sent for a statement that is or may be prepared, ``None`` = another, and whether that executes it.
_Sent: TypeAlias = tuple[_Kind | None, bool]


class _DriverFailed(Exception):
    """``error`` is that of the driver."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class CommitFailed(_DriverFailed):
    """The commit behind other statements has failed; ``error`` is that of the driver."""


class ApplicationCallFailed(_DriverFailed):
    """A statement of the application has failed (`Call.of_application`); ``error`` is that of the driver."""


@dataclass(frozen=True, slots=True)
class Call:
    """One statement with its parameters, which are named as the driver takes them: ``%(name)s`` or ``%(name)b``."""

    text: str
    parameters: Mapping[str, Any]
    #: Its values are received in binary: see `prepared.Compiled.binary`.
    binary: bool = False
    #: A statement of the application, as it is shown in its errors; its result is not read. "" = one of Mercury's.
    of_application: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """A call as libpq takes it."""

    kind: _Kind
    values: Sequence[Any]
    formats: Sequence[Any]
    result: Format
    of_application: str


class Session:
    """Executes calls on a connection of psycopg, in its transaction. One thread at a time uses it."""

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        self._driver = driver
        self._libpq = driver.pgconn
        self._transformer = Transformer.from_context(driver)
        #: The names of the prepared statements.
        self._names: dict[_Kind, bytes] = {}
        #: Those of the application.
        self._of_application: set[_Kind] = set()
        #: The names of prepared statements that are to be deallocated.
        self._outdated: list[bytes] = []
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

    def run(self, calls: Sequence[Call | Ready], *, commit: bool = False, behind: str | None = None) -> list[Result]:
        """Execute calls in one round trip, in the transaction that has begun or begins with them.

        :param commit: commit after them.
        :param behind: a statement to execute after the commit; its error is logged.
        :raises ApplicationCallFailed: the first call that fails is the application's.
        :raises psycopg.Error: of the first call that fails. If it has no SQLSTATE, the connection is lost, and it is
            not known what was done.
        :raises CommitFailed: the calls were executed, and the commit fails.
        """
        # An error here has sent nothing.
        ready = [call if isinstance(call, Ready) else self.ready(call) for call in calls]
        idle = self._is_idle
        if self.doubtful and idle:
            self.settle()
        before = [BEGIN] if idle and not self._driver.autocommit else []
        if idle and self._outdated:
            before += [b"deallocate " + name for name in self._outdated]
            self._outdated.clear()
        sent: list[_Sent] = [(None, False)] * len(before)
        behinds = ([COMMIT] if commit else []) + ([behind.encode()] if behind is not None else [])
        with _Pipeline(self._libpq) as found:
            for text in before:
                self._libpq.send_query_params(text, None)
            for each in ready:
                sent += self._send(each)
            for text in behinds:
                self._libpq.send_query_params(text, None)
            self._receive(found)
        self._forget_failed(sent, found)
        sent += [(None, True)] * len(behinds)
        answers = [result for (_, executes), result in zip(sent, found, strict=False) if executes]
        for place, result in enumerate((*found[: len(before)], *answers[: len(calls)]), -len(before)):
            if result.status in _FAILED:
                failed = next(each for each in found if each.status == ExecStatus.FATAL_ERROR)
                raise _error_in(ready[place].of_application if place >= 0 else "", failed)
        if commit:
            _check_commit(answers[len(calls)])
        if behind is not None and answers[-1].status in _FAILED:
            log.debug("what follows a commit has failed: %s", answers[-1].get_error_message())
        return [0 if each.of_application else self.load(result) for each, result in zip(ready, answers, strict=False)]

    def settle(self) -> None:
        """Forget the prepared statements if they are deallocated; outside a transaction."""
        names = [*self._outdated, *self._names.values()]
        if names and self._is_gone(names[0]):
            self._forget_all()
        self.doubtful = False

    # --- within ----------------------------------------------------------------------------------------------------

    def ready(self, call: Call) -> Ready:
        """A call as it is sent, with the present values of its parameters.

        :raises Exception: the driver cannot send a value, or does not know its type.
        """
        query, names, formats = _query(call.text)
        values = self._transformer.dump_sequence([call.parameters[name] for name in names], formats)
        types, sent = self._transformer.types, self._transformer.formats
        result = Format.BINARY if call.binary else Format.TEXT
        return Ready((query, tuple(types or ())), values, sent or (), result, call.of_application)

    def _send(self, call: Ready) -> list[_Sent]:
        """Send a call. Returns an element for each answer to it."""
        libpq, kind = self._libpq, call.kind
        name = self._names.get(kind)
        if name is None and self._are_many(call):
            libpq.send_query_params(kind[0], call.values, kind[1], call.formats, call.result)
            return [(None, True)]
        sent: list[_Sent] = [(kind, True)]
        if name is None:
            name = self._names[kind] = b"mercury_%d" % self._made
            self._made += 1
            if call.of_application:
                self._of_application.add(kind)
            libpq.send_prepare(name, *kind)
            sent = [(kind, False), (kind, True)]
        libpq.send_query_prepared(name, call.values, call.formats, call.result)
        return sent

    def _are_many(self, call: Ready) -> bool:
        """Whether no more statements are prepared. Those of the application are unknown, and may be a new one each
        time: they get a part, or Mercury's own would have to be sent as they are."""
        if call.of_application and len(self._of_application) >= MOST_OF_APPLICATION:
            return True
        return len(self._names) >= MOST_PREPARED

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

    def _is_gone(self, name: bytes) -> bool:
        """Whether the server does not know a statement that was prepared: then it knows none."""
        with _Pipeline(self._libpq) as found:
            self._libpq.send_describe_prepared(name)
            self._receive(found)
        return found[0].status in _FAILED

    def _forget_failed(self, sent: Sequence[_Sent], found: Sequence[PGresult]) -> None:
        for (kind, executes), result in zip(sent, found, strict=False):
            if result.status in _FAILED:
                state = result.error_field(DiagnosticField.SQLSTATE) or b""
                if state == UNKNOWN_STATEMENT:
                    self._forget_all()
                elif kind is not None and (not executes or state.startswith(OUTDATED)):
                    name = self._names.pop(kind, None)
                    self._of_application.discard(kind)
                    if executes and name is not None:
                        self._outdated.append(name)

    def _forget_all(self) -> None:
        self._names.clear()
        self._of_application.clear()
        self._outdated.clear()

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
    if result.error_field(DiagnosticField.SQLSTATE) is None:
        return psycopg.OperationalError(result.get_error_message())
    return psycopg.errors.error_from_result(result)  # of its class if the SQLSTATE is one of the application's own


def _error_in(statement: str, failed: PGresult) -> Exception:
    """What is raised for a call that has failed.

    :param statement: that of the application; "" = it is Mercury's.
    """
    error = error_of(failed)
    if not statement:
        return error
    first, *details = str(error).strip().splitlines() or [""]
    named = "\n".join([f"{first} (in {statement})", *details])
    return ApplicationCallFailed(type(error)(named, info=error.pgresult))  # with the SQLSTATE


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
