"""Dead letters are found by their properties, and redriving them loses and repeats no message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from mercury import ApplicationFault, Certainty, DeadLetter, Direction, LetterFilter, Mercury, StorageError
from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED, DeadLetters
from mercury.statemachine.messages import ANONYMOUS
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.claims import Claim
from mercury.storage.opening import open_sql_store, open_store
from mercury.testing.contract.builders import CHANNEL, FULL_LETTER, KEY, NOW, channel, full_row, letter
from tests.acceptance.processes import eventually
from tests.ports import free_port

from .shop import Order, Shop, settings

ALL = LetterFilter()


@pytest.fixture
def store(any_url: str) -> Iterator[StorageManager]:
    opened = open_store(any_url)
    yield opened
    opened.close()


@pytest.fixture
def letters(store: StorageManager) -> DeadLetters:
    return DeadLetters(store, lambda: NOW + 100)


def add_letters(store: StorageManager, *dead: DeadLetter) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add(dead)


def outbound(name: str, **more: Any) -> DeadLetter:
    more.setdefault("message_id", f"message {name}")
    return letter(name, channel=CHANNEL, endpoint=KEY.endpoint, key=KEY.name, action="urn:a", payload=b"<a/>", **more)


def inbound(name: str, **more: Any) -> DeadLetter:
    return replace(outbound(name, **more), direction=Direction.INBOUND, channel=None, endpoint="shop", key="")


def ids(found: list[DeadLetter]) -> list[str]:
    return [each.id for each in found]


def waiting(store: StorageManager) -> list[str]:
    """MessageIDs of what waits to be sent, in its order."""
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        return [row.message_id for row in tx.rms.unnumbered(KEY, 1000)]


# --- which ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (ALL, ["a", "b", "c"]),
        (LetterFilter(ids=frozenset(("c", "a", "?"))), ["a", "c"]),
        (LetterFilter(ids=frozenset()), []),
        (LetterFilter(direction=Direction.INBOUND), ["b"]),
        (LetterFilter(certainty=Certainty.UNKNOWN), ["c"]),
        (LetterFilter(endpoint="shop"), ["b"]),
        (LetterFilter(endpoint="sho"), []),
        (LetterFilter(key=KEY.name), ["a", "c"]),
        (LetterFilter(message_id="message c"), ["c"]),
        (LetterFilter(correlation="order:1"), ["a"]),
        (LetterFilter(reason="100%"), ["b"]),
        (LetterFilter(reason="TIME_OUT"), ["c"]),
        (LetterFilter(reason="time-out"), []),
        (LetterFilter(dead_before=NOW + 1), ["a"]),
        (LetterFilter(dead_since=NOW + 1, dead_before=NOW + 2), ["b"]),
        (LetterFilter(dead_before=NOW + 2, key=KEY.name), ["a"]),
    ],
)
def test_those_are_found_that_the_filter_means(
    store: StorageManager, letters: DeadLetters, which: LetterFilter, found: list[str]
) -> None:
    add_letters(
        store,
        replace(outbound("a", correlation="order:1"), reason="given up"),
        replace(inbound("b", dead_at=NOW + 1), reason="the disk is 100% full"),
        replace(outbound("c", dead_at=NOW + 2, certainty=Certainty.UNKNOWN), reason="Time_Out"),
    )
    assert ids(letters.find(which)) == found
    assert ids(letters.find(which, limit=1)) == found[:1]
    assert sum(each.count for each in letters.count(which)) == len(found)


def test_alike_ones_are_counted_together_the_most_first(store: StorageManager, letters: DeadLetters) -> None:
    add_letters(store, inbound("one"), *(outbound(f"o{number}") for number in range(3)))
    add_letters(store, outbound("unknown", certainty=Certainty.UNKNOWN), inbound("two"))
    counts = [(each.count, each.direction, each.endpoint, each.certainty) for each in letters.count(ALL)]
    assert counts == [
        (3, Direction.OUTBOUND, KEY.endpoint, Certainty.NOT_DELIVERED),
        (2, Direction.INBOUND, "shop", Certainty.NOT_DELIVERED),
        (1, Direction.OUTBOUND, KEY.endpoint, Certainty.UNKNOWN),
    ]


def test_discarding_removes_the_chosen_letters_only(store: StorageManager, letters: DeadLetters) -> None:
    add_letters(store, *(outbound(f"o{number}") for number in range(250)), inbound("kept"))
    assert letters.discard(LetterFilter(direction=Direction.OUTBOUND)) == 250
    assert ids(letters.find(ALL)) == ["kept"]
    assert letters.discard(LetterFilter(direction=Direction.OUTBOUND)) == 0
    assert waiting(store) == []


def test_letters_that_are_discarded_are_not_read_with_their_bodies(sql_url: str) -> None:
    store = open_sql_store(sql_url)
    add_letters(store, *(outbound(f"o{number}") for number in range(3)))
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert DeadLetters(store, lambda: NOW).discard(ALL) == 3
    assert any("dead_letter" in text for text in statements)
    assert not any("payload" in text for text in statements)
    store.close()


# --- outbound --------------------------------------------------------------------------------------------------------


def test_a_redriven_row_is_sent_after_messages_that_were_sent_since(store: StorageManager) -> None:
    sent = full_row().channel
    dead = replace(
        FULL_LETTER,
        direction=Direction.OUTBOUND,
        certainty=Certainty.NOT_DELIVERED,
        message_id="message dead",
        disowned=False,
        damaged=False,
    )
    add_letters(store, dead)
    with store.transaction() as tx:
        tx.rms.append(full_row())
    assert DeadLetters(store, lambda: NOW + 7).redrive(ALL).refused == ()
    with store.transaction() as tx:
        tx.rms.lock([sent.key])
        before, again = tx.rms.unnumbered(sent.key, 10)
    assert before.message_id == full_row().message_id
    for name in ("message_id", "channel", "action", "payload", "is_fault", "headers", "to_parameters", "relates_to",
                 "request", "expects_response", "callback", "correlation"):  # fmt: skip
        assert getattr(again, name) == getattr(dead, name), name
    assert (again.number, again.attempts, again.created_at) == (None, 0, NOW + 7)


def test_letters_of_one_time_are_redriven_by_number(store: StorageManager, letters: DeadLetters) -> None:
    """A sequence that fails buries what was not delivered first, whatever its numbers are."""
    unknown = [outbound(f"u{number}", number=number, certainty=Certainty.UNKNOWN) for number in (1, 3)]
    sure = [outbound(f"s{number}", number=number) for number in (4, 2)]
    add_letters(store, outbound("later", dead_at=NOW + 1, number=1), *sure, *unknown, outbound("unsent"))
    result = letters.redrive(ALL, allow_duplicate=True)
    assert ids(list(result.done)) == ["u1", "s2", "u3", "s4", "unsent", "later"]
    assert waiting(store) == [f"message {name}" for name in ("u1", "s2", "u3", "s4", "unsent", "later")]
    assert letters.find(ALL) == []


def test_letter_of_unknown_certainty_is_redriven_only_if_duplicates_are_allowed(
    store: StorageManager, letters: DeadLetters
) -> None:
    add_letters(store, outbound("unknown", certainty=Certainty.UNKNOWN), outbound("sure"))
    result = letters.redrive(ALL)
    assert ids(list(result.done)) == ["sure"]
    assert [(each.id, why) for each, why in result.refused] == [("unknown", MAY_HAVE_ARRIVED)]
    assert ids(letters.find(ALL)) == ["unknown"]
    assert waiting(store) == ["message sure"]
    assert letters.redrive(ALL, allow_duplicate=True).refused == ()
    assert waiting(store) == ["message sure", "message unknown"]


@pytest.mark.parametrize(
    ("dead", "why"),
    [
        (outbound("x", damaged=True), "damaged"),
        (outbound("x", message_id="waits"), "waiting already"),
        (replace(outbound("x"), channel=channel(endpoint=ANONYMOUS)), "client"),
        (replace(inbound("x"), endpoint=""), "the request that it answers"),
        (inbound("x", damaged=True), "damaged"),
    ],
    ids=["damaged", "waiting", "a response to fetch", "a response that came", "damaged inbound"],
)
def test_letter_that_cannot_be_redriven_stays_with_the_reason(
    store: StorageManager, letters: DeadLetters, dead: DeadLetter, why: str
) -> None:
    with store.transaction() as tx:
        tx.rms.append(replace(full_row(), message_id="waits"))
    add_letters(store, dead, outbound("fine"))
    result = letters.redrive(ALL, allow_duplicate=True)
    ((refused, text),) = result.refused
    assert refused.id == "x"
    assert why in text
    assert ids(list(result.done)) == ["fine"]
    assert ids(letters.find(ALL)) == ["x"]


def test_of_two_letters_of_one_message_one_is_redriven(store: StorageManager, letters: DeadLetters) -> None:
    """A redriven message that dies again with its first letter undeleted, as an operator's copy may leave it."""
    twice = [outbound(name, message_id="one message", number=number) for number, name in enumerate("ab", 1)]
    add_letters(store, *twice, outbound("fine", number=3))
    result = letters.redrive(ALL)
    assert ids(list(result.done)) == ["a", "fine"]
    ((refused, text),) = result.refused
    assert (refused.id, text) == ("b", "a message with its MessageID is waiting already")
    assert waiting(store) == ["one message", "message fine"]
    assert ids(letters.find(ALL)) == ["b"]


class Doomed:
    """A store whose commits fail that write something."""

    def __init__(self, inner: StorageManager) -> None:
        self._inner = inner

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._inner.transaction() as tx:
            tx.guard(Claim("nobody's", "nobody", 1))
            yield tx


def test_a_letter_is_dead_or_alive_and_never_both_or_neither(sql_url: str) -> None:
    store = open_store(sql_url)
    try:
        add_letters(store, outbound("a"), inbound("b"))
        doomed: Any = Doomed(store)
        with pytest.raises(StorageError, match="nobody's"):
            DeadLetters(doomed, lambda: NOW).redrive(ALL)
        with store.transaction() as tx:
            assert ids(tx.dead_letters.all()) == ["a", "b"]
            assert tx.invoker.all() == []
        assert waiting(store) == []
    finally:
        store.close()


def test_two_that_bring_back_the_same_letters_bring_each_back_once(sql_url: str) -> None:
    stores = [open_store(sql_url), open_store(sql_url)]
    try:
        add_letters(stores[0], *(outbound(f"{number:03}", number=number + 1) for number in range(300)))
        with ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(DeadLetters(store, lambda: NOW).redrive, ALL) for store in stores]
        done = [set(ids(list(each.result().done))) for each in tries]
        assert done[0] | done[1] == {f"{number:03}" for number in range(300)}
        assert done[0] & done[1] == set()
        assert sorted(waiting(stores[0])) == [f"message {number:03}" for number in range(300)]
    finally:
        for store in stores:
            store.close()


# --- from end to end -------------------------------------------------------------------------------------------------


def dead(mercury: Mercury, number: int) -> Callable[[], bool]:
    return lambda: len(mercury.dead_letters()) == number


def test_abandoned_letter_is_sent_when_redriven(any_url: str) -> None:
    port = free_port()
    with Mercury(any_url, settings=settings()) as client:
        sender = client.to(f"http://127.0.0.1:{port}/services/shop", key="till")
        receipts = [sender.send(Order(number), operation="put") for number in range(1, 4)]
        sender.terminate()
        eventually(dead(client, 3), "they die with their sequence")
        shop = Shop()
        with shop.open(port=port):
            sender.send(Order(4), operation="put")
            assert len(client.redrive(LetterFilter(key="till")).done) == 3
            assert sender.wait(30)
            eventually(lambda: len(shop.handled) == 4, "all are handled")
        assert shop.orders == [4, 1, 2, 3]
        assert [message_id for _, message_id in shop.handled[1:]] == [receipt.message_id for receipt in receipts]
        assert client.dead_letters() == []


def test_a_request_that_its_handler_failed_is_handled_after_all(any_url: str) -> None:
    shop = Shop()

    def broken(_order: Order) -> None:
        raise LookupError("the table is not there")

    shop.before = broken
    with shop.open(any_url) as (server, url), Mercury("memory:", settings=settings()) as client:
        sender = client.to(url)
        receipt = sender.send(Order(1), operation="put", correlation="order:1")
        eventually(dead(server, 1), "the handler gives up")
        shop.before = lambda _order: None
        sender.send(Order(2), operation="put")
        eventually(lambda: shop.orders == [2], "the sequence goes on")
        assert server.redrive(LetterFilter(reason="the table is not there")).refused == ()
        eventually(lambda: len(shop.handled) == 2, "it is handled")
        assert shop.handled[1] == (1, receipt.message_id)
        assert server.dead_letters() == []
        with server.store.transaction() as tx:
            assert len(tx.invoker.all()) == len(tx.rmd.all())  # nothing is left of a buffer of its own


def test_a_request_that_fails_again_dies_again(any_url: str) -> None:
    shop = Shop()
    tried: list[int] = []

    def broken(order: Order) -> None:
        tried.append(order.id)
        raise LookupError(f"{len(tried)}")

    shop.before = broken
    with shop.open(any_url) as (server, url), Mercury("memory:", settings=settings()) as client:
        client.to(url).send(Order(1), operation="put")
        for number in range(1, 4):
            eventually(dead(server, 1), "the handler gives up")
            (letter,) = server.dead_letters()
            assert letter.reason == f"given up: LookupError: {number}"
            server.redrive(ALL)
            eventually(lambda number=number: len(tried) == number + 1, "it is tried again")  # type: ignore[misc]


def test_a_request_whose_client_got_a_fault_needs_allow_duplicate_and_is_not_answered_twice(any_url: str) -> None:
    shop = Shop()

    def broken(_order: Order) -> None:
        raise LookupError("no")

    shop.before = broken
    with shop.open(any_url) as (server, url), Mercury("memory:", settings=settings()) as client:
        sender = client.to(url)
        with pytest.raises(ApplicationFault, match="could not be processed"):
            sender.request(Order(1), operation="ask").result(30)
        shop.before = lambda _order: None
        result = server.redrive(ALL)
        assert [why for _, why in result.refused] == [MAY_COME_AGAIN]
        assert len(server.redrive(ALL, allow_duplicate=True).done) == 1
        eventually(lambda: shop.orders == [1], "it is handled")
        sender.close()
        assert sender.wait(30)
        assert client.dead_letters() == []
