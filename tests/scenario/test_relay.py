"""Messages that pass relays: each arrives once and in order, whatever crashes, and none goes round for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mercury import ConfigurationError, Mercury, MessageContext, Service, Settings, SourcePolicy
from mercury.engine.addresses import AddressPolicy
from mercury.engine.settings import EngineSettings
from mercury.relaying import MOST_HOPS, NAMESPACE, Relayed, addresses, destination, key_of, relay_service
from mercury.storage.opening import open_store
from mercury.testing import Pair
from mercury.testing.pair import Node
from mercury.wire import DEFAULT_LIMITS, Limits
from mercury.wire.mapping import to_xml
from mercury.wire.scan import limits_of_body

ORDERS = [f"<order>{number}</order>".encode() for number in range(1, 13)]
ACTION = "urn:shop/put"
#: A space to Unicode, and a character like others to XML.
BLANK = "\u00a0"


@dataclass(frozen=True)
class Seen:
    """What the server's handler got, once it is committed."""

    bodies: list[bytes]
    contexts: list[MessageContext]


class Network:
    """A client, relays with stores in files, and a server, on one wire; each relay sends to the next.

    :param limits: those of the relays; client and server have the default ones.
    """

    def __init__(self, folder: Path, relays: int, last: str = "", *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.seen = Seen([], [])
        shop = Service("shop")

        @shop.operation("put", action=ACTION)
        def put(body: bytes, context: MessageContext) -> None:
            def done() -> None:
                self.seen.bodies.append(body)
                self.seen.contexts.append(context)

            context.transaction.after_commit(done)

        shop.operation("blank", action=BLANK)(put)
        self.pair = Pair(shop)
        self.relays = []
        allowed = AddressPolicy(("*",))
        for number in range(1, relays + 1):
            host = f"relay{number}"
            settings = Settings(
                engine=EngineSettings(addresses=allowed, lease=1.0, limits=limits),
                source=SourcePolicy(batch=1),
                address=f"http://{host}",
            )
            node = Node(host, self.pair.wire, open_store(f"sqlite:///{folder}/{host}.db"), settings, None)
            following = f"http://relay{number + 1}/services/shop" if number < relays else last or self.pair.url()
            node.add_service(relay_service(node, following, "shop"))
            node.start()
            self.relays.append(node)

    def send(
        self, bodies: Sequence[bytes | None] = ORDERS, key: str = "till", action: str = ACTION, **options: object
    ) -> None:
        for body in bodies:
            self.pair.client.to("http://relay1/services/shop", key=key).send(body, action=action, **options)  # type: ignore[arg-type]

    def run(self) -> None:
        """Work until no message waits."""
        for _ in range(200):
            self.pair.advance(5.0)
            if not self.pair.waiting() and not [line for node in self.relays for line in node.waiting()]:
                return
        raise AssertionError([line for node in self.relays for line in node.waiting()])


def closed(network: Network) -> None:
    network.pair.close()
    for node in network.relays:
        node.stop()


def test_messages_pass_two_relays_in_order_with_action_header_blocks_and_time_to_live(tmp_path: Path) -> None:
    network = Network(tmp_path, relays=2)
    block = b'<t:Trace xmlns:t="urn:trace">7</t:Trace>'
    network.send([*ORDERS, None], headers=[block], expires_in=5000.0)
    network.run()
    assert network.seen.bodies == [*ORDERS, b""]
    context = network.seen.contexts[0]
    assert context.action == ACTION
    assert block in context.headers
    assert context.expires_at is not None
    assert context.expires_at == pytest.approx(network.pair.clock.now + 5000.0, abs=1000.0)
    closed(network)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_relay_that_crashes_at_every_second_commit_loses_and_repeats_nothing(tmp_path: Path, moment: str) -> None:
    network = Network(tmp_path, relays=1)
    (relay,) = network.relays
    crash = relay.store.crash_before_commit if moment == "before" else relay.store.crash_after_commit
    crash.update(range(2, 200, 2))
    network.send()
    network.send([b"<order>other</order>"], key="another till")
    network.pair.advance(600.0)
    crash.clear()
    network.run()
    assert relay.crashes > 3
    assert [body for body in network.seen.bodies if body in ORDERS] == ORDERS
    assert network.seen.bodies.count(b"<order>other</order>") == 1
    assert relay.dead_letters() == []
    closed(network)


def test_while_the_server_is_down_the_relay_keeps_what_it_has_accepted(tmp_path: Path) -> None:
    network = Network(tmp_path, relays=1)
    network.pair.server.kill()
    network.send()
    network.pair.advance(100.0)
    assert network.pair.client.waiting() == []  # the relay has all of it
    network.relays[0].crash()
    network.pair.server.restart()
    network.run()
    assert network.seen.bodies == ORDERS
    closed(network)


def test_a_message_that_comes_round_becomes_a_dead_letter(tmp_path: Path) -> None:
    network = Network(tmp_path, relays=2, last="http://relay1/services/shop")
    network.send(ORDERS[:1])
    network.run()
    (letter,) = network.relays[0].dead_letters()
    assert "loop: it has passed this relay before" in letter.reason
    assert network.relays[1].dead_letters() == []
    closed(network)


def test_a_message_that_has_passed_too_many_relays_becomes_a_dead_letter(tmp_path: Path) -> None:
    network = Network(tmp_path, relays=1)
    passed = Relayed([f"relay-{number}" for number in range(MOST_HOPS)], "key", "urn:uuid:1")
    network.send(ORDERS[:1], headers=[to_xml(passed, NAMESPACE)])
    network.run()
    (letter,) = network.relays[0].dead_letters()
    assert f"it has passed {MOST_HOPS} relays" in letter.reason
    closed(network)


def test_a_header_block_that_a_peer_has_made_up_harms_only_its_own_message(tmp_path: Path) -> None:
    network = Network(tmp_path, relays=1)
    network.send(ORDERS[:1], headers=[f'<Passed xmlns="{NAMESPACE}"/>'.encode()])
    network.send(ORDERS[1:2], headers=[to_xml(Relayed([], "k" * 5000), NAMESPACE)])
    network.run()
    (letter,) = network.relays[0].dead_letters()
    assert "the header block of relays cannot be read" in letter.reason
    assert network.seen.bodies == ORDERS[1:2]
    closed(network)


def test_a_message_that_a_relay_takes_but_could_never_send_on_becomes_a_dead_letter_and_holds_up_no_other(
    tmp_path: Path,
) -> None:
    limits = Limits(max_bytes=100_000)
    network = Network(tmp_path, relays=1, limits=limits)
    most = limits_of_body(limits)
    block = b"<t:Trace xmlns:t='urn:trace'/>"
    # What the envelope has room for here is more than the client's envelope takes.
    network.send([b"<order>%b</order>" % (b"a" * most.max_bytes)])
    # The relay's own block is one too many.
    network.send([b"<order>blocks</order>"], headers=[block] * most.max_headers)
    network.send(ORDERS[:1], headers=[block] * (most.max_headers - 1))
    network.run()
    assert sorted(letter.reason.partition(" be sent on: ")[2] for letter in network.relays[0].dead_letters()) == [
        f"the message cannot be sent: it has more than {most.max_headers} header blocks",
        f"the payload cannot be sent: the message is larger than {most.max_bytes} bytes",
    ]
    assert network.seen.bodies == ORDERS[:1]
    assert network.pair.client.waiting() == []
    closed(network)


def test_action_that_is_a_blank_of_unicode_but_not_of_xml_is_sent_on(tmp_path: Path) -> None:
    """A peer may send it, and the messages behind it would wait."""
    network = Network(tmp_path, relays=1)
    network.send(ORDERS[:1], action=BLANK)
    network.send(ORDERS[1:])
    network.run()
    assert network.seen.bodies == ORDERS
    assert network.seen.contexts[0].action == BLANK
    closed(network)


def test_header_blocks_that_a_peer_has_made_up_ask_for_few_sequences_and_never_for_that_of_another_peer() -> None:
    made_up = {key_of(f"key {number}", "evil.example") for number in range(5000)}
    assert len(made_up) == 256
    assert key_of("shop.example", "evil.example") != key_of("", "shop.example") == "shop.example"
    assert key_of("shop.example", "relay-a.example") == key_of("shop.example", "relay-b.example")  # members of a pair


def test_a_pair_is_a_list_of_addresses_that_are_tried_in_their_order() -> None:
    assert destination("masterslave:(http://a/s,http://b/s)") == "failover:(http://a/s,http://b/s)?randomize=false"
    assert destination("masterslave:(http://a/s)?timeout=5") == "failover:(http://a/s)?timeout=5&randomize=false"
    assert addresses("masterslave:(http://a/s,http://b/s)") == ("http://a/s", "http://b/s")
    assert addresses("failover:named") == ()
    with pytest.raises(ConfigurationError, match="not a list of addresses"):
        addresses("masterslave:http://a/s,http://b/s")


def test_a_relay_to_itself_and_one_in_memory_are_refused(tmp_path: Path) -> None:
    settings = replace(Settings(), address="http://relay.example:8080")
    mercury = Mercury(f"sqlite:///{tmp_path}/relay.db", settings=settings)
    with pytest.raises(ConfigurationError, match="is this relay itself"):
        relay_service(mercury, "http://RELAY.example:8080/services/shop/", "shop")
    with pytest.raises(ConfigurationError, match="not a URL"):
        relay_service(mercury, "relay.example", "shop")
    with pytest.raises(ConfigurationError, match="is this relay itself"):
        relay_service(
            mercury, "masterslave:(http://b.example/services/shop,http://relay.example:8080/services/shop)", "shop"
        )
    mercury.stop()
    in_memory = Mercury("memory:", settings=settings)
    with pytest.raises(ConfigurationError, match="a relay needs a store in a database"):
        relay_service(in_memory, "http://server.example/services/shop", "shop")
    in_memory.stop()
