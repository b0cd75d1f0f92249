"""Creates, copies and drops databases of a server, also while sessions use them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import errors, sql
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from mercury.errors import ConfigurationError, StorageError
from mercury.masking import masked

#: A name that needs no quoting in SQL, URLs and shells, and that PostgreSQL does not truncate.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
#: The timeouts of connecting and of dropping a database, in seconds.
CONNECT_TIMEOUT, DROP_TIMEOUT = 5, 30.0

END_SESSIONS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
#: Selects settings that make tests meaningless: no two-phase commit, or commits that a crash may lose.
UNSUITABLE = """
    select name, setting from pg_settings
    where name = 'max_prepared_transactions' and setting::int < 16 or name in ('fsync', 'synchronous_commit')
    and setting = 'off'
"""
PREPARED = "select gid from pg_prepared_xacts where database = current_database()"


def checked_name(name: str) -> str:
    """The name, if it is valid for a database.

    :raises ConfigurationError: it would need quoting in SQL, URLs or shells, or is too long.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(f"not a database's name: {name!r} (a letter, then up to 62 letters, digits, _ and -)")
    return name


class Databases:
    """The databases of one server.

    :param url: the URL of any database of the server, with a role that may create databases.
    :param keep: create and drop databases by one connection, which is kept until `close`: a server starts a process for
        each. Otherwise each statement has a connection of its own.
    :raises ConfigurationError: it is not the URL of a PostgreSQL database.
    """

    def __init__(self, url: str, *, keep: bool = False) -> None:
        self._keep = keep
        self._kept: psycopg.Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()
        try:
            self._url = make_url(url)
        except (ArgumentError, ValueError):  # a port that is no number; it may be a part of the password
            raise ConfigurationError("not a database's URL: postgresql://user:password@host:port/name") from None
        if self._url.get_backend_name() != "postgresql":
            raise ConfigurationError(f"not a PostgreSQL database: {masked(self._url.render_as_string())}")

    def url(self, name: str) -> str:
        """The URL of a database of the server, which need not exist.

        :raises ConfigurationError: the name is not valid.
        """
        named = self._url.set(drivername="postgresql+psycopg", database=checked_name(name))
        server, mark, options = named.render_as_string(hide_password=False).partition("?")
        # A socket's folder is written with slashes: many readers of settings interpret percent signs.
        return server + mark + options.replace("%2F", "/")

    def create(self, name: str, template: str | None = None, *, files: bool = False) -> str:
        """Create a database, empty or as a copy of another; returns its URL.

        :param files: copy the template's files, if the server is PostgreSQL 15 or newer. Otherwise its pages go through
            the log, as is the default: that takes more CPU time, but no checkpoints of the whole server.
        :raises ConfigurationError: the name is not valid.
        :raises StorageError: the database exists already, the template is in use, or the server does not answer.
        """
        url = self.url(name)
        statement = sql.SQL("create database {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" template {}").format(sql.Identifier(template))
        self._run(statement, sql.SQL(" strategy file_copy") if files else None)
        return url

    def provide(self, name: str) -> bool:
        """Create a database unless it exists; returns whether it was created.

        :raises ConfigurationError: the name is not valid.
        :raises StorageError: the server does not answer, or the role may not create databases.
        """
        try:
            self.create(name)
        except StorageError as error:
            if isinstance(error.__cause__, errors.DuplicateDatabase):
                return False
            raise
        return True

    def drop(self, name: str) -> None:
        """Drop a database if it exists. Its sessions are terminated. If PostgreSQL refuses to drop it, as it does when
        there are prepared transactions, these are rolled back first.

        :raises StorageError: it is still in use after `DROP_TIMEOUT`, or the server does not answer.
        """
        statement = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        deadline = time.monotonic() + DROP_TIMEOUT
        while True:
            try:
                self._run(statement)
                return
            except StorageError as error:
                in_use = isinstance(error.__cause__, errors.ObjectInUse)
                if not in_use or time.monotonic() > deadline:
                    raise
            self._clear(name)
            time.sleep(0.05)

    def close(self) -> None:
        """Close the connection that is kept, if there is one. What is done afterwards connects anew."""
        with self._lock:
            if self._kept is not None:
                self._kept.close()
            self._kept = None

    def check_settings(self) -> None:
        """Check that the server is suitable for tests: it must flush to disk and allow prepared transactions.

        :raises ConfigurationError: it is not suitable, or does not answer.
        """
        try:
            with self._administering() as connection:
                wrong = connection.execute(UNSUITABLE).fetchall()
        except psycopg.Error as error:
            raise ConfigurationError(f"PostgreSQL: {' '.join(str(error).split())}") from error
        if wrong:
            raise ConfigurationError(f"the server's settings are not suitable: {wrong}")

    def _clear(self, name: str) -> None:
        # A transaction that a session is preparing or finishing now fails here; the next attempt finds the rest.
        harmless = (errors.ObjectNotInPrerequisiteState, errors.UndefinedObject)
        with contextlib.suppress(psycopg.OperationalError), self._connect(name) as connection:
            connection.execute(END_SESSIONS)
            for (gid,) in connection.execute(PREPARED).fetchall():
                with contextlib.suppress(*harmless):
                    connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))

    def _run(self, statement: sql.Composed, since_15: sql.SQL | None = None) -> None:
        """Run a statement, with an option that PostgreSQL has since its version 15."""
        try:
            with self._administering() as connection:
                if since_15 is not None and connection.info.server_version >= 150_000:
                    statement += since_15
                connection.execute(statement)
        except psycopg.Error as error:
            raise StorageError(f"PostgreSQL: {' '.join(str(error).split())}") from error

    @contextlib.contextmanager
    def _administering(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection to the database of the URL, which no other thread uses meanwhile."""
        database = self._url.database or "postgres"
        if not self._keep:
            with self._connect(database) as connection:
                yield connection
            return
        with self._lock:
            if self._kept is not None:
                with contextlib.suppress(psycopg.Error):
                    self._kept.execute("select 1")  # it notices here if the server has been restarted since
            if self._kept is None or self._kept.closed:
                self._kept = self._connect(database)
            yield self._kept

    def _connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        uri = self._url.set(drivername="postgresql", database=database).render_as_string(hide_password=False)
        return psycopg.connect(uri, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
