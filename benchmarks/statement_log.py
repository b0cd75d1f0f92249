"""The statements of a while, counted by side from PostgreSQL's log: whatever driver sent them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.ways import connect
from mercury.postgres.embedded import EmbeddedPostgres

#: Parts of the statements of the benchmarks themselves.
OWN = ("pg_current_wal_insert_lsn", "count(*) from", "max(arrival)", "alter system", "pg_reload_conf", "checkpoint")
_STATEMENT = re.compile(r"^@\w+_(client|server)@LOG:  (?:statement|execute [^:]*): (.*(?:\n\t.*)*)", re.MULTILINE)
_ALONE = ("SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "COMMIT", "PREPARE")
#: Words behind "from" that are no tables.
_NO_TABLES = frozenset({"set", "unnest", "of", "steps"})


class NothingLogged(Exception):
    """The statements were not written to the log."""


@contextmanager
def logged_statements(postgres: EmbeddedPostgres, database: str) -> Iterator[dict[str, Counter[str]]]:
    """Count the statements in databases whose names end in ``_client`` or ``_server``; complete after the block.

    :param database: the URL of a database of the server with such a name.
    :raises NothingLogged: not even the statement that ends the log is in it, so a count of none means nothing.
    """
    found: dict[str, Counter[str]] = {"client": Counter(), "server": Counter()}
    _switch(database, "all")
    begin = postgres.log.stat().st_size
    yield found
    _switch(database, "none")
    with postgres.log.open("rb") as log:
        log.seek(begin)
        text = log.read().decode(errors="replace")
    logged = _STATEMENT.findall(text)
    if not any("alter system" in statement for _, statement in logged):
        raise NothingLogged("PostgreSQL has logged no statement")
    for side, statement in logged:
        if not any(part in statement for part in OWN):
            found[side][short(statement)] += 1


def _switch(database: str, which: str) -> None:
    with connect(database, autocommit=True) as connection:
        connection.execute(f"alter system set log_statement = '{which}'".encode())
        connection.execute("alter system set log_line_prefix = '@%d@'")
        connection.execute("select pg_reload_conf()")
    time.sleep(0.2)  # the sessions read it between two statements


def short(statement: str) -> str:
    """A statement by its verb and its tables."""
    text = re.sub(r"\s+", " ", statement).strip()
    verb = text.split(" ")[0].upper().rstrip(";")
    if verb in _ALONE:
        return "ROLLBACK TO" if verb == "ROLLBACK" and " TO " in text.upper() else verb
    tables = re.findall(r"\b(?:from|into|update|join) ([a-z_.]+)", text, re.IGNORECASE)
    named = ", ".join(dict.fromkeys(table for table in tables if table not in _NO_TABLES))
    lock = " FOR UPDATE" if "FOR UPDATE" in text.upper() else ""
    return f"{verb} {named}{lock}" if named else text[:60]
