"""The tables of the client and of the server: ``python -m samples.plain_outbox.tables CLIENT.db SERVER.db``."""

import sqlite3
import sys
from contextlib import closing

OUTBOX = """
    create table if not exists outbox (
        id integer primary key, batch text not null, number integer not null,
        body text not null, checksum text not null,
        sent integer not null default 0
    )
"""
# Without a unique key on the message, so that what is posted twice has two rows.
INBOX = """
    create table if not exists inbox (
        id integer primary key, batch text not null, number integer not null,
        body text not null, checksum text not null,
        received_at real not null
    )
"""


def main(client: str, server: str) -> None:
    for file, table in ((client, OUTBOX), (server, INBOX)):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.execute(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
