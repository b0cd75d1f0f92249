"""Messages with a time before which they are not sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.errors import ConfigurationError

from .foreign import RM10_SOAP12, RM11_SOAP12
from .harness import ASK, EPOCH, NOTE, PATIENT, Pair, body

PROTOCOLS = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=["1.1", "1.0"])


@PROTOCOLS
def test_a_scheduled_message_is_sent_at_its_time_and_nothing_before(protocol) -> None:
    pair = Pair()
    link = pair.link(protocol)
    link.send(body("later"), action=NOTE, not_before=EPOCH + 3600)
    pair.advance(3599)
    assert pair.seen == [], "not even its sequence is created"
    assert pair.next_due() == EPOCH + 3600, "nothing is polled until then"
    pair.advance(2)
    assert pair.server.handled == ["later"]
    link.close()
    pair.advance(20)
    pair.assert_ended()


def test_later_messages_of_the_key_wait_behind_it_and_other_keys_do_not() -> None:
    pair = Pair()
    link = pair.link()
    link.notes("before")
    link.send(body("scheduled"), action=NOTE, not_before=EPOCH + 60)
    link.notes("behind")
    link.close()
    pair.link(key="other").notes("of another key")
    pair.advance(59)
    assert sorted(pair.server.handled) == ["before", "of another key"]
    pair.advance(2)
    assert [text for text in pair.server.handled if text != "of another key"] == ["before", "scheduled", "behind"]
    pair.link(key="other").close()
    pair.advance(20)
    pair.assert_ended()


def test_the_sequence_of_a_message_that_waits_goes_on_with_what_is_in_flight() -> None:
    pair = Pair()
    pair.lose("message 1", 2)
    link = pair.link()
    link.notes("before")
    link.send(body("scheduled"), action=NOTE, not_before=EPOCH + 60)
    pair.advance(30)
    assert pair.server.handled == ["before"]
    pair.advance(31)
    assert pair.server.handled == ["before", "scheduled"]


def test_two_times_are_kept_each_though_the_first_is_the_later_one() -> None:
    pair = Pair()
    link = pair.link()
    link.send(body("later"), action=NOTE, not_before=EPOCH + 60)
    link.send(body("earlier"), action=NOTE, not_before=EPOCH + 30)
    pair.advance(59)
    assert pair.server.handled == []
    pair.advance(2)
    assert pair.server.handled == ["later", "earlier"], "the order of the key holds"


def test_a_restart_forgets_no_time() -> None:
    pair = Pair()
    pair.link().send(body("later"), action=NOTE, not_before=EPOCH + 60)
    pair.advance(1)
    pair.client.stop()
    pair.now += 10
    pair.client.start()
    pair.advance(40)
    assert pair.server.handled == []
    pair.advance(10)
    assert pair.server.handled == ["later"]


def test_a_sequence_that_fails_meanwhile_holds_nothing_back() -> None:
    pair = Pair()
    link = pair.link(inactivity_timeout=10.0)
    link.notes("before")
    pair.run()
    link.send(body("later"), action=NOTE, not_before=EPOCH + 60)
    pair.advance(1)
    pair.server.stop()
    pair.server.forget()
    pair.server.start()
    pair.advance(70)
    link.notes("again")
    pair.advance(60)
    assert pair.server.handled[-1:] == ["again"]


def test_an_abandonment_does_not_wait_for_the_time() -> None:
    pair = Pair()
    link = pair.link()
    link.send(body("later"), action=NOTE, not_before=EPOCH + 60)
    link.terminate()
    link.notes("next")
    pair.advance(1)
    assert pair.client.letters_by_text() == [("later", "not delivered")]
    assert pair.server.handled == ["next"]


def test_the_limit_by_age_counts_from_the_time_of_the_message() -> None:
    pair = Pair()
    link = pair.link(retransmission=replace(PATIENT, max_age=5.0))
    link.send(body("later"), action=NOTE, not_before=EPOCH + 60)
    pair.advance(59)
    pair.lose("message 1")
    pair.advance(20)
    assert (pair.server.handled, pair.client.letters_by_text()) == (["later"], [])


def test_a_message_behind_a_scheduled_one_expires_at_its_time() -> None:
    pair = Pair()
    link = pair.link()
    link.send(body("later"), action=NOTE, not_before=EPOCH + 60)
    link.send(body("short"), action=NOTE, expires_in=5)
    pair.advance(4.9)
    assert pair.client.letters_by_text() == []
    pair.advance(0.2)
    assert pair.client.letters_by_text() == [("short", "not delivered")]
    pair.advance(60)
    assert pair.server.handled == ["later"]


def test_a_scheduled_request_is_answered() -> None:
    pair = Pair()
    future = pair.link(listens=False).request(body("later"), action=ASK, not_before=EPOCH + 60)
    pair.advance(61)
    assert future.result(0) == body("re later")


@pytest.mark.parametrize(
    ("life", "why"),
    [
        ({"expires_in": 0}, "above 0"),
        ({"expires_in": float("nan")}, "number of seconds"),
        ({"expires_in": 5, "expires_at": EPOCH + 5}, "one end"),
        ({"expires_at": EPOCH - 1}, "before it may be sent"),
        ({"expires_in": 5, "not_before": EPOCH + 5}, "before it may be sent"),
        ({"not_before": float("inf")}, "number of seconds"),
    ],
)
def test_times_that_are_not_possible_are_refused_and_nothing_is_stored(life, why) -> None:
    link = Pair().link()
    with pytest.raises(ConfigurationError, match=why):
        link.send(body("never"), action=NOTE, **life)
    assert link.pending == 0
