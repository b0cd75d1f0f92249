"""The cursor of the application, and of SQLAlchemy, on the connection of a store.

psycopg needs 60 us of CPU for an insert that it has prepared, in a new cursor as SQLAlchemy makes one for each
statement; libpq needs 6. So a statement of a handler that is executed again is passed to libpq directly, if that makes
no difference: values are adapted by the adapters of the cursor, results and errors are those of psycopg.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

#: After such statements psycopg deallocates every prepared statement of the session, Mercury's too.
DEALLOCATES = re.compile(r"\b(?:drop|alter|rollback|discard|deallocate)\b", re.IGNORECASE)
#: Statements whose answer is rows, or how many rows were changed.
_DIRECT = re.compile(r"\s*(?:insert|update|delete|merge|select|with)\b", re.IGNORECASE)
#: The most characters of a statement that is not left to psycopg: longer ones are rarely executed again.
_MOST_CHARACTERS = 4096
_PLACEHOLDER = re.compile(r"%(?:%|\((\w+)\)([sb]))")
_FORMATS = {"s": PyFormat.AUTO, "b": PyFormat.BINARY}

#: The text of a statement and the types of its parameters.
Kind: TypeAlias = tuple[bytes, tuple[int, ...]]
#: A statement with numbered parameters, and the names and formats of these in their order.
Numbered: TypeAlias = tuple[bytes, tuple[str, ...], tuple[PyFormat, ...]]


@lru_cache(maxsize=512)
def numbered(text: str) -> Numbered:
    """Number the parameters of a statement, which are named as the driver takes them: ``%(name)s`` or ``%(name)b``."""
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


class Prepared(Protocol):
    """The statements that are prepared on a connection; see `Session`."""

    #: They may be deallocated since the last round trip.
    doubtful: bool

    def name_of(self, kind: Kind) -> bytes | None:
        """The name of a statement of the application, which is prepared when it comes for the second time.

        :returns: ``None`` = it is not prepared.
        :raises psycopg.Error: it cannot be prepared.
        """

    def failed(self, result: PGresult) -> None:
        """Note an error of a prepared statement of the application."""


class StoreCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor of the application, or of SQLAlchemy: notes statements after which psycopg deallocates others.

    Executes statements that come again without psycopg, in threads that get no interrupts: psycopg would cancel the
    statement at an interrupt.
    """

    def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Any:
        plain = type(query) is str and isinstance(params, Mapping) and prepare is binary is None
        direct = _direct(query) if plain else None
        if direct is None:
            if not isinstance(query, str) or DEALLOCATES.search(query):
                self._doubt()
        elif self._execute_directly(direct, params):
            return self
        return super().execute(query, params, prepare=prepare, binary=binary)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        self._doubt()
        super().executemany(query, *arguments, **options)

    def _execute_directly(self, statement: Numbered, params: Mapping[str, Any]) -> bool:
        """Execute a statement that is prepared. ``False`` = psycopg has to execute it, or to say why it cannot."""
        libpq, session = self._pgconn, _session_of(self.connection)
        if (
            session is None
            or self.closed
            or libpq.transaction_status != TransactionStatus.INTRANS
            or libpq.pipeline_status != PipelineStatus.OFF
            or threading.current_thread() is threading.main_thread()
        ):
            return False
        text, names, formats = statement
        try:
            given = [params[name] for name in names]
        except KeyError:
            return False
        adapted = Transformer(self)
        values = adapted.dump_sequence(given, formats)
        with self.connection.lock:
            name = session.name_of((text, tuple(adapted.types or ())))
            if name is None:
                return False
            result = libpq.exec_prepared(name, cast("Sequence[bytes]", values), adapted.formats, self.format)
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            session.failed(result)
            raise driver_error(result)
        self._reset()
        self._last_query, self._tx = None, adapted
        self._results.append(result)
        self._select_current_result(0)
        return True

    def _doubt(self) -> None:
        session = _session_of(self.connection)
        if session is not None:
            session.doubtful = True


def driver_error(result: PGresult) -> psycopg.Error:
    """The error of a statement of the application, as psycopg raises it."""
    if result.error_field(DiagnosticField.SQLSTATE) is None:  # the connection is lost
        return psycopg.OperationalError(result.get_error_message())
    return error_from_result(result)


def _session_of(connection: object) -> Prepared | None:
    return getattr(connection, "session", None)


@lru_cache(maxsize=512)
def _is_direct(text: str) -> bool:
    """Whether a statement may be executed without psycopg: it has one result, and nothing in it that only psycopg
    reads or refuses."""
    return (
        _DIRECT.match(text) is not None and DEALLOCATES.search(text) is None and "%" not in _PLACEHOLDER.sub("", text)
    )


def _direct(text: str) -> Numbered | None:
    """The statement, if it may be executed without psycopg."""
    return numbered(text) if len(text) <= _MOST_CHARACTERS and _is_direct(text) else None
