"""Each event is emitted once, after the commit that made it true, and none for a rolled-back transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.events import (
    EVENTS,
    Accepted,
    Acknowledged,
    DeadLettered,
    Delivered,
    DestinationReplaced,
    DuplicateDropped,
    Event,
    HandlerFailed,
    MessageRefused,
    Retransmitted,
    SequenceCreated,
    SequenceEnded,
    SequenceFailed,
    Side,
    StoreRefused,
    Transmitted,
)
from mercury.engine.observers import Observers
from mercury.errors import ConfigurationError
from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import FailureReason
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, OnFailure
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.api import Transaction
from mercury.storage.letters import Direction

from .foreign import Foreign
from .harness import DESTINATION, EPOCH, NOTE, PATIENT, Node, Pair
from .harness.words import SERVICE
from .harness.world import World

ASSURANCES = pytest.mark.parametrize("assurance", list(DeliveryAssurance))
#: Kinds that happen once for each message, or for each acknowledgement.
FREQUENT = (Accepted, DuplicateDropped, Delivered, Transmitted, Retransmitted, Acknowledged)


def policy(assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE, **changes: object) -> DestinationPolicy:
    given = {
        "assurance": assurance,
        "redelivery": DESTINATION.redelivery,
        "acknowledgement_interval": 0.2,
        "batches": False,
        **changes,
    }
    return DestinationPolicy(**given)  # type: ignore[arg-type]


def failing(times: int) -> Callable[[MessageContext, str], None]:
    """A handler that raises at the first tries of one message."""

    def handle(context: MessageContext, text: str) -> None:
        if text == "one" and context.attempt <= times:
            raise LookupError("no one")

    return handle


def numbers(events: Iterable[Event]) -> list[int]:
    return [event.number for event in events]  # type: ignore[attr-defined]


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_message_is_transmitted_accepted_delivered_and_acknowledged_once(protocol: Protocol) -> None:
    pair = Pair()
    (message_id,) = pair.link(protocol).notes("one")
    pair.advance(1)
    sequence = pair.client.source().machine.identifier
    (sent,) = pair.client.seen(Transmitted)
    assert (sent.sequence, sent.number, sent.message_id) == (sequence, 1, message_id)
    assert (sent.endpoint, sent.key, sent.action) == (pair.server.service_url, "key", NOTE)
    (accepted,), (delivered,) = pair.server.seen(Accepted), pair.server.seen(Delivered)
    assert (accepted.sequence, accepted.number, accepted.message_id) == (sequence, 1, message_id)
    assert (accepted.service, accepted.action, accepted.size) == (SERVICE, NOTE, sent.size)
    assert (delivered.message_id, delivered.service, delivered.handler) == (message_id, SERVICE, "Note")
    assert (delivered.attempt, delivered.refused, delivered.received_at) == (1, False, accepted.at)
    (acknowledged,) = pair.client.seen(Acknowledged)
    assert (acknowledged.sequence, acknowledged.ranges, acknowledged.count) == (sequence, ((1, 1),), 1)
    assert pair.client.seen(Retransmitted) == pair.server.seen(DuplicateDropped) == []


def test_lost_message_is_retransmitted_and_its_neighbours_are_not() -> None:
    pair = Pair()
    pair.lose("message 2")
    _, second, _ = pair.link().notes("one", "two", "three")
    pair.advance(5)
    assert numbers(pair.client.seen(Transmitted)) == [1, 2, 3]
    (again,) = pair.client.seen(Retransmitted)
    assert (again.message_id, again.number, again.attempt, again.at) == (second, 2, 2, EPOCH + 1)
    assert numbers(pair.server.seen(Accepted)) == [1, 3, 2]
    assert numbers(pair.server.seen(Delivered)) == [1, 2, 3]
    assert sum(event.count for event in pair.client.seen(Acknowledged)) == 3


def test_message_that_arrives_twice_is_accepted_once_and_dropped_once() -> None:
    pair = Pair()
    pair.repeat("message 1")
    (message_id,) = pair.link().notes("one")
    pair.advance(5)
    (dropped,) = pair.server.seen(DuplicateDropped)
    assert (dropped.number, dropped.message_id, dropped.service, dropped.action) == (1, message_id, SERVICE, NOTE)
    assert len(pair.server.seen(Accepted)) == len(pair.server.seen(Delivered)) == 1


@pytest.mark.parametrize("listens", [True, False], ids=["listens", "does not listen"])
@pytest.mark.parametrize("offer", [True, False], ids=["offers a sequence", "offers none"])
def test_request_and_response_are_each_accepted_and_delivered_once(*, listens: bool, offer: bool) -> None:
    pair = Pair()
    pair.link(listens=listens, offer=offer).asks("one")
    pair.advance(5)
    assert pair.client.answers == [("one", "re one")]
    (accepted,), (delivered,) = pair.client.seen(Accepted), pair.client.seen(Delivered)
    assert (accepted.service, delivered.service) == (None, None), "it is a response"
    assert (delivered.handler, delivered.correlation) == ("answer", "one")
    assert [event.handler for event in pair.server.seen(Delivered)] == ["Ask"]


def test_request_that_its_handler_refuses_is_delivered_as_refused() -> None:
    pair = Pair()
    pair.link().asks("refuse")
    pair.advance(5)
    (delivered,) = pair.server.seen(Delivered)
    assert (delivered.handler, delivered.refused) == ("Ask", True)
    assert pair.server.seen(HandlerFailed) == pair.server.seen(DeadLettered) == []


# --- handlers that raise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assurance", [DeliveryAssurance.EXACTLY_ONCE, DeliveryAssurance.AT_LEAST_ONCE])
def test_handler_that_raises_fails_at_each_try_and_its_message_is_delivered_once(
    assurance: DeliveryAssurance,
) -> None:
    pair = Pair(policy=policy(assurance))
    pair.server.on_call = failing(2)
    pair.link().notes("one", "two")
    pair.advance(10)
    first, second = pair.server.seen(HandlerFailed)
    assert (first.handler, first.attempt, first.repeated, str(first.error)) == ("Note", 1, False, "no one")
    assert (second.attempt, second.repeated) == (2, True)
    assert first.retry_at == second.at
    assert [(event.number, event.attempt) for event in pair.server.seen(Delivered)] == [(1, 3), (2, 1)]


@ASSURANCES
def test_poison_message_fails_and_then_becomes_a_dead_letter_and_is_never_delivered(
    assurance: DeliveryAssurance,
) -> None:
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2))
    pair.server.on_call = failing(9)
    poison, _ = pair.link().notes("one", "two")
    pair.advance(10)
    failures = pair.server.seen(HandlerFailed)
    assert len(failures) == (1 if assurance is DeliveryAssurance.AT_MOST_ONCE else 2)
    assert failures[-1].retry_at is None, "it is not tried again"
    (dead,) = pair.server.seen(DeadLettered)
    assert (dead.direction, dead.certainty) == (Direction.INBOUND, Certainty.NOT_DELIVERED)
    assert [letter.message_id for letter in dead.letters] == [poison]
    assert pair.server.events.index(failures[-1]) < pair.server.events.index(dead)
    assert numbers(pair.server.seen(Delivered)) == [2]


def test_handler_that_is_called_once_and_raises_is_an_event_although_its_commit_fails() -> None:
    """It is not called again: the transaction that gives its message up emits what the other one could not."""
    pair = Pair(policy=policy(DeliveryAssurance.AT_MOST_ONCE))

    def handle(_context: MessageContext, _text: str) -> None:
        pair.server.failing_commits = {pair.server.commits + 1}
        raise LookupError("no one")

    pair.server.on_call = handle
    pair.link().notes("one")
    pair.advance(5)
    (failed,) = pair.server.seen(HandlerFailed)
    assert (str(failed.error), failed.attempt, failed.retry_at) == ("no one", 1, None)
    (dead,) = pair.server.seen(DeadLettered)
    assert dead.reason.startswith("given up: commit ")
    assert pair.server.events.index(failed) < pair.server.events.index(dead)
    assert pair.server.seen(Delivered) == []


def test_message_without_an_operation_any_more_is_a_failure() -> None:
    pair = Pair()
    pair.link().notes("one")
    pair.hold("message 1")
    pair.run()
    pair.release()
    pair.carry()  # it is accepted, and its operation is not there when it is given to the application
    pair.server.registry._services[SERVICE].operations.clear()
    pair.run()
    (failed,) = pair.server.seen(HandlerFailed)
    assert (failed.handler, failed.attempt) == (NOTE, 1)
    assert isinstance(failed.error, LookupError)


# --- sequences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listens", [True, False], ids=["listens", "does not listen"])
@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_each_sequence_is_created_and_ended_once_on_both_sides(protocol: Protocol, *, listens: bool) -> None:
    pair = Pair()
    link = pair.link(protocol, listens=listens)
    link.asks("one", "two")
    link.close()
    pair.advance(200)
    for node in (pair.client, pair.server):
        created = {(event.side, event.sequence) for event in node.seen(SequenceCreated)}
        ended = {(event.side, event.sequence) for event in node.seen(SequenceEnded)}
        assert created == ended
        assert len(node.seen(SequenceCreated)) == len(node.seen(SequenceEnded)) == 2, "requests and responses"
        assert node.seen(SequenceFailed) == []
    source = next(event for event in pair.client.seen(SequenceEnded) if event.side is Side.SOURCE)
    assert (source.endpoint, source.key, source.complete) == (pair.server.service_url, "key", True)
    assert source.messages == (2 if protocol.rm.name == "RM11" else 3), "1.0 ends with an empty message"
    destination = next(event for event in pair.server.seen(SequenceEnded) if event.side is Side.DESTINATION)
    assert (destination.service, destination.complete, destination.expired) == (SERVICE, True, False)


def test_sequence_that_expires_fails_at_its_source_and_ends_as_expired_at_its_destination() -> None:
    pair = Pair()
    pair.lose("message 2", 100)
    pair.link(expires=10).notes("one", "two")
    pair.advance(60)
    (failed,) = pair.client.seen(SequenceFailed)
    assert (failed.failure, failed.dead_letters, failed.key) == (FailureReason.EXPIRED, 1, "key")
    (dead,) = pair.client.seen(DeadLettered)
    assert (dead.direction, dead.certainty) == (Direction.OUTBOUND, Certainty.UNKNOWN)
    assert (dead.endpoint, dead.key) == (failed.endpoint, failed.key) == (pair.server.service_url, "key")
    assert [event for event in pair.client.seen(SequenceEnded) if event.side is Side.SOURCE] == []
    (ended,) = [event for event in pair.server.seen(SequenceEnded) if event.side is Side.DESTINATION]
    assert (ended.expired, ended.messages) == (True, 1)


def test_sequence_that_was_never_made_fails_without_an_identifier() -> None:
    pair = Pair()
    pair.lose("CreateSequence", 100)
    pair.link(retransmission=RetransmissionPolicy(base=1.0, jitter=0.0, max_attempts=2)).notes("one", "two")
    pair.advance(60)
    assert pair.client.seen(SequenceCreated) == []
    (failed,) = pair.client.seen(SequenceFailed)
    assert (failed.sequence, failed.failure, failed.dead_letters) == (None, FailureReason.GIVEN_UP, 2)
    (dead,) = pair.client.seen(DeadLettered)
    assert len(dead.letters) == 2, "alike ones are one event"


def test_message_that_the_peer_refuses_is_an_event_with_its_fault() -> None:
    pair = Pair()
    pair.server.registry._services[SERVICE].operations.clear()
    (message_id,) = pair.link().notes("one")
    pair.advance(0.5)
    (refused,) = pair.client.seen(MessageRefused)
    assert refused.message_id == message_id
    assert refused.reason.startswith("ActionNotSupported: ")


# --- what is rolled back ---------------------------------------------------------------------------------------------


#: What the application of `run_through` commits before anything else is.
SENT = 5


def run_through(pair: Pair) -> None:
    """A story with every frequent kind of event in it."""
    pair.server.on_call = failing(1)
    pair.lose("message 2")
    pair.repeat("message 1")
    link = pair.link()
    link.notes("one", "two", "three")
    link.asks("four")
    link.close()
    assert pair.client.commits == SENT
    pair.advance(120)
    assert pair.server.handled == ["one", "two", "three", "four"]
    assert pair.client.answers == [("four", "re four")]


@pytest.mark.parametrize(("host", "first"), [("client", SENT + 1), ("server", 1)])
def test_transaction_that_is_rolled_back_emits_nothing(host: str, first: int) -> None:
    """Each commit of either node fails once: the events are those of a run in which none has failed."""
    place, commits = first, first
    while place <= commits:
        pair = Pair()
        pair.nodes[host].failing_commits.add(place)
        run_through(pair)
        commits = pair.nodes[host].commits
        for node, messages in ((pair.client, [1]), (pair.server, [1, 2, 3, 4])):
            assert sorted(numbers(node.seen(Accepted))) == messages, (host, place)
            assert numbers(node.seen(Delivered)) == messages, (host, place)
            assert len(node.seen(SequenceCreated)) == len(node.seen(SequenceEnded)) == 2, (host, place)
        assert numbers(pair.client.seen(Transmitted)) == [1, 2, 3, 4], (host, place)
        assert numbers(pair.server.seen(Transmitted)) == [1], (host, place)
        assert sum(event.count for event in pair.client.seen(Acknowledged)) == 4, (host, place)
        assert len(pair.server.seen(HandlerFailed)) == 1, (host, place)
        place += 1
    assert place > first + 10, "there are commits to fail"


def test_crash_over_a_commit_doubles_nothing_and_loses_nothing_that_was_committed() -> None:
    """A node that crashes before or after a commit does its work again, and no event comes twice."""
    for when in ("crash_before_commit", "crash_after_commit"):
        for place in range(1, 30):
            pair = Pair()
            getattr(pair.server, when).add(place)
            pair.link().notes("one", "two", "three")
            pair.advance(60)
            assert pair.server.handled == ["one", "two", "three"]
            assert numbers(pair.server.seen(Delivered)) == [1, 2, 3], (when, place)
            assert sorted(numbers(pair.server.seen(Accepted))) == [1, 2, 3], (when, place)


def test_events_come_after_the_commit() -> None:
    """The store says the same as the event when the observer is called."""
    pair = Pair()
    open_then: list[int] = []
    waiting_then: list[int] = []

    def observe(event: Delivered) -> None:
        open_then.append(pair.server.watched.open)
        waiting_then.append(len(pair.server.store.committed.invoker.buffers[event.sequence].rows))

    pair.server.observers.subscribe(observe, Delivered)
    pair.link().notes("one")
    pair.advance(1)
    assert (open_then, waiting_then) == ([0], [0])


# --- observers -------------------------------------------------------------------------------------------------------


def test_observer_that_raises_is_logged_once_with_its_name_and_affects_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = Pair()
    later: list[Event] = []

    def stumbling_observer(_event: Event) -> None:
        raise ZeroDivisionError

    for node in (pair.client, pair.server):
        node.observers.subscribe(stumbling_observer)
        node.observers.subscribe(later.append)
    link = pair.link()
    link.notes("one", "two")
    link.close()
    pair.advance(20)
    assert pair.server.handled == ["one", "two"]
    assert link.pending == 0
    lines = [record for record in caplog.records if "stumbling_observer" in record.getMessage()]
    assert len(lines) == 2, "one for each node"
    assert all(line.levelname == "ERROR" and line.exc_info for line in lines)
    # The harness has watched from the beginning, as the one that is called behind the stumbling one has.
    assert sorted(map(repr, later)) == sorted(map(repr, [*pair.client.events, *pair.server.events]))


class _Building(Observers):
    """Remembers of which kinds an event was built."""

    def __init__(self) -> None:
        super().__init__()
        self.built: set[type[Event]] = set()

    def emit(self, tx: Transaction, event: Event) -> None:
        self.built.add(type(event))
        super().emit(tx, event)


def test_nothing_is_built_for_each_message_without_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scenario.harness.node.Observers", _Building)
    watched = Pair()
    run_through(watched)
    for node in (watched.client, watched.server):
        assert isinstance(node.observers, _Building)
        assert node.observers.built & set(FREQUENT)
    monkeypatch.setattr("tests.scenario.harness.node.Node._observe", lambda _self, _event: None)
    alone = Pair()
    for node in (alone.client, alone.server):
        node.stop_watching()
    run_through(alone)
    for node in (alone.client, alone.server):
        assert isinstance(node.observers, _Building)
        assert node.observers.built & set(FREQUENT) == set()


def test_subscription_to_one_kind_sees_no_other_and_ends() -> None:
    node = Node("alone", World())
    seen: list[Event] = []
    end = node.observers.subscribe(seen.append, SequenceCreated)
    foreign = Foreign()
    identifier = foreign.open(node)
    assert [type(event) for event in seen] == [SequenceCreated]
    assert seen[0].sequence == identifier  # type: ignore[attr-defined]
    end()
    end()
    foreign.open(node)
    assert len(seen) == 1
    assert not Observers().wants(Accepted)
    assert Observers().wants(DeadLettered), "the log and the futures want them"


def test_kinds_that_have_something_in_common_are_subscribed_to_together() -> None:
    observers = Observers()
    observers.subscribe(lambda _event: None, Event)
    assert all(observers.wants(kind) for kind in EVENTS)


@pytest.mark.parametrize("kind", [int, "Delivered", None])
def test_unknown_kind_of_event_cannot_be_subscribed_to(kind: type[Event]) -> None:
    with pytest.raises(ConfigurationError, match=r"is no kind of event: see mercury\.events\.EVENTS"):
        Observers().subscribe(lambda _event: None, kind)


def test_retransmissions_to_a_peer_that_is_away_are_counted() -> None:
    pair = Pair()
    pair.link(retransmission=PATIENT).notes("one")
    pair.run()
    pair.lose("message *", 100)
    pair.link().notes("two")
    pair.advance(8)
    assert [event.attempt for event in pair.client.seen(Retransmitted)] == [2, 3, 4]
    assert [event.number for event in pair.client.seen(Transmitted)] == [1, 2]


def test_destination_whose_store_is_another_one_is_refused_once_and_replaced_for_each_key() -> None:
    pair = Pair()
    pair.server.engine._context.store_id = "s1"
    link = pair.link()
    link.notes("one")
    pair.advance(5)
    pair.server.engine._context.store_id = "s2"
    pair.link(key="other").notes("two")
    pair.advance(5)
    (refused,) = pair.client.seen(StoreRefused)
    endpoint = pair.server.service_url
    assert (refused.endpoint, refused.address, refused.expected, refused.found) == (endpoint, endpoint, "s1", "s2")
    link.close()
    pair.advance(100)
    assert pair.client.seen(DestinationReplaced) == []
    with pair.client.store.transaction() as tx:
        tx.peer_stores.replace(endpoint, "s2", pair.now)
    link.notes("three")
    pair.advance(5)
    (replaced,) = pair.client.seen(DestinationReplaced)
    assert (replaced.before, replaced.store, replaced.in_doubt) == ("s1", "s2", ())
    assert (replaced.endpoint, replaced.key) == (endpoint, "key")
