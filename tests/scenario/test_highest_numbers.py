"""All twelve combinations of versions, listening or not, send and receive messages up to the highest number."""

from __future__ import annotations

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol

from .harness import Pair

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
LISTENS = pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
OFFERS = pytest.mark.parametrize("offer", [True, False], ids=["offer", "no offer"])


@LISTENS
@PROTOCOLS
def test_one_way_messages_arrive_in_order_and_both_sides_end(protocol: Protocol, listens: bool) -> None:
    # RM10-TRM-04
    pair = Pair()
    link = pair.link(protocol, listens=listens)
    link.notes("one", "two", "three")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "two", "three"]
    pair.assert_ended()
    pair.advance(100_000)
    assert pair.client.empty()
    assert pair.server.empty()


@LISTENS
@PROTOCOLS
def test_every_request_gets_its_response_once_and_both_sides_end(protocol: Protocol, listens: bool) -> None:
    pair = Pair()
    link = pair.link(protocol, listens=listens)
    link.asks("one", "refuse two", "three")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "three"]
    assert pair.client.answers == [("one", "re one"), ("refuse two", "fault Refused"), ("three", "re three")]
    pair.assert_ended()
    pair.advance(100_000)
    assert pair.client.empty()
    assert pair.server.empty()
