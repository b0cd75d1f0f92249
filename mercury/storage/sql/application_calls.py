"""Statements of the application that Mercury sends together with its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from textwrap import shorten
from typing import Any

from sqlalchemy import text

from mercury.errors import StorageError
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.ends import MOST_REMEMBERED
from mercury.storage.sql.prepared import Compiled, compile_for
from mercury.storage.sql.releasing import are_many_bytes
from mercury.storage.sql.round_trips import Call
from mercury.storage.sql.store_connections import changes_session

#: Characters of a statement in the text of an error.
LONGEST_SHOWN = 200
#: Statements that a pipeline of libpq takes, and that begin or end no transaction.
_MAY_WAIT = re.compile(r"\s*(?:insert|update|delete|merge|with|select)\b", re.IGNORECASE)


def application_call(statement: str, parameters: Mapping[str, Any], dialect: Dialect) -> Call | None:
    """A statement as the driver takes it; ``None`` = it must be executed by itself.

    By itself: what may begin or end a transaction or copy rows, what changes the session, what is too long to be
    remembered, and values of many bytes, which would be in memory twice.

    :raises StorageError: a parameter has no value.
    """
    known = len(statement) <= MOST_REMEMBERED and _MAY_WAIT.match(statement) and not changes_session(statement)
    if not known or are_many_bytes(parameters.values()):
        return None
    compiled, names, brief = _compiled(statement, dialect)
    missing = [name for name in names if name not in parameters]
    if missing:
        raise StorageError(f"the parameter {missing[0]} has no value (in {brief})")
    values = compiled.parameters(parameters)
    assert isinstance(values, dict)
    return Call(compiled.text, values, of_application=brief)


def shown(statement: str) -> str:
    """A statement in the text of an error: its beginning, in one line."""
    return shorten(statement, LONGEST_SHOWN, placeholder=" ...")


@lru_cache(maxsize=256)
def _compiled(statement: str, dialect: Dialect) -> tuple[Compiled, tuple[str, ...], str]:
    """A statement for a kind of database, the names of its parameters, and its text in errors."""
    clause = text(statement)
    compiled = compile_for(
        dialect.sql_dialect(), clause, dialect.writers, has_flags=dialect.has_flags, has_texts=dialect.has_texts
    )
    return compiled, tuple(clause.compile().params), shown(statement)
