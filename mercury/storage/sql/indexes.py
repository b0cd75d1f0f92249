"""The indexes of `schema` that a database does not have yet: after an upgrade of its schema, or after an upgrade that
was interrupted.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, Index, inspect

from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.schema import METADATA


def missing(connection: Connection, dialect: Dialect) -> list[Index]:
    """The indexes that are to be created. One whose creation was interrupted is missing too."""
    by_table = inspect(connection).get_multi_indexes(filter_names=list(METADATA.tables))
    present = {each["name"] for indexes in by_table.values() for each in indexes}
    present -= dialect.unfinished_indexes(connection)
    return [
        index
        for table in METADATA.sorted_tables
        for index in sorted(table.indexes, key=lambda each: str(each.name))
        if index.name not in present
    ]


def create(connection: Connection, dialect: Dialect) -> None:
    """Create the missing indexes in the transaction. No other process can write to their tables until it ends."""
    for index in missing(connection, dialect):
        index.create(connection)


def create_beside_writers(engine: Engine, dialect: Dialect) -> None:
    """Create the missing indexes while other processes write, if the database can. Each is committed on its own: after
    an interruption the next call creates the rest. If another process is creating them, they are left to it.

    :raises StorageError: an index could not be created, for example because a transaction did not end in time.
    """
    dialect.create_indexes_beside_writers(engine, lambda connection: missing(connection, dialect))
