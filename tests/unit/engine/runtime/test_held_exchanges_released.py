"""Held exchanges: each gets its response after the commit that stored it, or is ended in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import HeldExchange, PendingResponse, Response
from mercury.engine.runtime.held_exchanges import REORDERING, REPETITIONS, HeldExchanges
from mercury.statemachine.messages import BatchLimits, EndpointReference, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.storage.names import request_name
from mercury.testing.clock import FakeClock
from mercury.wire.decode import decode
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage, MessageBatch, Payload

BATCHES = BatchLimits(10, 1000)


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


def numbered(number: int, identifier: str = "urn:answers", batches: BatchLimits | None = BATCHES) -> Response:
    """The response to the request of this number, with the same number in its sequence."""
    found = response(f"urn:{number}", number)
    payload = Payload(b"<answer/>", "{}answer")
    envelope = replace(found.envelope, body=payload, sequence=SequenceHeader(identifier, number))
    return replace(found, envelope=envelope, batches=batches)


def batch_of(*numbers: int) -> tuple[PendingResponse, ...]:
    """What the exchange of a batch of requests waits for."""
    return tuple(PendingResponse(message_id=f"urn:{each}", sequence="urn:s", number=each) for each in numbers)


def responses_of(held: HeldExchange) -> list[str | None]:
    """The requests that the answer to an exchange has responses to."""
    http = held.response.result(0)
    return [] if http is None else related(http)


def related(http: HttpMessage) -> list[str | None]:
    envelope = decode(http.body, http.content_type, replies=True)
    if not isinstance(envelope.body, MessageBatch):
        return [envelope.relates_to]
    return [each.relates_to for each in envelope.body.messages]


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


# --- batches of requests ---------------------------------------------------------------------------------------------


def test_exchange_of_a_batch_is_answered_once_all_its_responses_exist() -> None:
    parking = HeldExchanges()
    held = parking.hold(*batch_of(1, 2, 3))
    parking.release([numbered(2)])
    parking.release([numbered(1), numbered(9)])
    assert not held.response.done()
    assert [each.number for each in parking.waiting()] == [3]
    parking.release([numbered(3)])
    assert responses_of(held) == ["urn:1", "urn:2", "urn:3"]
    assert not parking


def test_responses_that_exist_already_count() -> None:
    parking = HeldExchanges()
    with parking.storing():
        parking.release([numbered(2)])  # by another thread, meanwhile
        held = parking.hold(*batch_of(1, 2, 3), stored=[numbered(1)])
        all_exist = parking.hold(*batch_of(1, 2), stored=[numbered(1)])
    assert [each.number for each in parking.waiting()] == [3]
    assert responses_of(all_exist) == ["urn:1", "urn:2"]
    parking.release([numbered(3)])
    assert responses_of(held) == ["urn:1", "urn:2", "urn:3"]


def test_request_of_a_batch_that_was_repeated_alone_has_its_response_in_both_exchanges() -> None:
    parking = HeldExchanges()
    batch, alone = parking.hold(*batch_of(1, 2)), parking.hold(*batch_of(2))
    parking.release([numbered(2)])
    assert responses_of(alone) == ["urn:2"]
    parking.let_go(alone)
    parking.release([numbered(1)])
    assert responses_of(batch) == ["urn:1", "urn:2"]


@pytest.mark.parametrize("how", ["gives up", "stops", "time is over"])
def test_exchange_that_ends_earlier_has_the_responses_that_exist(how: str) -> None:
    parking = HeldExchanges()
    held, without = parking.hold(*batch_of(1, 2, 3)), parking.hold(*batch_of(4, 5))
    parking.release([numbered(1), numbered(2)])
    if how == "time is over":
        http = parking.so_far(held)
        assert http is not None
        assert related(http) == ["urn:1", "urn:2"]
        assert parking.so_far(without) is None
    elif how == "gives up":
        parking.give_up(held)
        parking.give_up(without)
    else:
        parking.release_all()
    if how != "time is over":
        assert responses_of(held) == ["urn:1", "urn:2"]
        assert without.response.result(0) is None
    assert parking.waiting() == []
    parking.release([numbered(3)])


@pytest.mark.parametrize(
    ("others", "fit"),
    [
        pytest.param([numbered(2), numbered(3)], 3, id="all"),
        pytest.param([numbered(3)], 1, id="numbers that do not follow each other"),
        pytest.param([numbered(2, batches=None), numbered(3)], 1, id="a response that leaves alone"),
        pytest.param([numbered(2, "urn:successor"), numbered(3)], 1, id="another sequence"),
    ],
)
def test_responses_that_do_not_fit_in_one_envelope_are_left_for_the_repetitions_of_their_requests(
    others: list[Response], fit: int
) -> None:
    parking = HeldExchanges()
    held = parking.hold(
        *batch_of(1, *(int(each.envelope.relates_to[4:]) for each in others if each.envelope.relates_to))
    )
    parking.release([*others, numbered(1)])
    assert responses_of(held) == ["urn:1", "urn:2", "urn:3"][:fit]


def test_batch_of_responses_is_no_larger_than_its_client_takes() -> None:
    parking = HeldExchanges()
    for limits, fit in ((BatchLimits(2, 1000), 2), (BatchLimits(10, len(b"<answer/>") * 3), 3), (BatchLimits(0, 0), 1)):
        held = parking.hold(*batch_of(1, 2, 3, 4))
        parking.release([numbered(number, batches=limits) for number in (1, 2, 3, 4)])
        assert len(responses_of(held)) == fit


def test_acknowledgement_of_responses_is_requested_with_the_answer_to_a_repeated_batch() -> None:
    parking = HeldExchanges()
    first, second = batch_of(1, 2)
    held = parking.hold(first, replace(second, repeated=True))
    parking.release([numbered(1), numbered(2)])
    http = held.response.result(0)
    assert http is not None
    assert [each.identifier for each in decode(http.body, http.content_type, replies=True).ack_requests] == [
        "urn:answers"
    ]


def test_large_responses_are_not_kept_in_memory_until_the_last_one_exists() -> None:
    parking = HeldExchanges()
    held = parking.hold(*batch_of(1, 2, 3))
    limits = BatchLimits(10, len(b"<answer/>") * 2)
    parking.release([numbered(1, batches=limits)])
    assert not held.response.done()
    parking.release([numbered(2, batches=limits)])
    assert responses_of(held) == ["urn:1", "urn:2"]
    assert not parking, "the third one comes when its request is repeated"
