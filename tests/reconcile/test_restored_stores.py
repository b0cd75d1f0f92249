"""Stores restored from copies: what happens, what `mercury reconcile` says, and what to do (docs/deploy.md)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from mercury import Mercury, Sender, Service, Transaction
from mercury.client.overview import waiting_by_key
from mercury.engine.source.apply_effects import FORGOTTEN, LOST_BY_DESTINATION
from mercury.reconcile import Column, Config, Result, Table, Verdict, Where, reconcile
from mercury.settings import Settings
from mercury.storage.administration import Database
from tests.acceptance.processes import eventually, mercury
from tests.ports import free_port
from tests.reconcile.shop import keys

CLIENT, SERVER = "client", "server"
TABLES = {
    CLIENT: "create table orders (id integer primary key)",
    SERVER: "create table received (arrival integer primary key autoincrement, id integer)",
}


@dataclass(frozen=True)
class Order:
    id: int


@dataclass
class Running:
    client: Mercury
    server: Mercury
    orders: Sender

    def place(self, *ids: int) -> None:
        """Each row and its message in one transaction."""
        for each in ids:
            with self.client.transaction() as tx:
                tx.connection("app").execute(
                    sa.text("insert into orders values (:id) on conflict do nothing"), {"id": each}
                )
                self.orders.send(Order(each), correlation=f"order:{each}", tx=tx)

    def unacknowledged(self) -> int:
        return sum(waiting_by_key(self.client.store).values())

    def waiting_at_the_server(self) -> int:
        return sum(each.waiting for each in self.server.sequences())

    def settle(self) -> None:
        eventually(lambda: not self.unacknowledged() and not self.waiting_at_the_server(), "every order is handled")


@dataclass
class Shop:
    """A client and a server, each with its application's table and Mercury's store in one SQLite database."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        for side, table in TABLES.items():
            with contextlib.closing(sqlite3.connect(self.folder / f"{side}.db")) as connection:
                connection.execute(table)

    def url(self, side: str) -> str:
        return f"sqlite:///{self.folder}/{side}.db"

    @contextlib.contextmanager
    def running(self) -> Iterator[Running]:
        service = Service("orders")

        @service.operation
        def place(order: Order, tx: Transaction) -> None:
            tx.connection("app").execute(sa.text("insert into received (id) values (:id)"), {"id": order.id})

        def node(side: str) -> Mercury:
            return Mercury(settings=replace(Settings(), store=self.url(side)), resources={"app": self.url(side)})

        with contextlib.ExitStack() as stack:
            server, client = node(SERVER), node(CLIENT)
            stack.callback(server.stop)
            server.listen(service, port=self.port)
            stack.callback(client.stop)
            client.start()
            to = f"http://127.0.0.1:{self.port}/services/orders"
            yield Running(client, server, client.to(to, namespace=service.namespace, listen=False))

    def copy(self) -> None:
        """Copy both databases while no process uses them, so that the copies have no claims of processes."""
        for side in (CLIENT, SERVER):
            source = sqlite3.connect(self.folder / f"{side}.db")
            target = sqlite3.connect(self.folder / f"{side}.copy")
            with contextlib.closing(source), contextlib.closing(target):
                source.backup(target)

    def restore(self, *sides: str) -> None:
        for side in sides:
            for rest in ("-wal", "-shm"):
                (self.folder / f"{side}.db{rest}").unlink(missing_ok=True)
            (self.folder / f"{side}.db").write_bytes((self.folder / f"{side}.copy").read_bytes())

    def ids(self, side: str) -> list[int]:
        query = {CLIENT: "select id from orders order by id", SERVER: "select id from received order by arrival"}
        with contextlib.closing(sqlite3.connect(self.folder / f"{side}.db")) as connection:
            return [found for (found,) in connection.execute(query[side])]

    def restart_the_sequence(self) -> None:
        """As an operator does it, while no process of the client runs."""
        listed = mercury("sequences", "list", "--output", "json", "--store", self.url(CLIENT)).value
        (alive,) = [each for each in listed if each["side"] == "source" and each["endpoint"].endswith("/orders")]
        ended = mercury("sequences", "restart", alive["identifier"], "--store", self.url(CLIENT))
        assert ended.code == 0, ended

    def reconciled(self) -> Result:
        return reconcile(
            Config(
                client=Table(url=self.url(CLIENT), name="orders", order="id"),
                server=Table(url=self.url(SERVER), name="received", order="arrival"),
                key=(Column(client="id", server="id"),),
                client_store=self.url(CLIENT),
                server_store=self.url(SERVER),
                compare=(),
                correlation="order:{id}",
                out=self.folder / "report",
            )
        )


AnyShop = TypeVar("AnyShop", bound=Shop)


def backed_up(shop: AnyShop) -> AnyShop:
    """A shop in which orders 1 to 3 were handled before the back-up, 4 to 6 afterwards."""
    with shop.running() as running:
        running.place(1, 2, 3)
        running.settle()
    shop.copy()
    with shop.running() as running:
        running.place(4, 5, 6)
        running.settle()
    return shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Orders 1 to 3 were handled before the copies were made, 4 to 6 afterwards."""
    return backed_up(Shop(tmp_path))


def test_both_sides_restored_to_one_point_go_on_from_there(shop: Shop) -> None:
    shop.restore(CLIENT, SERVER)
    with shop.running() as running:
        running.place(4, 7)
        running.settle()
    assert shop.ids(CLIENT) == shop.ids(SERVER) == [1, 2, 3, 4, 7]


@pytest.mark.parametrize("new", [(7,), (7, 8), (7, 8, 9), (7, 8, 9, 10)], ids=len)
def test_client_restored_alone_sends_nothing_although_it_has_more_messages_than_the_server(
    shop: Shop, new: tuple[int, ...]
) -> None:
    """The server has three messages that the client has forgotten. It would take up to three new ones for copies."""
    shop.restore(CLIENT)
    with shop.running() as running:
        running.place(*new)
        eventually(lambda: running.orders.last_error == FORGOTTEN, "it says what has happened")
        assert running.unacknowledged() == len(new)
    listed = mercury("sequences", "list", "--stuck", "--output", "json", "--store", shop.url(CLIENT)).value
    assert [each["last_error"] for each in listed] == [FORGOTTEN]
    assert shop.ids(SERVER) == [1, 2, 3, 4, 5, 6]
    shop.restart_the_sequence()
    with shop.running() as running:
        running.settle()
    assert shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, *new]


def test_a_client_that_starts_again_without_a_restore_goes_on(shop: Shop) -> None:
    with shop.running() as running:
        running.place(7, 8)
        running.settle()
    assert shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.usefixtures("spark")
def test_client_restored_alone_begins_a_new_sequence_before_it_starts(shop: Shop) -> None:
    shop.restore(CLIENT)
    shop.restart_the_sequence()
    found = shop.reconciled()
    assert keys(found, Verdict.UNEXPECTED) == {"4", "5", "6"}
    assert sum(found.counts.values()) == 3
    with contextlib.closing(sqlite3.connect(shop.folder / "client.db")) as connection, connection:
        # The application gets its rows back from the server, and sends no message of them.
        connection.executemany("insert into orders values (?)", [(4,), (5,), (6,)])
    with shop.running() as running:
        running.place(7, 8, 9)
        running.settle()
    assert shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert shop.reconciled().reconciled


@pytest.mark.usefixtures("spark")
def test_server_restored_alone_handles_nothing_behind_the_gap(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.restore(SERVER)
    with shop.running() as running:
        running.place(7, 8)
        eventually(lambda: running.waiting_at_the_server() == 2, "7 and 8 are received")
        eventually(lambda: running.unacknowledged() == 0, "7 and 8 are acknowledged")
        assert running.orders.last_error == LOST_BY_DESTINATION
    assert f"{LOST_BY_DESTINATION} (numbers 4-6)" in caplog.text
    (stuck,) = mercury("sequences", "list", "--stuck", "--output", "json", "--store", shop.url(CLIENT)).value
    assert stuck["why"] == LOST_BY_DESTINATION
    assert shop.ids(SERVER) == [1, 2, 3]
    found = shop.reconciled()
    places = {each.key: each.where for each in found.listed[Verdict.MISSING]}
    gap, behind = dict.fromkeys("456", Where.LOST), dict.fromkeys("78", Where.IN_INVOKER_BUFFER)
    assert places == gap | behind
    # A new sequence: what waits behind the gap of the old one is discarded, and everything missing is sent again.
    shop.restart_the_sequence()
    with shop.running() as running:
        running.place(4, 5, 6, 7, 8)
        eventually(lambda: shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, 7, 8], "every order is handled")
    assert "2 messages discarded: the sequence ended with a gap before it" in caplog.text
    assert shop.reconciled().reconciled


@pytest.mark.usefixtures("spark")
def test_server_restored_alone_with_a_new_sequence_before_it_starts(shop: Shop) -> None:
    shop.restore(SERVER)
    missing = shop.reconciled()
    assert keys(missing, Verdict.MISSING) == {"4", "5", "6"}
    assert {each.where for each in missing.listed[Verdict.MISSING]} == {Where.LOST}
    shop.restart_the_sequence()
    with shop.running() as running:
        running.place(4, 5, 6, 7)
        running.settle()
    assert shop.ids(CLIENT) == shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, 7]


def test_a_copy_that_runs_beside_the_original_gets_an_id_of_its_own(shop: Shop) -> None:
    copy = f"sqlite:///{shop.folder}/server.copy"
    with Database(shop.url(SERVER)) as original, Database(copy) as restored:
        assert original.id == restored.id
        before = original.id
        assert mercury("db", "renew-id", "--store", copy).code == 0
        assert (original.id, restored.id != before) == (before, True)
