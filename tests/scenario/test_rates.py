"""Limits on rates: what is above one waits, and delays nothing else."""

from __future__ import annotations

from mercury.engine.rates import RateSettings

from .harness import Node, Pair, World

ORDERS = "http://server/services/orders"


def limited(**settings: tuple[str, ...]) -> Pair:
    pair = Pair()
    pair.client = Node("client", pair, rates=RateSettings(**settings))
    return pair


def test_an_endpoint_gets_as_many_messages_a_second_as_it_may() -> None:
    pair = limited(endpoints=(f"{ORDERS}=2",))
    link = pair.link()
    link.notes(*(str(number) for number in range(10)))
    handled = []
    for _ in range(6):
        pair.advance(0.99)
        handled.append(len(pair.server.handled))
        pair.advance(0.01)
    assert handled == [3, 5, 7, 9, 10, 10]
    assert pair.server.handled == [str(number) for number in range(10)]
    link.close()
    pair.advance(20)
    pair.assert_ended()


def test_another_endpoint_is_not_delayed() -> None:
    pair = limited(endpoints=(f"{ORDERS}=1",))
    other = Node("other", pair)
    pair.link().notes(*"abcdef")
    pair.client.to(other).notes(*"uvwxyz")
    pair.run()
    assert (pair.server.handled, other.handled) == (["a"], list("uvwxyz"))


def test_all_keys_and_endpoints_below_a_url_share_its_rate() -> None:
    pair = limited(endpoints=("http://server=1",))
    for key in "abc":
        pair.link(key=key).notes(key)
    pair.run()
    assert len(pair.server.handled) == 1
    pair.advance(2.1)
    assert len(pair.server.handled) == 3


def test_a_message_that_is_lost_is_sent_again_at_its_time_and_counts() -> None:
    pair = limited(endpoints=(f"{ORDERS}=0.1",))
    pair.lose("message 1")
    pair.link().notes("a", "b")
    pair.advance(2)
    assert pair.server.handled == ["a"]
    pair.advance(15)
    assert pair.server.handled == ["a"], "the repetition counts"
    pair.advance(10)
    assert pair.server.handled == ["a", "b"]


def test_the_limit_lets_pass_what_was_stored_before_a_restart() -> None:
    pair = limited(endpoints=(f"{ORDERS}=1",))
    pair.link().notes(*"abc")
    pair.run()
    pair.client.stop()
    pair.client.start()
    pair.advance(10)
    assert pair.server.handled == list("abc")


def served(*services: str) -> Pair:
    pair = Pair()
    pair.server = Node("server", pair, rates=RateSettings(services=services))
    return pair


def test_the_handlers_of_a_service_get_as_many_messages_a_second_as_they_may() -> None:
    pair = served("orders=2")
    pair.link().notes(*(str(number) for number in range(8)))
    pair.run()
    assert pair.server.handled == ["0", "1"]
    assert pair.client.source().machine.acknowledged.count == 8, "receiving is not limited"
    pair.advance(1.01)
    assert len(pair.server.handled) == 4
    pair.advance(2.01)
    assert pair.server.handled == [str(number) for number in range(8)]
    assert pair.server.engine.invocation.next_due() is None, "nothing wakes when nothing is left"


def test_nothing_is_asked_until_the_limit_lets_calls_pass() -> None:
    pair = served("orders=0.1")
    pair.link().notes("a", "b")
    pair.run()
    assert pair.server.handled == ["a"]
    due = pair.server.engine.invocation.next_due()
    assert due is not None
    assert 9 < due - pair.now <= 10


def test_callbacks_and_other_services_are_not_limited() -> None:
    pair = served("another=1")
    pair.link().asks(*"abcd")
    pair.run()
    assert len(pair.server.handled) == len(pair.client.answers) == 4


def test_without_a_limit_there_is_nothing_to_ask() -> None:
    assert Node("node", World()).engine._context.rates is None
