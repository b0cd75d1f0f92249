"""Mercury's processes in `queued_transaction`: the server, and the process that sends what the application commits."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass

import sqlalchemy as sa

from mercury import Mercury, Service, Transaction


@dataclass
class Row:
    id: int
    text: str


@dataclass
class Done:
    """The response to a row, with ``--mode in-out``."""

    id: int


#: The callback for responses.
CONFIRMED = "confirmed"


def serve(store: str, database: str, port: int) -> Mercury:
    service = Service("rows")
    insert = sa.text("insert into received(id, text) values (:id, :text)")

    @service.operation("Put")
    def put(row: Row, tx: Transaction) -> None:
        tx.connection("app").execute(insert, {"id": row.id, "text": row.text})

    @service.operation("Ask")
    def ask(row: Row, tx: Transaction) -> Done:
        put(row, tx)
        return Done(row.id)

    mercury = Mercury(store, resources={"app": database})
    mercury.listen(service, port=port)
    return mercury


def carry(store: str, database: str) -> Mercury:
    mercury = Mercury(store, resources={"app": database})
    insert = sa.text("insert into confirmed(id) values (:id)")

    @mercury.callback(CONFIRMED)
    def confirm(done: Done, tx: Transaction) -> None:
        tx.connection("app").execute(insert, {"id": done.id})

    mercury.start()
    return mercury


def main() -> None:
    role, store, database, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    mercury = serve(store, database, port) if role == "serve" else carry(store, database)
    ended.wait()
    mercury.stop()


if __name__ == "__main__":
    main()
