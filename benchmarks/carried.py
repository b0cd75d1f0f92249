"""Mercury's processes in `queued_transaction`: the server, and the workers that carry what the application commits."""

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


def serve(store: str, database: str, port: int) -> Mercury:
    service = Service("rows")
    insert = sa.text("insert into received(id, text) values (:id, :text)")

    @service.operation("Put")
    def put(row: Row, tx: Transaction) -> None:
        tx.connection("app").execute(insert, {"id": row.id, "text": row.text})

    mercury = Mercury(store, resources={"app": database})
    mercury.listen(service, port=port)
    return mercury


def main() -> None:
    role, store, database, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    if role == "serve":
        mercury = serve(store, database, port)
    else:
        mercury = Mercury(store, resources={"app": database})
        mercury.start()
    ended.wait()
    mercury.stop()


if __name__ == "__main__":
    main()
