"""The limits on bytes that wait for the application: of one sequence, of one peer, and of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.exchange import Arrival
from mercury.simulation.checks import Checks
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, OnFailure
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, Crash, Node, Pair, World, name_of
from .harness.words import SERVICE

KILO = 1024
REFUSED = ("fault Receiver", 503)
DIALECTS = pytest.mark.parametrize("foreign", [Foreign(RM11_SOAP12), Foreign(RM10_SOAP11)], ids=["1.1", "1.0"])
#: Each sequence may hold some bytes without a look at the others: here none.
NO_SHARE = {"max_sequences": 10**6, "max_sequences_per_peer": 10**6}


def large(number: int, kilobytes: int = 10) -> str:
    return f"{number} ".ljust(kilobytes * KILO, "x")


def first_words(texts: list[str]) -> list[int]:
    return [int(text.split()[0]) for text in texts]


def server(most: int = 100 * KILO, settings: dict[str, Any] | None = None, **policy: Any) -> Node:
    policy = {"max_backlog_bytes": most, **policy}
    return Node("server", World(), policy=replace(DESTINATION, **policy), **(settings or {}))


def post(node: Node, http: HttpMessage, peer: str = "192.0.2.1") -> HttpMessage:
    answers = node.receive([Arrival(http=http, service=SERVICE, url=node.service_url, peer=peer)])
    assert answers is not None
    node.post(list(answers[0].posts))
    return answers[0].http


def make(node: Node, foreign: Foreign, peer: str = "192.0.2.1") -> str:
    return identifier_in(post(node, foreign.create(), peer))


def says(http: HttpMessage) -> tuple[str, int]:
    return name_of(http), http.status


def taken(http: HttpMessage) -> bool:
    assert name_of(http) == "acknowledgement" or says(http) == REFUSED
    return name_of(http) == "acknowledgement"


def sent(
    node: Node, foreign: Foreign, sequence: str, number: int, kilobytes: int = 10, peer: str = "192.0.2.1"
) -> bool:
    """A peer posts a large message; returns whether it is taken."""
    return taken(post(node, foreign.note(sequence, number, large(number, kilobytes)), peer))


def stored(node: Node) -> int:
    """Bytes of the bodies that wait."""
    buffers = node.store.committed.invoker.buffers.values()
    return sum(len(row.payload) + sum(map(len, row.headers)) for buffer in buffers for row in buffer.rows.values())


def counted(node: Node) -> int:
    """Bytes that wait, by the counters, which agree with the rows."""
    checks = Checks()
    checks.bytes_counted(node.looked)
    assert checks.violations == []
    with node.store.transaction() as tx:
        return tx.rmd.waiting_bytes("")[1]


def away(_context: MessageContext, _text: str) -> None:
    """What the application meets for a while."""
    raise ConnectionError("the application's database is away")


# --- of one sequence -------------------------------------------------------------------------------------------------


@DIALECTS
def test_messages_behind_a_gap_are_refused_above_the_byte_limit_and_delivered_when_the_gap_is_filled(
    foreign: Foreign,
) -> None:
    node = server(100 * KILO)
    identifier = make(node, foreign)
    refused = [number for number in range(2, 41) if not sent(node, foreign, identifier, number)]
    assert len(refused) == 39 - 9, "nine of ten kilobytes, and what is around them, fit in 100"
    assert stored(node) <= 100 * KILO
    assert counted(node) <= 100 * KILO
    assert sent(node, foreign, identifier, 1, 200), "what they wait for, whatever its size"
    node.world.run()
    assert counted(node) == 0
    while refused:
        refused = [number for number in refused if not sent(node, foreign, identifier, number)]
        assert counted(node) <= 100 * KILO
        node.world.run()
    assert first_words(node.handled) == list(range(1, 41))


def test_messages_above_the_byte_limit_of_a_slow_handler_are_refused_and_delivered_later() -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog_bytes=50 * KILO))
    pair.server.on_call = away
    link = pair.link()
    link.notes(*(large(number) for number in range(1, 21)))
    link.close()
    pair.advance(5)
    assert counted(pair.server) <= 50 * KILO
    assert pair.count("fault Receiver") > 0
    pair.server.on_call = None
    pair.advance(100)
    assert first_words(pair.server.handled) == list(range(1, 21))
    pair.assert_ended()


def test_header_blocks_and_names_count_as_the_body_does() -> None:
    node, foreign = server(20 * KILO), Foreign()
    identifier = make(node, foreign)
    block = f'<h:note xmlns:h="urn:h">{"x" * 1500}</h:note>'
    numbers = range(2, 40)
    kept = sum(taken(post(node, foreign.note(identifier, number, headers=block))) for number in numbers)
    assert stored(node) <= 20 * KILO
    assert kept < 14
    named = server(20 * KILO)
    identifier = make(named, foreign)
    posts = (foreign.note(identifier, number, relates_to=f"urn:{'x' * 1500}") for number in numbers)
    assert sum(taken(post(named, http)) for http in posts) < 14


def test_several_that_arrive_together_do_not_pass_the_limit_together() -> None:
    node, foreign = server(50 * KILO), Foreign()
    identifier = make(node, foreign)
    replies = node.get_all([foreign.note(identifier, number, large(number)) for number in range(2, 20)])
    assert [says(reply) for reply in replies].count(REFUSED) == 14
    assert counted(node) <= 50 * KILO


def test_a_message_larger_than_the_limit_is_taken_when_it_is_its_turn() -> None:
    node, foreign = server(1), Foreign()
    identifier = make(node, foreign)
    for number in (1, 2, 3):
        assert not sent(node, foreign, identifier, number + 1)
        assert sent(node, foreign, identifier, number)
        node.world.run()
    assert first_words(node.handled) == [1, 2, 3]


def test_a_duplicate_is_acknowledged_whatever_waits() -> None:
    node, foreign = server(15 * KILO), Foreign()
    identifier = make(node, foreign)
    assert sent(node, foreign, identifier, 2)
    assert not sent(node, foreign, identifier, 3)
    assert sent(node, foreign, identifier, 2)


def test_the_bytes_do_not_stop_a_sequence_that_is_delivered_at_its_end_only() -> None:
    behavior = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    pair = Pair(policy=replace(DESTINATION, max_backlog_bytes=20 * KILO, incomplete_behavior=behavior))
    link = pair.link()
    link.notes(*(large(number) for number in range(1, 9)))
    pair.run()
    assert pair.server.handled == []
    link.close()
    pair.advance(20)
    assert first_words(pair.server.handled) == list(range(1, 9))
    pair.assert_ended()


# --- whatever way a message leaves, its bytes are free again ---------------------------------------------------------


def _handled(_node: Node, _identifier: str) -> None:
    """Nothing happens to them."""


def _died(node: Node, _identifier: str) -> None:
    node.on_call = away


def _parked(node: Node, identifier: str) -> None:
    node.on_call = away
    node.world.run()
    with node.store.transaction() as tx:
        record = tx.invoker.read(identifier)
        assert record is not None
        record.parked, record.retry_at = 1, None
        tx.invoker.save_delivered(record, consumed=())
    node.on_call = None


def _crashed_in_the_handler(node: Node, _identifier: str) -> None:
    calls: list[str] = []

    def crash(_context: MessageContext, text: str) -> None:
        calls.append(text)
        if len(calls) == 1:
            raise Crash

    node.on_call = crash


WAYS: list[tuple[str, Callable[[Node, str], None], dict[str, Any]]] = [
    ("handled", _handled, {}),
    ("handled, acknowledged at delivery", _handled, {"acknowledge_at": AcknowledgeAt.DELIVERY}),
    ("handled in any order", _handled, {"in_order": False}),
    ("dead letters", _died, {"on_failure": OnFailure.SKIP, "max_attempts": 2}),
    ("dead letters at most once", _died, {"assurance": DeliveryAssurance.AT_MOST_ONCE}),
    ("one is parked", _parked, {}),
    ("crash, exactly once", _crashed_in_the_handler, {}),
    ("crash, at least once", _crashed_in_the_handler, {"assurance": DeliveryAssurance.AT_LEAST_ONCE}),
    ("crash, at most once", _crashed_in_the_handler, {"assurance": DeliveryAssurance.AT_MOST_ONCE}),
]


@pytest.mark.parametrize(("way", "policy"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
def test_bytes_are_freed_whichever_way_a_message_leaves(
    way: Callable[[Node, str], None], policy: dict[str, Any]
) -> None:
    node, foreign = server(50 * KILO, **policy), Foreign()
    identifier = make(node, foreign)
    for number in (4, 3, 2, 1):
        assert sent(node, foreign, identifier, number)
    assert counted(node) > 40 * KILO
    way(node, identifier)
    node.world.advance(30)
    assert counted(node) == 0
    node.on_call = None
    for number in (8, 7, 6, 5):
        assert sent(node, foreign, identifier, number), "there is as much room as before"
        counted(node)
    node.world.advance(30)
    assert counted(node) == 0


@pytest.mark.parametrize("assurance", DeliveryAssurance)
@pytest.mark.parametrize("number", range(1, 7))
def test_bytes_of_a_commit_that_failed_are_not_counted_twice(number: int, assurance: DeliveryAssurance) -> None:
    node, foreign = server(assurance=assurance), Foreign()
    identifier = make(node, foreign)
    assert sent(node, foreign, identifier, 1)
    node.failing_commits.add(node.commits + number)
    for more in (2, 3):
        node.world.advance(5)
        assert any(sent(node, foreign, identifier, more) for _ in range(2)), "the first may be what fails"
    node.world.advance(5)
    assert counted(node) == 0
    assert node.destination().received_bytes > 30 * KILO


def test_bytes_of_a_call_that_was_interrupted_are_counted_beside_those_of_the_next() -> None:
    node, foreign = server(assurance=DeliveryAssurance.AT_MOST_ONCE), Foreign()
    identifier = make(node, foreign)
    _crashed_in_the_handler(node, identifier)
    assert sent(node, foreign, identifier, 1)
    assert node.turn()
    assert node.crashes == 1
    assert sent(node, foreign, identifier, 2)
    node.world.advance(5)
    assert first_words(node.handled) == [2]
    assert counted(node) == 0


@pytest.mark.parametrize("behavior", IncompleteSequenceBehavior)
@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in any order"])
def test_a_sequence_that_ends_with_a_gap_leaves_no_bytes_behind(
    behavior: IncompleteSequenceBehavior, in_order: bool
) -> None:
    node, foreign = server(incomplete_behavior=behavior, in_order=in_order), Foreign()
    identifier = make(node, foreign)
    for number in (1, 3, 4):
        assert sent(node, foreign, identifier, number)
    post(node, foreign.terminate(identifier, 4))
    node.world.advance(30)
    assert counted(node) == 0
    assert node.store.committed.invoker.idle(identifier)


def test_a_late_message_at_most_once_leaves_no_bytes_behind() -> None:
    node, foreign = server(assurance=DeliveryAssurance.AT_MOST_ONCE), Foreign()
    identifier = make(node, foreign)
    for number in (2, 1, 4, 3):
        post(node, foreign.note(identifier, number, large(number)))
        node.world.run()
    node.world.advance(5)
    assert counted(node) == 0


# --- of one peer, and in all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_many_sequences_of_one_peer_hold_no_more_than_one_could_and_each_goes_on(limit: str) -> None:
    node, foreign = server(settings={limit: 200 * KILO, **NO_SHARE}), Foreign()
    names = [make(node, foreign) for _ in range(30)]
    kept = [(name, number) for name in names for number in (2, 3) if sent(node, foreign, name, number)]
    assert len(kept) == 19
    assert counted(node) <= 200 * KILO
    for name in names:
        assert sent(node, foreign, name, 1), "what the others wait for"
        node.world.run()
    assert counted(node) == 0
    missing = [(name, number) for name in names for number in (2, 3) if (name, number) not in kept]
    for name, number in missing:
        assert sent(node, foreign, name, number)
        node.world.run()
    assert sorted(first_words(node.handled)) == [1] * 30 + [2] * 30 + [3] * 30


def test_many_sequences_whose_messages_arrive_together_do_not_pass_the_limit_together() -> None:
    node, foreign = server(settings={"max_backlog_bytes_per_peer": 200 * KILO, **NO_SHARE}), Foreign()
    names = [identifier_in(node.get(foreign.create())) for _ in range(30)]
    replies = node.get_all([foreign.note(name, 2, large(2)) for name in names])
    assert [says(reply) for reply in replies].count(REFUSED) == 11
    assert counted(node) <= 200 * KILO


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_the_first_messages_of_many_sequences_do_not_pass_the_limit_and_all_are_delivered(limit: str) -> None:
    node, foreign = server(settings={limit: 200 * KILO, **NO_SHARE}), Foreign()
    names = [make(node, foreign) for _ in range(40)]
    node.on_call = away
    taken = [name for name in names if sent(node, foreign, name, 1)]
    node.world.run()
    assert taken == names[:19]
    assert counted(node) <= 200 * KILO
    node.on_call = None
    node.world.advance(10)
    for name in names[19:]:
        assert sent(node, foreign, name, 1)
        node.world.run()
    assert first_words(node.handled) == [1] * 40
    assert counted(node) == 0


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_message_larger_than_all_behind_it_is_accepted_above_the_limit_for_the_oldest_sequence_only(limit: str) -> None:
    node, foreign = server(settings={limit: 60 * KILO, **NO_SHARE}), Foreign()
    names = [make(node, foreign) for _ in range(3)]
    for name in names:
        node.world.advance(1)
        for number in (2, 3):
            sent(node, foreign, name, number)
    assert [sent(node, foreign, name, 1, 30) for name in reversed(names)] == [False, False, True]
    node.world.run()
    assert first_words(node.handled) == [1, 2, 3]


def test_an_oldest_sequence_that_is_silent_for_an_hour_stops_no_other() -> None:
    node, foreign = server(settings={"max_backlog_bytes_per_peer": 50 * KILO, **NO_SHARE}), Foreign()
    left, used = make(node, foreign), make(node, foreign)
    for number in (2, 3, 4, 5):
        assert sent(node, foreign, left, number)
    node.world.advance(1800)
    assert not sent(node, foreign, used, 1)
    node.world.advance(1900)
    assert sent(node, foreign, used, 1)
    node.world.run()
    assert first_words(node.handled) == [1]


def test_a_peer_that_holds_too_much_takes_no_room_from_another() -> None:
    node, foreign = server(settings={"max_backlog_bytes_per_peer": 50 * KILO, **NO_SHARE}), Foreign()
    names = [make(node, foreign) for _ in range(3)]
    kept = [sent(node, foreign, name, number) for name in names for number in (2, 3)]
    assert kept == [True] * 4 + [False] * 2
    other = make(node, foreign, "192.0.2.2")
    assert not sent(node, foreign, names[2], 30)
    assert sent(node, foreign, other, 2, peer="192.0.2.2")


def test_a_little_behind_each_sequence_is_taken_whatever_waits_behind_others() -> None:
    shares = {"max_backlog_bytes_per_peer": 100 * KILO, "max_sequences_per_peer": 10}
    node, foreign = server(settings=shares), Foreign()
    first, second = make(node, foreign), make(node, foreign)
    for number in range(2, 30):
        post(node, foreign.note(first, number, large(number)))
    assert not sent(node, foreign, second, 2, 11)
    assert sent(node, foreign, second, 2, 8), "a tenth of what its peer may have"
    assert not sent(node, foreign, second, 3, 8)


def test_a_peer_that_makes_fills_and_ends_sequences_is_refused_a_new_one_until_they_are_handled() -> None:
    # RM-CS-14: as busy. Each sequence may have ten kilobytes without a look at the others.
    node, foreign = server(settings={"max_backlog_bytes_per_peer": 200 * KILO, "max_sequences_per_peer": 18}), Foreign()
    node.on_call = away
    replies = []
    for _ in range(60):
        replies.append(post(node, foreign.create()))
        if name_of(replies[-1]) == "CreateSequenceResponse":
            name = identifier_in(replies[-1])
            assert sent(node, foreign, name, 1)
            post(node, foreign.terminate(name, 1))
        node.world.advance(1)
    assert counted(node) <= 220 * KILO
    assert [name_of(reply) for reply in replies[-30:]] == ["fault CreateSequenceRefused"] * 30
    assert b"wait for the application; try again later" in replies[-1].body
    assert name_of(post(node, foreign.create(), "192.0.2.2")) == "CreateSequenceResponse", "another peer is not"
    node.on_call = None
    node.world.advance(30)
    assert counted(node) == 0
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_messages_behind_unfilled_gaps_make_room_after_an_hour(limit: str) -> None:
    """A client that crashed and forgot its sequences."""
    node, foreign = server(settings={limit: 50 * KILO, **NO_SHARE}), Foreign()
    left = make(node, foreign)
    for number in (2, 3, 4, 5):
        assert sent(node, foreign, left, number)
    node.world.advance(1800)
    used = make(node, foreign)
    assert sent(node, foreign, used, 2, 5)
    assert not sent(node, foreign, used, 3)
    node.world.advance(1900)
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"
    node.world.advance(1)
    assert counted(node) < 10 * KILO
    ended = {record.identifier: record.machine.tombstone for record in node.destinations()}
    assert (ended[left], ended[used]) == (True, False)


def test_empty_messages_that_only_look_like_the_last_one_are_not_stored_without_limit() -> None:
    """WS-RM 1.0: the empty last message is above all limits, because a sequence has only one."""
    node, foreign = server(KILO), Foreign(RM10_SOAP11)
    identifier = foreign.open(node)
    block = f'<q xmlns="urn:q">{"x" * 10 * KILO}</q>'
    for number in range(2, 5):
        headers = foreign.sequence(identifier, number) + block
        answer = node.get(foreign.envelope(f"{foreign.rm}/LastMessage", headers=headers))
        assert name_of(answer) == "fault ActionNotSupported"
    last = foreign.sequence(identifier, 5, last=True)
    assert name_of(node.get(foreign.envelope(f"{foreign.rm}/LastMessage", headers=last + block))) == "acknowledgement"
