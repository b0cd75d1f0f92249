"""The tables of a trial: where it inserts what is to be sent, and reads what has arrived."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnClause,
    Engine,
    MetaData,
    Select,
    TableClause,
    column,
    create_engine,
    func,
    insert,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.opening import open_sql_store
from mercury.trial.judging import ArrivedRow
from mercury.trial.programs.messages import Kind, checksum, content
from mercury.trial.programs.tables import CLIENT, SERVER
from mercury.trial.scenario import Compared, Content, Members

#: The key of the steady stream's messages.
STREAM = "stream"
#: How the reason of a dead letter begins whose time to live is over.
EXPIRED = "expired"


class TrialTables:
    """Connections of the trial's own, beside the links.

    :param urls: the URLs of the databases by name.
    """

    def __init__(self, urls: dict[str, str]) -> None:
        self._engines = {name: create_engine(url, pool_pre_ping=True) for name, url in urls.items()}

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def make(self) -> None:
        """Make the tables of the built-in programs, the client's in the database ``client``, and Mercury's.

        :raises StorageError: a database does not answer.
        """
        for name, engine in self._engines.items():
            self._make(engine, {"client": CLIENT, "relay": MetaData()}.get(name, SERVER))

    def _make(self, engine: Engine, tables: MetaData) -> None:
        tables.create_all(engine)
        open_sql_store(_url(engine)).close()

    def left(self, database: str) -> int:
        """How many messages wait in the store of a database, dead letters included that have not expired.

        :raises StorageError: it does not answer.
        """
        store = open_sql_store(_url(self._engines[database]))
        try:
            gauges = store.gauges(time.time())
        finally:
            store.close()
        waiting = sum(gauges.waiting.values()) + sum(gauges.uncounted.values())
        letters = sum(count for (_, reason), count in gauges.dead_letters.items() if not reason.startswith(EXPIRED))
        return waiting + letters + gauges.letters_uncounted

    def insert(self, into: Compared, branch: str, numbers: Sequence[int], what: Content, expiring: set[int]) -> None:
        """Insert messages to send, in one transaction.

        :param expiring: the numbers of those with the content's time to live.
        :raises TransientStorageError: the database is away: the rows may be there or not.
        """
        rows = [self._row(into, branch, number, what, number in expiring) for number in numbers]
        names = list(rows[0])
        try:
            with self._engines[into.database].begin() as connection:
                connection.execute(insert(_table(into, names)), rows)
        except DBAPIError as error:
            raise TransientStorageError(f"{into.table}: {error.orig}") from error

    def _row(self, into: Compared, branch: str, number: int, what: Content, expires: bool) -> dict[str, Any]:
        data = content(branch, number, Kind(what.kind), what.size)
        row: dict[str, Any] = {into.branch: branch, into.number: number}
        if into.checksum is not None:
            row[into.checksum] = checksum(data)
        if into.body is not None:
            row[into.body] = data.decode()
        if into.describes:
            row |= {"kind": what.kind, "size": what.size, "way": "in-out" if what.answered else "in-only"}
            row["expires_in"] = what.expires_in if expires else None
        return row

    def arrived(self, of: Compared, branch: str, since: int = 0) -> list[ArrivedRow]:
        """What has arrived of a branch, in the order of arrival.

        :param since: a message number: lower ones are left out.
        :raises TransientStorageError: the database is away.
        :raises StorageError: the table has not the columns that the scenario names.
        """
        names = [name for name in (of.number, of.checksum, of.at) if name is not None]
        columns: dict[str, ColumnClause[Any]] = {
            name: column(name) for name in {*names, of.branch, *([of.arrival] if of.arrival else [])}
        }
        number = columns[of.number]
        chosen = [columns[name] for name in names]
        query = select(*chosen).select_from(_table(of, list(columns)))
        query = query.where(columns[of.branch] == branch, number >= since)
        query = query.order_by(columns[of.arrival] if of.arrival else number)
        try:
            with self._engines[of.database].connect() as connection:
                rows = [dict(zip(names, row, strict=True)) for row in connection.execute(query)]
        except DBAPIError as error:
            if "no such table" in str(error) or "does not exist" in str(error) or "no such column" in str(error):
                raise StorageError(f"{of.table}: {error.orig}") from error
            raise TransientStorageError(f"{of.table}: {error.orig}") from error
        except SQLAlchemyError as error:
            raise StorageError(f"{of.table}: {error}") from error
        return [
            ArrivedRow(
                int(row[of.number]),
                str(row[of.checksum]) if of.checksum is not None else "",
                _seconds(row[of.at]) if of.at is not None else None,
            )
            for row in rows
        ]

    def last_of_members(self, of: Members) -> int:
        """The position of the last row of a table of members; 0 = it is empty, or the database is away."""
        rows = table(of.table, column(of.arrival))
        query: Select[tuple[Any]] = select(func.max(rows.c[of.arrival]))
        try:
            with self._engines[of.database].connect() as connection:
                return int(connection.scalar(query) or 0)
        except DBAPIError:
            return 0

    def by_replaced(self, of: Members, since: int) -> list[int]:
        """The epochs of rows that a member has written after another one had replaced it.

        :param since: a position: rows up to it are left out.
        :raises TransientStorageError: the database is away.
        """
        row, earlier = (table(of.table, column(of.arrival), column(of.epoch)).alias(each) for each in ("a", "b"))
        last = select(func.max(earlier.c[of.epoch])).where(earlier.c[of.arrival] < row.c[of.arrival]).correlate(row)
        query = select(row.c[of.epoch]).where(row.c[of.arrival] > since, row.c[of.epoch] < last.scalar_subquery())
        try:
            with self._engines[of.database].connect() as connection:
                return [int(epoch) for epoch in connection.scalars(query)]
        except DBAPIError as error:
            raise TransientStorageError(f"{of.table}: {error.orig}") from error


def _url(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def _table(of: Compared, names: Sequence[str]) -> TableClause:
    return table(of.table, *(column(name) for name in names))


def _seconds(value: object) -> float | None:
    match value:
        case datetime():
            return value.timestamp()
        case int() | float():
            return float(value)
        case _:
            return None
