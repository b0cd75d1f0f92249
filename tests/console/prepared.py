"""A store with everything that an operator meets.

It has a gap, a poison message, an endpoint that does not answer, dead letters of which some may have arrived, a
suspended sequence, a paused service, a node that is gone, and actions in the audit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import make_url

from mercury import DestinationPolicy, Sender, Service, Settings, SourcePolicy
from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy
from mercury.storage.audit import Actor, Via
from mercury.storage.letters import DeadLetter, Direction
from mercury.storage.nodes import Node, Traffic
from mercury.storage.opening import open_sql_store
from mercury.storage.records import Channel, SequenceKey
from mercury.storage.searching import SequenceFilter
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock, Pair

WAREHOUSE, BILLING, BANK = (
    "http://warehouse.example/services/stock",
    "http://billing.example/services/invoices",
    "https://bank.example/payments",
)
POISON = 13
GRACE = Actor("Grace Hopper", Via.CLI)
#: One request each, then a long pause: what fails is seen failing.
SLOW = Backoff(base=600.0, cap=3600.0, jitter=0.0)


@dataclass(frozen=True)
class Prepared:
    """The prepared store."""

    url: str
    clock: FakeClock
    #: The identifiers of the sequence with a gap and of that with the poison message, and of the one that is suspended.
    gap: str
    poisoned: str
    suspended: str


def order(number: int, text: str = "") -> bytes:
    return (
        f'<o:PlaceOrder xmlns:o="urn:shop"><o:id>{number}</o:id><o:customer>Ada &amp; Sons</o:customer>'
        f'<o:note>{text}</o:note><o:items><o:item count="2">lamp</o:item><o:item>bulb</o:item></o:items></o:PlaceOrder>'
    ).encode()


def orders(poison: int, policy: DestinationPolicy) -> Service:
    service = Service("orders", namespace="urn:shop", policy=policy)

    @service.operation(action="urn:shop/PlaceOrder")
    def place_order(body: bytes) -> None:
        if f"<o:id>{poison}</o:id>".encode() in body:
            raise LookupError(f"no article for order {poison}")

    return service


def returns() -> Service:
    service = Service("returns", namespace="urn:shop")

    @service.operation(action="urn:shop/Return", response_action="urn:shop/Returned")
    def give_back(body: bytes) -> bytes:
        return b'<r:Returned xmlns:r="urn:shop"/>'

    return service


def stock() -> Service:
    service = Service("stock", namespace="urn:stock")

    @service.operation(action="urn:stock/Reserve")
    def reserve(body: bytes) -> None:
        """Nothing."""

    return service


def prepare(folder: Path, text: Callable[[str], str] = lambda _field: "") -> Prepared:
    """Make the store in a folder.

    :param text: a text for each field that a peer or an application writes, for what an attacker would put there.
    """
    url = f"sqlite:///{folder / 'shop.db'}"
    clock = FakeClock()
    policy = DestinationPolicy(redelivery=SLOW)
    again = RetransmissionPolicy(base=60.0, cap=600.0, jitter=0.0)
    prices = Service("prices", namespace="urn:shop", policy=policy)

    @prices.operation(action="urn:shop/SetPrice")
    def set_price(body: bytes) -> None:
        """Nothing."""

    store = open_sql_store(url)
    store.clock = clock
    with Pair(
        orders(POISON, policy),
        returns(),
        prices,
        client_services=[stock()],
        listen=True,
        settings=Settings(source=SourcePolicy(batch=1, retransmission=again)),
        server_store=store,
        clock=clock,
    ) as pair:
        _receive(pair, store, text)
        _send(pair, text)
        clock.now += 95.0
        return _steered(store, url, clock, text)


def copied(made: Prepared, folder: Path) -> Prepared:
    """A copy of a prepared store, at the same time."""
    shutil.copy(make_url(made.url).database or "", folder / "shop.db")
    return replace(made, url=f"sqlite:///{folder / 'shop.db'}", clock=FakeClock(made.clock.now))


def refuse_store(store: SqlStore, key: str) -> str:
    """Let another store have answered for the destination of a source; returns its endpoint."""
    with store.transaction() as tx:
        (record,) = [each for each in tx.rms.all() if each.channel.key.name == key and each.machine.alive]
        endpoint = record.channel.endpoint
        tx.rms.lock([record.channel.key])
        record.store = tx.peer_stores.agree(endpoint, "s1", 1.0)
        tx.rms.save(record)
        tx.peer_stores.refuse(endpoint, "s2", "http://elsewhere/", 2.0)
    return endpoint


def _receive(pair: Pair, store: SqlStore, text: Callable[[str], str]) -> None:
    def sender(service: str, key: str) -> Sender:
        made: Sender = pair.client.to(pair.url(service), key=key, namespace="urn:shop")
        return made

    good, poisoned, gap = sender("orders", "shop-1"), sender("orders", "shop-13"), sender("orders", "shop-7")
    for number in range(1, 6):
        good.send(order(number), action="urn:shop/PlaceOrder")
    pair.wire.run()
    for number in (12, POISON, 14, 15, 16):
        poisoned.send(order(number, text("payload")), action="urn:shop/PlaceOrder")
        pair.wire.run()
    for number in (3, 4):
        pair.wire.lose(f"message {number}", times=50)
    for number in range(70, 79):
        gap.send(order(number), action="urn:shop/PlaceOrder")
    pair.wire.run()
    pair.clock.now += 45
    Operations(store, pair.clock).service_actions.pause("prices", GRACE, reason="the new price list is wrong")
    for number in (31, 32):
        sender("prices", "prices").send(order(number), action="urn:shop/SetPrice")
    pair.wire.run()


def _send(pair: Pair, text: Callable[[str], str]) -> None:
    good = pair.server.to("http://client/services/stock", key="shelf-1", namespace="urn:stock")
    for number in range(1, 8):
        good.send(order(number), action="urn:stock/Reserve", correlation=f"reserve-{number}")
    pair.wire.run()
    for key in ("north", "south"):
        away = pair.server.to(WAREHOUSE, key=f"{key}{text('key')}")
        for number in range(1, 4):
            away.send(
                order(number, text("payload")),
                action=f"urn:stock/Reserve{text('action')}",
                correlation=f"{key}-{number}{text('correlation')}",
            )
    pair.wire.run()


def _steered(store: SqlStore, url: str, clock: FakeClock, text: Callable[[str], str]) -> Prepared:
    """What operators and other processes have left."""
    operations = Operations(store, clock)
    letters = [
        *(_letter(number, BILLING, "given up after 10 transmissions", clock.now - 500, text) for number in range(1, 8)),
        *(_letter(number, BANK, "expired", clock.now - 300, text, Certainty.UNKNOWN) for number in range(8, 10)),
        _received(10, clock.now - 100, text),
    ]
    with store.transaction() as tx:
        tx.dead_letters.add(letters)
    for node in _nodes(clock.now, text):
        store.note_node(node)
    _note_traffic(store, clock.now, text)
    lines = operations.sequences.page(SequenceFilter(), limit=100).items
    (suspended,) = [each for each in lines if each.status.key.startswith("south")]
    operations.sequence_actions.suspend(suspended.id, GRACE, reason=f"the warehouse moves {text('reason')}")
    received = [each for each in lines if each.status.side.value == "destination"]
    (gap,) = [each.id for each in received if each.why is not None and "not arrived" in each.why]
    (poisoned,) = [each.id for each in received if each.why is not None and "handler has failed" in each.why]
    return Prepared(url, clock, gap, poisoned, suspended.id)


def _letter(
    number: int,
    endpoint: str,
    reason: str,
    at: float,
    text: Callable[[str], str],
    certainty: Certainty = Certainty.NOT_DELIVERED,
) -> DeadLetter:
    key = SequenceKey(endpoint, f"customer-{number % 3}{text('key')}")
    return DeadLetter(
        id=f"letter-{number}",
        direction=Direction.OUTBOUND,
        reason=f"{reason}{text('reason')}",
        certainty=certainty,
        dead_at=at + number,
        message_id=f"urn:uuid:00000000-0000-4000-8000-{number:012}{text('message_id')}",
        endpoint=endpoint,
        key=key.name,
        action=f"urn:shop/Invoice{text('action')}",
        payload=order(number, text("payload")),
        correlation=f"invoice-{number}{text('correlation')}",
        created_at=at - 3600,
        channel=Channel(key=key),
    )


def _received(number: int, at: float, text: Callable[[str], str]) -> DeadLetter:
    return DeadLetter(
        id=f"letter-{number}",
        direction=Direction.INBOUND,
        reason=f"LookupError: no article for order 99{text('error')}",
        certainty=Certainty.NOT_DELIVERED,
        dead_at=at,
        message_id=f"urn:uuid:00000000-0000-4000-8000-{number:012}{text('message_id')}",
        endpoint="orders",
        sequence=f"urn:uuid:sequence{text('sequence')}",
        number=4,
        action="urn:shop/PlaceOrder",
        payload=order(99, text("payload")),
        element=f"{{urn:shop}}PlaceOrder{text('element')}",
        created_at=at - 60,
        headers=(f'<h:Trace xmlns:h="urn:h">{text("header")}</h:Trace>'.encode(),),
        relates_to=f"urn:uuid:request{text('relates_to')}",
        disowned=True,
    )


def _note_traffic(store: SqlStore, now: float, text: Callable[[str], str]) -> None:
    """What two processes have done in the last hour; the handler of orders has begun to fail."""
    for ago in range(60):
        busy = 60 - ago % 20
        failures = 12 if ago < 4 else 0
        calls = Traffic("orders", received=busy * 4, delivered=busy * 4, calls=busy * 4 + failures, failures=failures)
        sent = Traffic(transmitted=busy * 3, repeated=busy if ago < 9 else 0)
        found = [replace(calls, seconds=0.0123 * calls.calls), sent]
        if text("service"):
            found.append(Traffic(f"s{text('service')}", received=1))
        store.add_traffic("app-1-4711", now - 60 * ago, found)


def _nodes(now: float, text: Callable[[str], str]) -> list[Node]:
    def node(name: str, pid: int, seen: float) -> Node:
        return Node(
            id=f"{name}-{pid}",
            host=f"{name}{text('host')}",
            pid=pid,
            version="0.1.0",
            started_at=now - 86_400,
            seen_at=now - seen,
            services=("orders", "prices", "returns", *([f"s{text('service')}"] if text("service") else [])),
            roles=("sends", "serves"),
            threads=24,
            queue=0,
        )

    return [node("app-1", 4711, 4.0), node("app-2", 815, 380.0)]
