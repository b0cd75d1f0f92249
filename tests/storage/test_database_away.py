"""A database that fails under load and comes back: committed work is kept, and other work is repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, text

from mercury import DestinationPolicy, Mercury, MessageContext, Service, StorageError
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.errors import OutcomeUnknown
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.statemachine.retransmission import RetransmissionPolicy
from tests.acceptance.processes import eventually

from .shop import Order, settings

ORDERS = 120
#: The number of orders after which the database is killed.
KILLS = (30, 70)
SOON = DestinationPolicy(redelivery=RetransmissionPolicy(base=0.05, cap=0.1))


def service() -> Service:
    """Writes each order into its own table, in the transaction that consumes it."""
    taking = Service("shop", policy=SOON)

    @taking.operation("put")
    def put(order: Order, context: MessageContext) -> None:
        connection = context.transaction.connection()
        connection.execute(text("insert into taken (id) values (:id)"), {"id": order.id})

    return taking


@contextmanager
def engine(url: str, table: str) -> Iterator[Engine]:
    made = create_engine(url, pool_pre_ping=True)
    with made.begin() as connection:
        connection.execute(text(f"create table {table} (at serial, id int)"))
    yield made
    made.dispose()


def place_all(client: Mercury, url: str, progress: list[int], stopped: threading.Event) -> None:
    """What a careful application does: a row of its own and the message in one transaction, again until it is there."""
    sender = client.to(url)
    for number in range(1, ORDERS + 1):
        while not stopped.is_set():
            try:
                with client.transaction() as tx:
                    mine = tx.connection()
                    known = mine.execute(text("select 1 from placed where id = :id"), {"id": number}).first()
                    if known is None:
                        mine.execute(text("insert into placed (id) values (:id)"), {"id": number})
                        sender.send(Order(number), operation="put", tx=tx)
                break
            except (StorageError, OutcomeUnknown):
                stopped.wait(0.05)
            except Exception as error:
                known_error = tx.translate(error)  # what SQLAlchemy raises for the application's own statements
                if known_error is None:
                    raise
                stopped.wait(0.05)
        progress.append(number)


def test_a_database_that_is_killed_under_load_loses_nothing_and_repeats_nothing(
    own_postgres: EmbeddedPostgres,
) -> None:
    at_server, at_client = own_postgres.create_database("server"), own_postgres.create_database("client")
    quick = settings(runtime=RuntimeSettings(poll=0.2))
    stopped = threading.Event()
    progress: list[int] = []
    with engine(at_server, "taken") as taken, engine(at_client, "placed") as placed:
        server, client = Mercury(at_server, settings=quick), Mercury(at_client, settings=quick)
        thread: threading.Thread | None = None
        try:
            url = f"{server.listen(service())}/services/shop"
            client.start()
            thread = threading.Thread(target=place_all, args=(client, url, progress, stopped))
            thread.start()
            for kill in KILLS:
                eventually(lambda kill=kill: len(progress) >= kill, "there is load")  # type: ignore[misc]
                own_postgres.kill()
                own_postgres.start()
            thread.join(60)

            def orders(of: Engine, table: str) -> list[int]:
                with of.connect() as connection:
                    return list(connection.scalars(text(f"select id from {table} order by at")))

            expected = list(range(1, ORDERS + 1))
            assert orders(placed, "placed") == expected
            assert client.to(url).wait(60)
            eventually(lambda: len(orders(taken, "taken")) >= ORDERS, "all are handled", 60)
            assert orders(taken, "taken") == expected
            assert client.dead_letters() == server.dead_letters() == []
            assert server.watch.readiness() == client.watch.readiness() == {"workers": "ok", "store": "ok"}
        finally:
            stopped.set()
            if thread is not None:
                thread.join(60)
            client.stop()
            server.stop()
