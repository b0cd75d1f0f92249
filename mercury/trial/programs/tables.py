"""The tables of the built-in programs, and the statements that their steps are recognised by."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Connection, DateTime, Float, Identity, MetaData, Table, Text, func, text

CLIENT, SERVER = MetaData(), MetaData()

#: A row is a message to send: the trial inserts it, the client program takes it.
OUTGOING = Table(
    "trial_outgoing",
    CLIENT,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("branch", Text, nullable=False, index=True),
    Column("number", BigInteger, nullable=False),
    Column("kind", Text, nullable=False, server_default="text"),
    Column("size", BigInteger, nullable=False, server_default="100"),
    Column("way", Text, nullable=False, server_default="in-only"),
    Column("checksum", Text, nullable=False),
    #: Seconds that the message may take; null = any time.
    Column("expires_in", Float),
    Column("sent_at", DateTime(timezone=True), index=True),
)


def _arrivals(name: str, metadata: MetaData) -> Table:
    """Without a unique key on the message, so that what is delivered twice has two rows."""
    return Table(
        name,
        metadata,
        Column("arrival", BigInteger, Identity(), primary_key=True),
        Column("branch", Text, nullable=False, index=True),
        Column("number", BigInteger, nullable=False),
        Column("checksum", Text, nullable=False),
        Column("received_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    )


ANSWERS = _arrivals("trial_answers", CLIENT)
INCOMING = _arrivals("trial_incoming", SERVER)

#: A row is a transaction of the active member of a pair, in which no message takes part.
MEMBERS = Table(
    "trial_members",
    SERVER,
    Column("arrival", BigInteger, Identity(), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)

NEXT = text(
    "SELECT id, branch, number, kind, size, way, expires_in FROM trial_outgoing"
    " WHERE sent_at IS NULL ORDER BY id LIMIT 20"
)


@dataclass(frozen=True)
class Row:
    """A message to send."""

    id: int
    branch: str
    number: int
    kind: str
    size: int
    way: str
    expires_in: float | None


def next_rows(connection: Connection) -> list[Row]:
    """The first rows that are not taken, at most 20."""
    return [Row(*found) for found in connection.execute(NEXT)]


def take(connection: Connection, row: Row) -> bool:
    """Take a row in the transaction of the connection; false = another transaction has taken it."""
    # The comment is what the trial's link recognises the step by: a branch is made of letters, digits and - only.
    statement = (
        f"UPDATE trial_outgoing SET sent_at = clock_timestamp() "  # noqa: S608 - numbers, and a checked name
        f"WHERE id = {row.id:d} AND sent_at IS NULL /* send {checked(row.branch)} {row.number:d}; */"
    )
    return connection.exec_driver_sql(statement).rowcount == 1


def add(connection: Connection, table: Table, what: str, branch: str, number: int, checksum: str) -> None:
    """Insert what has arrived.

    :param what: ``handle`` or ``settle``, in the comment of the statement.
    """
    statement = (
        f"INSERT INTO {table.name} (branch, number, checksum) "  # noqa: S608 - numbers, and checked names
        f"VALUES ('{checked(branch)}', {number:d}, '{checked(checksum)}') /* {what} {branch} {number:d}; */"
    )
    connection.exec_driver_sql(statement)


def note_member(connection: Connection, epoch: int, number: int) -> None:
    """Insert the row of the active member of a pair.

    :param epoch: the member's.
    :param number: another one at each call: the driver sends the text of a statement that it repeats only once.
    """
    connection.exec_driver_sql(f"INSERT INTO {MEMBERS.name} (epoch) VALUES ({epoch:d}) /* write {number:d} */")  # noqa: S608


def checked(name: str) -> str:
    """
    :raises ValueError: the name would need quoting.
    """
    if not name.replace("-", "").isalnum() or not name.isascii():
        raise ValueError(f"not a name of letters, digits and -: {name!r}")
    return name
