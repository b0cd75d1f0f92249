"""Held exchanges: each gets its response after the commit that stored it, or is ended in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import HeldExchange, PendingResponse, Response
from mercury.engine.runtime.held_exchanges import REORDERING, REPETITIONS, HeldExchanges
from mercury.statemachine.messages import EndpointReference, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.storage.names import request_name
from mercury.testing.clock import FakeClock
from mercury.wire.envelope import EMPTY, Envelope


def response(message_id: str, number: int = 0) -> Response:
    envelope = Envelope(
        soap=SoapVersion.SOAP12,
        addressing=AddressingVersion.WSA10,
        rm=RmVersion.RM11,
        action="urn:answer",
        to=EndpointReference("http://client.example/"),
        message_id=f"urn:answer:to:{message_id}",
        relates_to=message_id,
        body=EMPTY,
    )
    return Response(request=request_name("urn:s", number), envelope=envelope)


def behind(parking: HeldExchanges, number: int, missing: int, *, fetches: bool = True) -> HeldExchange:
    """Hold the exchange of a request behind a gap."""
    waiting = PendingResponse(
        message_id=f"urn:{number}",
        sequence="urn:s",
        number=number,
        first_missing=missing,
        behind_a_gap=number > missing,
        fetches=fetches,
    )
    return parking.hold(waiting)


def test_a_response_goes_to_all_exchanges_of_its_request_and_to_no_other() -> None:
    parking = HeldExchanges()
    mine, again = (parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s")) for _ in range(2))
    other = parking.hold(PendingResponse(message_id="urn:1", sequence="urn:of-somebody-else"))
    parking.release([response("urn:1"), response("urn:unknown", 9)])
    first = mine.response.result(0)
    assert first is not None
    assert b"urn:answer:to:urn:1" in first.body
    assert again.response.result(0) == first
    assert not other.response.done()
    assert [each.sequence for each in parking.waiting()] == ["urn:of-somebody-else"]


def test_requests_with_one_message_id_get_their_own_responses() -> None:
    parking = HeldExchanges()
    first, second = (
        parking.hold(PendingResponse(message_id="urn:same", sequence="urn:s", number=each)) for each in (1, 2)
    )
    parking.release([response("urn:same", 2)])
    assert second.response.done()
    assert not first.response.done()


@pytest.mark.parametrize("early", [False, True])
def test_response_that_cannot_be_written_ends_its_own_exchange_only(
    early: bool, caplog: pytest.LogCaptureFixture
) -> None:
    parking = HeldExchanges()
    versionless = replace(response("urn:1").envelope, rm=None, sequence=SequenceHeader("urn:answers", 1))
    broken = [replace(response("urn:1", number), envelope=versionless) for number in (1, 2)]
    requests = [PendingResponse(message_id="urn:1", sequence="urn:s", number=number) for number in (1, 2, 3)]
    with parking.storing():
        if early:
            parking.release([*broken, response("urn:1", 3)])
        held = [parking.hold(each) for each in requests]
        if not early:
            parking.release([*broken, response("urn:1", 3)])
    assert [each.response.result(0) is not None for each in held] == [False, False, True]
    assert [record.levelname for record in caplog.records] == ["ERROR"], "logged once, however often it happens"


def test_a_response_that_is_faster_than_the_holding_is_kept_for_it() -> None:
    parking = HeldExchanges()
    with parking.storing():
        parking.release([response("urn:1")])  # by another thread, between the commit of the request and the next line
        held = parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s"))
    assert held.response.result(0) is not None
    assert parking.waiting() == []
    assert not parking.hold(
        PendingResponse(message_id="urn:1", sequence="urn:s")
    ).response.done()  # nothing is held forever


def test_exchange_that_was_let_go_gets_no_response() -> None:
    parking = HeldExchanges()
    held, other = (parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s")) for _ in range(2))
    parking.let_go(held)
    parking.let_go(held)
    parking.release([response("urn:1")])
    assert not held.response.done()
    assert other.response.done()
    parking.let_go(other)


def test_a_peer_that_has_disconnected_affects_no_other_request() -> None:
    parking = HeldExchanges()
    gone, other = (parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s")) for _ in range(2))
    gone.response.cancel()
    parking.release([response("urn:1")])
    assert other.response.done()


def test_when_the_process_ends_every_exchange_goes_with_what_it_has() -> None:
    parking = HeldExchanges()
    held = parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s"))
    parking.release_all()
    assert held.response.result(0) is None
    late = parking.hold(PendingResponse(message_id="urn:2", sequence="urn:s"))
    assert late.response.result(0) is None


def test_a_new_gap_is_given_a_moment_once_and_not_for_each_request_behind_it() -> None:
    clock = FakeClock(100.0)
    parking = HeldExchanges(clock)
    first = behind(parking, 3, missing=2)
    assert parking.time_left(first) == REORDERING
    clock.advance(REORDERING)
    assert parking.time_left(first) == 0
    assert parking.time_left(behind(parking, 4, missing=2)) == 0
    assert parking.time_left(behind(parking, 5, missing=2)) == 0


def test_a_client_that_does_not_fetch_responses_has_time_to_repeat_the_missing_message() -> None:
    clock = FakeClock(100.0)
    parking = HeldExchanges(clock)
    first = behind(parking, 3, missing=2, fetches=False)
    assert parking.time_left(first) == REPETITIONS
    clock.advance(REPETITIONS)
    assert parking.time_left(first) == 0
    assert parking.time_left(behind(parking, 4, missing=2, fetches=False)) == 0


def test_the_first_and_the_newest_exchange_of_a_request_stay_if_the_client_does_not_fetch_responses() -> None:
    parking = HeldExchanges()
    waiting = PendingResponse(message_id="urn:1", sequence="urn:s")
    first, *between, newest = (parking.hold(waiting) for _ in range(5))
    for each in between:
        assert each.superseded
        assert each.response.result(0) is None
    parking.release([response("urn:1")])
    assert first.response.result(0) == newest.response.result(0)
    assert first.response.result(0) is not None
    assert not any(each.superseded for each in (first, newest))


def test_every_exchange_of_a_request_stays_if_the_client_fetches_responses() -> None:
    parking = HeldExchanges()
    waiting = PendingResponse(message_id="urn:1", sequence="urn:s", fetches=True)
    exchanges = [parking.hold(waiting) for _ in range(5)]
    assert not any(each.response.done() for each in exchanges)
    parking.release([response("urn:1")])
    assert all(each.response.result(0) for each in exchanges)


def test_a_request_is_waited_for_once_its_gap_is_closed() -> None:
    clock = FakeClock(100.0)
    parking = HeldExchanges(clock)
    held = behind(parking, 3, missing=2)
    clock.advance(REORDERING)
    closing = behind(parking, 2, missing=4)
    assert parking.time_left(closing) is None
    assert parking.time_left(held) is None
    later = behind(parking, 5, missing=4)
    assert parking.time_left(later) == REORDERING, "another gap, with a moment of its own"


def test_an_exchange_that_is_given_up_is_answered_without_its_response_and_others_wait_on() -> None:
    parking = HeldExchanges()
    mine, again = (parking.hold(PendingResponse(message_id="urn:1", sequence="urn:s")) for _ in range(2))
    parking.give_up(mine)
    assert mine.response.result(0) is None
    assert not again.response.done()
    parking.release([response("urn:1")])
    parking.give_up(again)  # too late: it has its response
    assert again.response.result(0) is not None
