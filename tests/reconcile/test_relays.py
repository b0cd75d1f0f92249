"""The place of a row whose message passes a relay: with the client, at the relay, or with the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from mercury import ConfigurationError, Mercury, Service
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.reconcile import Verdict, Where, make_config, reconcile
from mercury.reconcile.places import Found
from mercury.reconcile.relays import opened_on_the_way
from mercury.relaying import relay_service
from mercury.statemachine.effects import Certainty
from mercury.storage.letters import DeadLetter, Direction
from tests.acceptance.processes import eventually
from tests.ports import free_port
from tests.reconcile.shop import ORDERS, RECEIVED, changed, config, fill, keys, orders, received
from tests.storage.shop import EAGER, Order, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = settings(runtime=RuntimeSettings(poll=0.2), source=EAGER)


@dataclass
class Way:
    """A client, a relay and a server whose stores are files; the client and the relay run, the server does not."""

    urls: list[str]
    client: Mercury
    relay: Mercury
    to: str

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.client.to(self.to).send(Order(number), operation="put", correlation=f"order:{number}")

    def places(self, *numbers: int) -> dict[int, Found | None]:
        with opened_on_the_way(self.urls[0], self.urls[2], self.urls[1:2]) as places:
            found = places.of([f"order:{number}" for number in numbers])
            return {number: found.get(f"order:{number}") for number in numbers}

    def notes(self) -> list[str]:
        with opened_on_the_way(self.urls[0], self.urls[2], self.urls[1:2]) as places:
            return list(places.notes)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def way(tmp_path: Path, port: int) -> Iterator[Way]:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("client", "relay", "server")]
    with ExitStack() as stack:
        relay = stack.enter_context(Mercury(urls[1], settings=QUICK))
        stack.enter_context(Mercury(urls[2], settings=QUICK))  # makes the tables; it does not listen
        at = relay.listen(relay_service(relay, f"http://127.0.0.1:{port}/services/shop", "shop"))
        client = stack.enter_context(Mercury(urls[0], settings=QUICK))
        yield Way(urls, client, relay, f"{at}/services/shop")


def test_a_message_is_found_at_the_client_at_the_relay_and_at_the_server(way: Way, port: int) -> None:
    way.send(1, 2)
    eventually(lambda: way.client.to(way.to).pending == 0, "the relay has them")
    eventually(lambda: way.places(1)[1] in ON_THE_WAY, "they wait at the relay")
    assert way.notes() == ["relay 1: 2 messages wait, 0 dead letters"]
    assert way.places(3) == {3: None}, "what was never sent is nowhere"
    way.relay.stop()
    way.send(4)
    where = way.places(4)[4]
    assert where is not None
    assert where.where in (Where.WAITING_IN_RMS, Where.IN_FLIGHT)
    assert where.reason == "", "with the client"
    assert way.places(2)[2] in ON_THE_WAY, "also when the relay does not run"


ON_THE_WAY = (Found(Where.WAITING_IN_RMS, "at relay 1"), Found(Where.IN_FLIGHT, "at relay 1"))


def test_a_relay_that_has_passed_on_everything_is_said_to_be_empty_and_what_the_server_has_is_with_it(
    way: Way, port: int
) -> None:
    shop = Service("shop")

    @shop.operation("put")
    def put(order: Order) -> None:
        raise RuntimeError("not today")

    way.send(1, 2)
    with Mercury(way.urls[2], settings=QUICK) as server:
        server.listen(shop, port=port)
        eventually(lambda: way.places(1, 2) == dict.fromkeys((1, 2), Found(Where.IN_INVOKER_BUFFER)), "they arrive")
        eventually(lambda: way.notes() == [EMPTY], "the relay is empty")


EMPTY = "relay 1 has passed on everything that it has accepted"


def test_a_dead_letter_of_the_relay_names_it(way: Way) -> None:
    way.send(1)
    eventually(lambda: way.places(1)[1] in ON_THE_WAY, "it waits at the relay")
    with changed(way.urls[1]) as connection:
        kept = sa.text("select message_id, correlation from mercury_rms_message where correlation is not null")
        message_id, correlation = connection.execute(kept).one()
        connection.execute(sa.text("delete from mercury_rms_message where correlation is not null"))
    letter = DeadLetter(
        id="dead",
        direction=Direction.OUTBOUND,
        reason="refused",
        certainty=Certainty.NOT_DELIVERED,
        dead_at=0.0,
        message_id=message_id,
        correlation=correlation,
    )
    with way.relay.store.transaction() as tx:
        tx.dead_letters.add([letter])
    assert way.places(1)[1] == Found(Where.DEAD_LETTER, "refused (not delivered; at relay 1)")


def test_every_missing_row_has_its_place_in_the_result(
    spark: SparkSession, way: Way, postgres_database: Callable[..., str]
) -> None:
    client, server = postgres_database(), postgres_database()
    sent = orders(20)
    fill(client, ORDERS, sent)
    fill(server, RECEIVED, received(sent[2:]))
    way.send(1)
    eventually(lambda: way.places(1)[1] in ON_THE_WAY, "it waits at the relay")
    between = {"client_store": way.urls[0], "server_store": way.urls[2], "correlation": "order:{id}"}
    result = reconcile(config(client, server, **between, relay_stores=(way.urls[1],)), spark=spark)
    assert keys(result, Verdict.MISSING) == {"1", "2"}
    known = {each.key: (each.where, each.reason) for each in result.listed[Verdict.MISSING]}
    assert known["2"] == (Where.LOST, "")
    assert known["1"] in [(place.where, place.reason) for place in ON_THE_WAY]
    assert "relay 1: 1 messages wait, 0 dead letters" in result.notes
    # Without the relay's store it would count as lost: that store is part of the way.
    assert reconcile(config(client, server, **between), spark=spark).lost == 2


@pytest.mark.parametrize(
    ("stores", "said"),
    [
        ({"relays": ["sqlite:///r.db"]}, "stores.relays: name the client's and the server's store too"),
        ({"relays": ["sqlite:///r.db"], "client": "memory:", "server": "sqlite:///s.db"}, "stores.relays: name the"),
    ],
)
def test_relays_without_both_other_stores_are_refused(stores: dict[str, object], said: str) -> None:
    values = {
        "client": {"url": "sqlite:///a.db", "table": "a"},
        "server": {"url": "sqlite:///b.db", "table": "b"},
        "compare": {"key": ["id"]},
        "stores": stores,
    }
    with pytest.raises(ConfigurationError, match=said):
        make_config(values)
