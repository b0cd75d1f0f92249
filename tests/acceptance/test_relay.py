"""`mercury relay` as processes: a chain of two, one of which is killed again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text

from mercury import Mercury, MessageContext, Service
from mercury.engine.runtime.threads import RuntimeSettings
from tests.acceptance.processes import MERCURY, Running, eventually, get, mercury
from tests.ports import free_port
from tests.storage.shop import Order, settings

QUICK = settings(runtime=RuntimeSettings(poll=0.2))
#: Of the relays: what a killed process has left is taken up soon.
SOON = {
    "MERCURY_ENGINE_LEASE": "1",
    "MERCURY_SOURCE_RETRANSMISSION_BASE": "0.2",
    "MERCURY_SOURCE_RETRANSMISSION_CAP": "0.5",
}
ORDERS, KILLS = 60, (15, 35)


@contextmanager
def relay(folder: Path, name: str, port: int, to: str) -> Iterator[Running]:
    """A relay process that listens, and is killed at the end of the block; its store is a file of its name."""
    command = (MERCURY, "relay", "--listen", f"127.0.0.1:{port}", "--to", to)
    with Running(*command, "--store", f"sqlite:///{folder}/{name}.db", **SOON) as process:
        process.says(r"relaying (\S+) to")
        yield process


def test_relay_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/server.db"
    shop = Service("shop")

    @shop.operation("put")
    def put(order: Order, context: MessageContext) -> None:
        context.transaction.connection().execute(text("insert into taken (id) values (:id)"), {"id": order.id})

    server = Mercury(store, settings=QUICK)
    engine = create_engine(store)
    with engine.begin() as connection:
        connection.execute(text("create table taken (at integer primary key, id int)"))

    def taken() -> list[int]:
        with engine.connect() as connection:
            return list(connection.scalars(text("select id from taken order by at")))

    outer, inner = free_port(), free_port()
    #: Nobody listens at the first address of the pair.
    pair = f"masterslave:(http://127.0.0.1:{free_port()}/services/shop,http://127.0.0.1:{inner}/services/shop)"
    url = f"http://127.0.0.1:{outer}/services/shop"
    try:
        at_server = f"{server.listen(shop)}/services/shop"
        with Mercury("memory:", settings=QUICK) as client, relay(tmp_path, "inner", inner, at_server):
            sender = client.to(url)
            sent = 0
            for kill in (*KILLS, ORDERS):
                with relay(tmp_path, "outer", outer, pair):
                    while sent < kill:
                        sent += 1
                        sender.send(Order(sent), operation="put")
                    if kill == ORDERS:
                        assert get(f"127.0.0.1:{outer}", "/readyz")[0] == 200
                        assert sender.wait(30)
                        eventually(lambda: len(taken()) >= ORDERS, "everything arrives", 30)
                    else:  # then it is killed, amid what it has
                        eventually(lambda kill=kill: len(taken()) >= kill - 8, "some have arrived")  # type: ignore[misc]
        assert taken() == list(range(1, ORDERS + 1))
    finally:
        engine.dispose()
        server.stop()


def test_relay_command_refuses_to_send_to_itself(tmp_path: Path) -> None:
    port = free_port()
    to, here = f"http://127.0.0.1:{port}/services/shop", f"127.0.0.1:{port}"
    store = f"sqlite:///{tmp_path}/relay.db"
    mercury("relay", "--listen", here, "--to", to, "--store", store).refused("is this relay itself")
