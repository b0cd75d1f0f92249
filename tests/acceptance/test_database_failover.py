"""The databases of both sides fail over to a synchronous standby while messages are sent."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from mercury import Mercury, MessageContext, Sender, Service
from mercury.engine.source.apply_effects import FORGOTTEN
from mercury.errors import StorageError
from mercury.settings import Settings, XaSettings
from tests.acceptance.processes import eventually
from tests.patience import patience
from tests.standby import DatabasePair

COUNT = 40
#: The primary is killed when so many messages are sent.
BEFORE = 15


@dataclass(frozen=True)
class Order:
    id: int


@pytest.fixture
def databases() -> Iterator[DatabasePair]:
    with tempfile.TemporaryDirectory(prefix="mercury-") as folder:
        Path(folder).chmod(0o755)
        with DatabasePair(Path(folder)) as pair:
            for name in ("client", "app", "server"):
                pair.primary.create_database(name)
            # A number that is stored twice must be seen in `taken`. In `sent` the key finds a transaction in doubt too.
            for name, table, key in (("app", "sent", "primary key"), ("server", "taken", "")):
                engine = create_engine(pair.url(name))
                with engine.begin() as connection:
                    connection.execute(text(f"create table {table} (position serial, id integer {key})"))
                engine.dispose()
            yield pair


def rows(url: str, statement: str) -> list[int]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return [row[0] for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


def test_nothing_is_lost_repeated_or_left_prepared_when_the_databases_fail_over(databases: DatabasePair) -> None:
    orders, halfway, sent = Service("orders"), threading.Event(), threading.Event()

    @orders.operation
    def put(order: Order, context: MessageContext) -> None:
        context.transaction.connection().execute(text("insert into taken (id) values (:id)"), {"id": order.id})

    settings = replace(Settings(), xa=XaSettings(lease=0.5, interval=0.1))
    app = databases.url("app")
    with (
        Mercury(databases.url("server"), settings=settings) as server,
        Mercury(databases.url("client"), resources={"app": app}, settings=settings) as client,
    ):
        sender = client.to(f"{server.listen(orders)}/services/orders")

        def send(number: int) -> None:
            """The application's row and the message are committed together, in two phases; a failure is tried again
            unless the row says that it was committed."""

            def is_stored() -> bool:
                try:
                    if rows(app, f"select id from sent where id = {number}"):
                        return True
                    with client.transaction() as tx:
                        tx.connection("app").execute(text("insert into sent (id) values (:id)"), {"id": number})
                        sender.send(Order(number), tx=tx)
                except Exception:
                    return False
                return True

            eventually(is_stored, f"message {number} is stored")

        def send_all() -> None:
            for number in range(COUNT):
                send(number)
                if number == BEFORE:
                    halfway.set()
            sent.set()

        sending = threading.Thread(target=send_all)
        sending.start()
        assert halfway.wait(patience(60.0))
        databases.fail_over()
        assert sent.wait(patience(120.0))
        sending.join()
        eventually(lambda: sender.pending == 0, "everything is acknowledged")
        taken = databases.url("server")
        eventually(lambda: len(rows(taken, "select id from taken")) >= COUNT, "everything is handled")
        assert rows(app, "select id from sent order by position") == list(range(COUNT))
        assert rows(taken, "select id from taken order by position") == list(range(COUNT))
        eventually(lambda: rows(taken, "select 1 from pg_prepared_xacts") == [], "nothing is left prepared")
        assert databases.primary.pid is None, "the old primary is fenced"


def test_messages_after_the_loss_of_the_last_commits_wait_instead_of_being_taken_for_copies(
    databases: DatabasePair,
) -> None:
    """The standby of the client's database was not synchronous, and lacks messages that the server has handled. Their
    numbers would be given to other messages, which the server would acknowledge without handling them."""
    orders, handled = Service("orders"), []

    @orders.operation
    def put(order: Order) -> None:
        handled.append(order.id)

    with Mercury("memory:") as server, Mercury(databases.url("client")) as client:
        sender = client.to(f"{server.listen(orders)}/services/orders")

        def send(*numbers: int) -> None:
            for number in numbers:
                eventually(lambda number=number: _stored(sender, number), f"message {number} is stored")

        send(1, 2, 3)
        eventually(lambda: sender.pending == 0, "everything is acknowledged")
        databases.stop_replication()
        send(4, 5, 6)
        eventually(lambda: sender.pending == 0, "everything is acknowledged")
        databases.fail_over()
        send(7, 8)
        eventually(lambda: sender.last_error == FORGOTTEN, "it says what has happened")
        assert sender.pending == 2
        assert handled == [1, 2, 3, 4, 5, 6]


def _stored(sender: Sender, number: int) -> bool:
    try:
        sender.send(Order(number))
    except StorageError:
        return False
    return True
