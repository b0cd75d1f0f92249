"""An offer that was refused stays dropped over a restart, in each kind of store."""

from __future__ import annotations

from mercury import Service, Settings, SourcePolicy
from mercury.statemachine.messages import CreateSequence
from mercury.testing import Flight, Pair
from tests.scenario.foreign import RM10_SOAP12, Foreign

ACTION = "urn:shop/put"
ORDER = b'<order xmlns="urn:shop">1</order>'


def asked(pair: Pair) -> tuple[Flight, str, bool]:
    """The CreateSequence that is posted next, its MessageID, and whether it makes an offer; it does not arrive."""
    for _ in range(100):
        pair.wire.turn()
        if pair.wire.flights:
            break
        pair.clock.now += 1
    (flight,) = pair.wire.flights
    pair.wire.flights.clear()
    envelope = flight.envelope
    assert isinstance(envelope.body, CreateSequence)
    return flight, envelope.message_id or "", envelope.body.offer is not None


def test_restart_after_the_refusal_of_an_offer_asks_without_one(any_url: str) -> None:
    seen: list[bytes] = []
    shop = Service("shop")

    @shop.operation("put", action=ACTION)
    def put(body: bytes) -> None:
        seen.append(body)

    pair = Pair(shop, client_store=any_url, settings=Settings(source=SourcePolicy(protocol=RM10_SOAP12, batch=1)))
    pair.to().send(ORDER, action=ACTION)
    flight, first, offers = asked(pair)
    assert offers
    assert flight.exchange is not None
    flight.exchange.over = True
    refusal = Foreign(RM10_SOAP12).fault("CreateSequenceRefused", relates_to=first)
    flight.exchange.process.answered(flight.exchange.outgoing, refusal)
    pair.wire.flights.clear()
    pair.client.crash()
    _, second, offers = asked(pair)
    assert (second != first, offers) == (True, False)
    _, again, offers = asked(pair)
    assert (again, offers) == (second, False)
    pair.advance(60)
    assert seen == [ORDER]
    assert pair.client.dead_letters() == []
    pair.close()
