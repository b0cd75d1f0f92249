"""What an operator sees of a store: pages, one sequence and one message in full, and what is wrong, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from mercury.operations.calls.database import calls_of
from mercury.operations.operator import Operations
from mercury.operations.overview import Severity
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.audit import Actor
from mercury.storage.letters import Direction, LetterFilter
from mercury.storage.opening import open_sql_store
from mercury.storage.records import Channel, OutboundMessage, SequenceKey
from mercury.storage.searching import Count, MessageFilter, MessageState, Page, SequenceFilter, UnknownPlace
from mercury.storage.sql.reads import letters, walking
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import channel, rms_record, row
from tests.stores import NewUrl, urls_of

from .pair import URL, Pair
from .test_dead_letters import add_letters, inbound, outbound

NOW = 1_750_000_000.0
#: A handler that fails is called again after a long pause.
PATIENT = DestinationPolicy(redelivery=RetransmissionPolicy(base=3600.0, cap=3600.0, jitter=0.0))


@pytest.fixture(params=["sqlite", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: object) -> NewUrl:
    return urls_of(request.param, request, tmp_path)  # type: ignore[arg-type]


@pytest.fixture
def stores(urls: NewUrl) -> Iterator[tuple[SqlStore, SqlStore]]:
    """A client's and a server's store; leases are measured by the test's time."""
    with ExitStack() as stack:
        opened = [open_sql_store(urls(), database_clock=False) for _ in range(2)]
        for store in opened:
            stack.callback(store.close)
        yield opened[0], opened[1]


@pytest.fixture
def pair(stores: tuple[SqlStore, SqlStore]) -> Pair:
    return Pair(*stores)


def seen_by(store: object, now: float = NOW) -> Operations:
    assert isinstance(store, SqlStore)
    return Operations(store, lambda: now)


def transmit(pair: Pair, text: str) -> None:
    """Send one message, which is lost."""
    pair.send([text])
    _, posts = pair.client.turn(NOW)
    pair.client.receive(pair.carry(posts, NOW), NOW)
    pair.client.turn(NOW)


def refuse(pair: Pair, text: str) -> None:
    """Let the server's handler fail for one order."""
    pair.server.policy = PATIENT

    def fail(_context: object, order: str) -> None:
        if f">{text}<" in order:
            raise LookupError(f"no stock of {text}")

    pair.server.on_put = fail


def store_row(pair: Pair, message: OutboundMessage) -> None:
    with pair.client.store.transaction() as tx:
        tx.rms.append(message)


def walk(page: Callable[[str | None], Page]) -> list:
    """All items of all pages."""
    found, after = [], None
    for _ in range(100):
        one = page(after)
        found += one.items
        after = one.after
        if after is None:
            return found
    raise AssertionError("the pages never end")


# --- messages --------------------------------------------------------------------------------------------------------


def test_messages_of_several_keys_come_in_pages_without_one_missing_or_twice(pair: Pair) -> None:
    for number in range(7):
        pair.send([f"{number}"], key=f"till-{number % 2}")
    operations = seen_by(pair.client.store)
    found = walk(lambda after: operations.messages.page(Direction.OUTBOUND, MessageFilter(), after, 2))
    assert [each.correlation for each in found] == [f"order:{number}" for number in range(7)]


def test_a_page_of_a_key_goes_over_its_sequence_to_what_has_no_number_yet(pair: Pair) -> None:
    pair.send(["0", "1", "2"])
    pair.client.turn(NOW)
    pair.send(["3", "4"])
    pair.send(["5"], key="other")
    operations = seen_by(pair.client.store)
    which = MessageFilter(endpoint=URL, key="till")
    found = walk(lambda after: operations.messages.page(Direction.OUTBOUND, which, after, 2))
    assert [(each.number, each.correlation) for each in found] == [
        *((number, f"order:{number - 1}") for number in (1, 2, 3)),
        *((None, f"order:{number}") for number in (3, 4)),
    ]


@pytest.mark.parametrize("away", [URL, 'http://away.example/"name":/100%_x', "urn:\u00e9\\away"])
def test_messages_of_an_endpoint_or_a_key_are_found_before_their_key_has_a_sequence(pair: Pair, away: str) -> None:
    def row(number: int, to: str, key: str) -> OutboundMessage:
        return OutboundMessage(
            message_id=f"urn:m:{number}",
            channel=Channel(key=SequenceKey(to, key), identity=away),
            correlation=f"{number}",
        )

    rows = (row(0, away, "till"), row(1, away, "o'\\\""), row(2, f"{away}2", "till"), row(3, away.upper(), "till"))
    with pair.client.store.transaction() as tx:
        for each in rows:
            tx.rms.append(each)
    operations = seen_by(pair.client.store)

    def found(**conditions: str) -> list[str | None]:
        which = MessageFilter(**conditions)  # type: ignore[arg-type]
        return [each.correlation for each in operations.messages.page(Direction.OUTBOUND, which).items]

    assert found(endpoint=away) == ["0", "1"]
    assert found(key="till") == ["0", "2", "3"]
    assert found(endpoint=away, key="o'\\\"") == ["1"]
    assert found(endpoint=away, correlation="0", key="till") == ["0"]
    assert found(endpoint=away[:-1]) == found(key="til") == []
    (counted,) = [each for each in operations.overview().depth.endpoints if each.endpoint == away]
    assert counted.waiting.value == len(found(endpoint=away)), "the line of the overview leads to as many as it counts"


def test_a_message_is_found_by_its_id_and_by_its_correlation_wherever_it_is(pair: Pair) -> None:
    pair.send(["0"])
    pair.run(NOW)
    pair.send(["1"])
    operations = seen_by(pair.client.store)
    (waiting,) = operations.messages.places(correlation="order:1").waiting
    assert operations.messages.places(message_id=waiting.message_id).waiting == (waiting,)
    (settled,) = operations.messages.places(correlation="order:0").settled
    assert settled.number == 1
    add_letters(pair.client.store, outbound("a", correlation="order:9"))
    assert [each.id for each in operations.messages.places(correlation="order:9").letters] == ["a"]


def test_messages_are_searched_by_state_and_time(pair: Pair) -> None:
    transmit(pair, "0")
    pair.send(["1"])
    operations = seen_by(pair.client.store)

    def numbers(which: MessageFilter) -> list[str | None]:
        return [each.correlation for each in operations.messages.page(Direction.OUTBOUND, which).items]

    assert numbers(MessageFilter(state=MessageState.UNSENT)) == ["order:1"]
    assert numbers(MessageFilter(state=MessageState.UNACKNOWLEDGED)) == ["order:0"]
    assert numbers(MessageFilter(state=MessageState.UNANSWERED)) == []
    assert numbers(MessageFilter(since=10.0)) == []
    assert numbers(MessageFilter(until=10.0)) == ["order:0", "order:1"], "the test hands over at time 0"


def test_a_message_with_a_number_is_not_sent_before_it_is_transmitted(pair: Pair) -> None:
    pair.send(["0"])
    pair.client.turn(NOW)  # it has a number, and its sequence is not created yet
    operations = seen_by(pair.client.store)
    (waiting,) = operations.messages.page(Direction.OUTBOUND, MessageFilter(state=MessageState.UNSENT)).items
    assert (waiting.number, waiting.state) == (1, "waits to be sent")
    assert operations.messages.page(Direction.OUTBOUND, MessageFilter(state=MessageState.UNACKNOWLEDGED)).items == ()
    depth = operations.overview().depth
    assert (str(depth.unsent), str(depth.unacknowledged)) == ("1", "0")


def test_a_search_reads_a_bounded_number_of_rows_and_says_where_it_stopped(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "MOST_ROWS", 3)
    transmit(pair, "0")
    pair.send(["1", "2", "3", "4"])
    operations = seen_by(pair.client.store)
    which = MessageFilter(state=MessageState.UNACKNOWLEDGED)
    first = operations.messages.page(Direction.OUTBOUND, which, None, 5)
    assert [each.correlation for each in first.items] == ["order:0"]
    assert first.after is not None, "two rows are not read yet"
    second = operations.messages.page(Direction.OUTBOUND, which, first.after, 5)
    assert (second.items, second.after) == ((), None)


def test_a_poison_message_is_shown_with_its_error_and_what_it_holds_back(pair: Pair) -> None:
    refuse(pair, "2")
    pair.send(["1", "2", "3"])
    pair.run(NOW)
    operations = seen_by(pair.server.store)
    (poison,) = operations.services.failing("shop").items
    assert (poison.number, poison.attempts, poison.last_error) == (2, 1, "LookupError: no stock of 2")
    whole = operations.messages.one(Direction.INBOUND, poison.position)
    assert whole is not None
    assert [each.what for each in whole.timeline][1].startswith("its handler has failed")
    service = operations.services.one("shop")
    assert service is not None
    assert (service.failing, str(service.waiting)) == (1, "2")


# --- sequences -------------------------------------------------------------------------------------------------------


def test_both_sides_of_a_sequence_are_shown_with_what_they_wait_for(pair: Pair) -> None:
    refuse(pair, "2")
    pair.send(["1", "2", "3"])
    pair.run(NOW)
    (line,) = seen_by(pair.server.store).sequences.page(SequenceFilter(stuck=True)).items
    assert line.stuck
    assert line.why is not None
    assert line.why.startswith("its handler has failed once: LookupError: no stock of 2; the next attempt is at ")
    whole = seen_by(pair.server.store).sequences.one(line.id)
    assert whole is not None
    assert (whole.gaps, whole.holder is not None) == ((), True)
    assert whole.timeline[0].what == "created by client"
    (source,) = seen_by(pair.client.store).sequences.page(SequenceFilter(source=True)).items
    assert (source.id, source.why, source.stuck) == (line.id, None, False), "everything is acknowledged"


def test_only_a_paused_service_makes_its_sequences_paused_whatever_an_error_says(pair: Pair) -> None:
    refuse(pair, "the belt is paused")
    pair.send(["the belt is paused", "next"])
    pair.run(NOW)
    operations = seen_by(pair.server.store)
    (line,) = operations.sequences.page(SequenceFilter(stuck=True)).items
    assert line.why is not None
    assert "is paused" in line.why
    assert (line.stuck, line.paused) == (True, False)
    operations.service_actions.pause("shop", Actor("Ada"))
    (line,) = operations.sequences.page(SequenceFilter(stuck=True)).items
    assert (line.why, line.paused) == ("its service is paused by Ada", True)


def test_a_gap_is_shown_with_the_missing_number(pair: Pair) -> None:
    pair.send(["1", "2", "3"])
    _, posts = pair.client.turn(NOW)
    replies = pair.carry(posts, NOW)
    posts = pair.client.receive(replies, NOW)
    _, more = pair.client.turn(NOW)
    second = [post for post in (*posts, *more) if post.number != 2]
    assert len(second) == 2
    pair.carry(second, NOW)
    pair.server.turn(NOW)
    (line,) = seen_by(pair.server.store).sequences.page(SequenceFilter(stuck=True)).items
    assert line.why == "waits for message 2, which has not arrived"
    whole = seen_by(pair.server.store).sequences.one(line.id)
    assert whole is not None
    assert whole.gaps == ((2, 2),)


def test_sequences_are_filtered_and_come_in_pages(pair: Pair) -> None:
    for number in range(5):
        pair.send([f"{number}"], key=f"till-{number}")
    pair.send(["5"], key="other")
    pair.run(NOW)
    client = seen_by(pair.client.store).sequences
    found = walk(lambda after: client.page(SequenceFilter(key_prefix="till-", source=True), after, 2))
    assert [each.status.key for each in found] == [f"till-{number}" for number in range(5)]
    assert len(walk(lambda after: client.page(SequenceFilter(states=frozenset(["IDLE"])), after, 4))) == 6
    assert client.page(SequenceFilter(states=frozenset(["FAILED"]))).items == ()
    server = seen_by(pair.server.store).sequences
    assert len(walk(lambda after: server.page(SequenceFilter(endpoint="shop"), after, 4))) == 6
    both = walk(lambda after: server.page(SequenceFilter(), after, 1))
    assert len({each.id for each in both}) == len(both) >= 6


def test_sequences_are_found_by_a_part_of_the_identifier_with_as_many_statements_for_many_as_for_one(
    pair: Pair,
) -> None:
    for number in range(6):
        pair.send([f"{number}"], key=f"till-{number}")
    pair.run(NOW)
    server = seen_by(pair.server.store).sequences
    every = {each.id for each in server.page(SequenceFilter()).items}
    assert len(every) == 12, "the requests and the responses of six sequences"
    one = min(every)
    assert [each.id for each in server.named(one[3:], 50)] == [one]
    statements: list[str] = []
    event.listen(pair.server.store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert len(server.named("urn:", 1)) == 2, "one of each side"
    for_two = len(statements)
    assert {each.id for each in server.named("urn:", 50)} == every
    assert len(statements) == 2 * for_two
    assert server.named("no such part", 50) == ()


@pytest.mark.parametrize("call", ["sequences.show", "sequences.terminate"])
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_identifier_means_no_sequence_also_if_there_is_only_one(pair: Pair, call: str, empty: str) -> None:
    pair.send(["1"])
    pair.client.turn(NOW)
    operations = seen_by(pair.client.store)
    with pytest.raises(ValueError, match="id is empty"):
        calls_of(operations).run(call, {"id": empty}, Actor("ada"))
    assert operations.audit().items == ()


def test_the_whole_identifier_of_a_sequence_is_found_beside_longer_ones_with_it(pair: Pair) -> None:
    for name in ("urn:10", "urn:11", "urn:12", "urn:13", "urn:1"):
        record = rms_record(f"of {name}", channel(name), identifier=name)
        with pair.client.store.transaction() as tx:
            tx.rms.lock([record.channel.key])
            tx.rms.insert(record)
    calls = calls_of(seen_by(pair.client.store))
    assert calls.run("sequences.show", {"id": "urn:1"}, Actor("ada"))["identifier"] == "urn:1"
    assert calls.run("sequences.show", {"id": "13"}, Actor("ada"))["identifier"] == "urn:13"
    with pytest.raises(ValueError, match="several sequences"):
        calls.run("sequences.show", {"id": "urn:"}, Actor("ada"))


def test_a_sequence_is_found_before_it_has_an_identifier(pair: Pair) -> None:
    pair.send(["1"])
    pair.client.turn(NOW)
    (source,) = seen_by(pair.client.store).sequences.page(SequenceFilter()).items
    assert [each.id for each in seen_by(pair.client.store).sequences.named(source.id[2:], 50)] == [source.id]


def test_the_pair_of_a_sequence_is_its_other_direction(pair: Pair) -> None:
    pair.send(["1"], ask=True)
    pair.run(NOW)
    server, client = seen_by(pair.server.store).sequences, seen_by(pair.client.store).sequences
    (request,) = server.page(SequenceFilter(source=False, endpoint="shop")).items
    whole = server.one(request.id)
    assert whole is not None
    assert whole.pair is not None
    answers = client.one(whole.pair.id)
    assert answers is not None
    assert answers.pair is not None
    assert answers.pair.id == request.id


# --- the whole store -------------------------------------------------------------------------------------------------


def test_an_empty_store_has_no_problem(pair: Pair) -> None:
    view = seen_by(pair.client.store).overview()
    assert (view.problems, view.depth.unsent, view.stuck) == ((), Count(0), ())


def test_problems_are_named_in_words_with_the_place_to_look_at(pair: Pair) -> None:
    refuse(pair, "2")
    pair.send(["1", "2", "3"])
    pair.run(NOW)
    add_letters(pair.server.store, inbound("a"), replace(inbound("b"), reason="other"))
    view = seen_by(pair.server.store, NOW + 700).overview()
    found = {(each.severity, each.place.value) for each in view.problems}
    assert found == {
        (Severity.CRITICAL, "messages"),
        (Severity.WARNING, "messages"),
        (Severity.WARNING, "dlq"),
        (Severity.WARNING, "sequences"),
    }
    assert view.problems[0].text.startswith("a received message is not handled after 700 s")
    assert (str(view.depth.unhandled), str(view.depth.failing)) == ("2", "1")
    assert [each.name for each in view.depth.services] == ["shop"]


def test_figures_are_exact_up_to_a_limit_and_then_say_that_there_are_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.storage.sql.reads.depth.MOST_ROWS", 3)
    pair.send(["1", "2", "3"])
    assert str(seen_by(pair.client.store).overview().depth.unsent) == "3"
    pair.send(["4", "5"])
    assert str(seen_by(pair.client.store).overview().depth.unsent).startswith("more than")


def test_replies_that_are_retained_hide_neither_what_waits_behind_them_nor_its_age(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.storage.sql.reads.depth.MOST_ROWS", 3)
    for number in range(5):
        store_row(pair, row(f"reply {number}", created_at=NOW - 900, relates_to="urn:1", answered=True))
    client = seen_by(pair.client.store)
    assert str(client.overview().depth.unsent) == "more than 0"
    assert client.ages()["not acknowledged"] == 0
    store_row(pair, row("waits", created_at=NOW - 700))
    view = client.overview()
    assert str(view.depth.unsent) == "more than 0", "it is not exact"
    assert view.depth.endpoints == ()
    assert client.ages()["not acknowledged"] == 700
    assert [each.severity for each in view.problems] == [Severity.CRITICAL]


def test_replies_that_are_retained_are_in_no_figure(pair: Pair) -> None:
    store_row(pair, row("reply", created_at=NOW - 900, relates_to="urn:1", answered=True))
    store_row(pair, row("waits", created_at=NOW - 700))
    depth = seen_by(pair.client.store).overview().depth
    assert [str(each) for each in (depth.unsent, depth.unacknowledged, depth.unanswered)] == ["1", "0", "0"]
    assert depth.oldest_unacknowledged == NOW - 700
    assert [(str(each.waiting), each.oldest) for each in depth.endpoints] == [("1", NOW - 700)]


def test_dead_letters_are_grouped_by_reason_and_come_in_pages(pair: Pair) -> None:
    add_letters(pair.client.store, *(outbound(f"{number}") for number in range(5)))
    add_letters(pair.client.store, replace(outbound("x"), reason="another"))
    found = seen_by(pair.client.store).letters
    groups = found.groups()
    assert [each.count for each in groups.items] == [5, 1]
    assert groups.after is None
    assert [each.id for each in walk(lambda after: found.page(after=after, limit=2))] == [*"01234x"]
    assert found.one("x") is not None
    assert found.one("y") is None


def test_lists_of_dead_letters_read_no_bodies(pair: Pair) -> None:
    body = b"<a>large</a>"
    sent = replace(outbound("a", correlation="order:1"), payload=body, headers=(b"<h/>",))
    received = replace(inbound("b"), payload=body, sequence="urn:received", owner="a peer")
    add_letters(pair.client.store, sent, received)
    operations = seen_by(pair.client.store)
    statements: list[str] = []
    assert isinstance(pair.client.store, SqlStore)
    event.listen(pair.client.store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert [each.id for each in operations.letters.page().items] == ["a", "b"]
    assert [each.id for each in operations.letters.find()] == ["a", "b"]
    assert [each.id for each in operations.letters.find(LetterFilter(ids=frozenset("b")), 1)] == ["b"]
    assert [each.id for each in operations.messages.places(correlation="order:1").letters] == ["a"]
    with pair.client.store.transaction() as tx:
        assert [each.id for each in letters.of_key(tx, sent.endpoint, sent.key, 10)] == ["a"]
        assert [each.id for each in letters.of_sequence(tx, "urn:received", 10)] == ["b"]
    assert [each for each in statements if "payload" in each or "headers" in each] == []
    whole = operations.letters.one("a")
    assert whole is not None
    assert (whole.payload, whole.headers) == (body, (b"<h/>",))


def test_dead_letters_are_selected_by_filter_key_and_sequence(pair: Pair) -> None:
    sent = replace(outbound("a", correlation="order:1"), dead_at=NOW - 30, sequence="urn:1")
    received = replace(inbound("b"), sequence="urn:1", owner="a peer")
    add_letters(
        pair.client.store,
        sent,
        replace(sent, id="c", dead_at=NOW - 10, correlation="order:2"),
        replace(sent, id="d", dead_at=NOW - 20),
        replace(sent, id="e", endpoint="http://elsewhere.example/"),
        replace(sent, id="f", key=f"{sent.key}2"),
        received,
        replace(received, id="g", sequence="urn:2"),
    )
    found = seen_by(pair.client.store).letters.find
    assert [each.id for each in found(LetterFilter(correlation="order:1"))] == [*"adef"]
    assert [each.id for each in found(LetterFilter(correlation="order:1"), 2)] == [*"ad"]
    with pair.client.store.transaction() as tx:
        assert [each.id for each in letters.of_key(tx, sent.endpoint, sent.key, 10)] == [*"cda"]
        assert [each.id for each in letters.of_key(tx, sent.endpoint, sent.key, 2)] == [*"cd"]
        assert [each.id for each in letters.of_sequence(tx, "urn:1", 10)] == ["b"]


def test_the_backlog_of_a_key_that_no_process_has_worked_on_has_its_endpoint(pair: Pair) -> None:
    pair.send(["1", "2"], key="one")
    pair.send(["3"], key="two")
    (seen,) = seen_by(pair.client.store).overview().depth.endpoints
    assert (seen.endpoint, str(seen.waiting), seen.attempts) == (URL, "3", 0)


def test_messages_that_are_done_are_paged_by_key_and_time_the_newest_first(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.send([f"{number}" for number in range(3)])
    pair.run(NOW)
    pair.send([f"{number}" for number in range(3, 7)], key="other")
    pair.run(NOW + 10)
    operations = seen_by(pair.client.store)

    def found(limit: int = 50, **conditions: Any) -> list[str]:
        which = MessageFilter(**conditions)
        return [each.correlation for each in walk(lambda after: operations.messages.settled(which, after, limit))]

    assert sorted(found()) == [f"order:{number}" for number in range(7)]
    assert sorted(found(limit=2, endpoint=URL, key="till")) == ["order:0", "order:1", "order:2"]
    assert sorted(found(limit=3, key="other")) == [f"order:{number}" for number in range(3, 7)]
    (first, *_) = operations.messages.settled(MessageFilter(key="till")).items
    assert first.sequence is not None
    assert sorted(found(sequence=first.sequence)) == ["order:0", "order:1", "order:2"]
    assert found(endpoint="http://nowhere") == []
    times = [each.settled_at for each in operations.messages.settled(MessageFilter()).items]
    assert times == sorted(times, reverse=True)
    later = found(since=times[0])
    assert sorted(later + found(until=times[0])) == sorted(found())
    monkeypatch.setattr("mercury.storage.sql.reads.settled.MOST_ROWS", 2)
    assert sorted(found(key="till")) == ["order:0", "order:1", "order:2"], "also when a page reads other rows only"
    with pytest.raises(ValueError, match="is not from a page"):
        operations.messages.settled(MessageFilter(), "nowhere")


@pytest.mark.parametrize("after", ["x", "-1", "9" * 40, "1.x", "²", '["a", "b"]'])
def test_a_place_that_no_page_has_named_is_an_error_of_its_own(pair: Pair, after: str) -> None:
    operations = seen_by(pair.client.store)
    for read in (
        lambda: operations.audit(after=after),
        lambda: operations.letters.page(after=after),
        lambda: operations.messages.settled(MessageFilter(), after),
        lambda: operations.messages.page(Direction.OUTBOUND, MessageFilter(), after),
        lambda: operations.messages.page(Direction.INBOUND, MessageFilter(), after),
        lambda: operations.sequences.page(SequenceFilter(), after),
        lambda: operations.sequences.page(SequenceFilter(), f"s{after}"),
    ):
        with pytest.raises(UnknownPlace):
            read()
