"""ExactlyOnce, AtLeastOnce, AtMostOnce, in order or not: what crashes and failing handlers repeat, lose or skip."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.errors import ApplicationFault, CapabilityError, TransientStorageError
from mercury.statemachine.invoker import INTERRUPTED
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy, OnFailure
from mercury.statemachine.tables import InvokerState

from .foreign import RM11_SOAP12, Foreign
from .harness import DESTINATION, Crash, Link, Node, Pair, World, body, name_of

ONCE, LEAST, MOST = DeliveryAssurance.EXACTLY_ONCE, DeliveryAssurance.AT_LEAST_ONCE, DeliveryAssurance.AT_MOST_ONCE
ASSURANCES = pytest.mark.parametrize("assurance", [ONCE, LEAST, MOST], ids=lambda each: each.value)
ORDERS = pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in any order"])


def policy(assurance: DeliveryAssurance = ONCE, **changes: object) -> DestinationPolicy:
    return replace(DESTINATION, assurance=assurance, **changes)


class Broken:
    """A handler that fails for some texts, a given number of times each."""

    def __init__(self, node: Node, *texts: str, times: int = 10**9, error: Exception | None = None) -> None:
        self.texts = texts
        self.times = times
        self.error = error or RuntimeError("a handler stumbled")
        self.attempts: list[tuple[str, int]] = []
        node.on_call = self

    def __call__(self, context: MessageContext, text: str) -> None:
        self.attempts.append((text, context.attempt))
        if text in self.texts and self.times > 0:
            self.times -= 1
            raise self.error


# --- crashes ---------------------------------------------------------------------------------------------------------

#: After the message is stored: ExactlyOnce makes one commit, the others load, then call and mark, or mark and call.
CRASHES = [
    (ONCE, "before", 1, 1),
    (ONCE, "after", 1, 1),
    (LEAST, "before", 1, 1),
    (LEAST, "after", 1, 1),
    (LEAST, "before", 2, 1),
    (LEAST, "after", 2, 2),
    (LEAST, "before", 3, 2),
    (LEAST, "after", 3, 1),
    (MOST, "before", 1, 1),
    (MOST, "after", 1, 1),
    (MOST, "before", 2, 1),
    (MOST, "after", 2, 0),
    (MOST, "before", 3, 0),
    (MOST, "after", 3, 1),
]


@pytest.mark.parametrize(
    ("assurance", "side", "commit", "times"), CRASHES, ids=lambda value: getattr(value, "value", str(value))
)
@ORDERS
def test_how_often_a_message_takes_effect_when_the_server_crashes_over_it(
    assurance: DeliveryAssurance, side: str, commit: int, times: int, in_order: bool
) -> None:
    # DA-01, DA-02, DA-03
    node, foreign = Node("server", World(), policy=policy(assurance, in_order=in_order)), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1, "one"))
    crashes = node.crash_before_commit if side == "before" else node.crash_after_commit
    crashes.add(node.commits + commit)
    node.world.run()
    assert node.crashes == 1
    assert node.handled == ["one"] * times
    node.get(foreign.note(identifier, 2, "two"))
    node.world.run()
    assert node.handled == ["one"] * times + ["two"], "it goes on behind it"
    node.get(foreign.terminate(identifier, 2))
    node.world.run()
    assert node.store.committed.invoker.buffers[identifier].record.machine.state is InvokerState.DONE
    node.world.assert_sound()


@pytest.mark.parametrize("offer", [True, False], ids=["offer", "no offer"])
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_a_request_whose_handler_was_repeated_is_answered_once(offer: bool, listens: bool) -> None:
    pair = Pair(policy=policy(LEAST))
    link = pair.link(offer=offer, listens=listens)
    pair.hold("message 2")
    link.asks("one", "two")
    pair.lose("message 1")
    pair.run()
    pair.release()
    pair.now += 1
    while not pair.server.destinations() or not pair.server.destination().machine.received.covers(1, 2):
        pair.carry()
        pair.client.turn()
    pair.server.crash_after_commit.add(pair.server.commits + 2)
    link.asks("three")
    link.close()
    pair.advance(100)
    assert pair.server.handled == ["one", "two", "one", "two", "three"]
    assert sorted(pair.client.answers) == [("one", "re one"), ("three", "re three"), ("two", "re two")]
    assert pair.client.letters() == pair.server.letters() == []
    assert all(not record.machine.alive for node in (pair.client, pair.server) for record in node.sources())
    assert pair.client.rows() == pair.server.rows() == 0


def interrupted(pair: Pair, link: Link, *texts: str) -> None:
    """The server has received these requests, and crashes between the mark and their handlers."""
    link.asks(*texts)
    while not pair.server.destinations() or not pair.server.destination().machine.received.covers(1, len(texts)):
        pair.client.turn()
        pair.carry()
    pair.server.crash_after_commit.add(pair.server.commits + 2)
    pair.run()
    assert pair.server.crashes == 1


@pytest.mark.parametrize("offer", [True, False], ids=["offer", "no offer"])
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@ORDERS
def test_a_request_whose_only_call_was_interrupted_is_answered_with_a_fault(
    offer: bool, listens: bool, in_order: bool
) -> None:
    # DA-05
    pair = Pair(policy=policy(MOST, in_order=in_order))
    link = pair.link(offer=offer, listens=listens)
    interrupted(pair, link, "one", "two")
    link.asks("three")
    link.close()
    pair.advance(100)
    assert pair.server.handled == ["three"]
    assert sorted(pair.client.answers) == [("one", "fault Failed"), ("three", "re three"), ("two", "fault Failed")]
    assert pair.server.letters_by_text() == [("one", "not delivered"), ("two", "not delivered")]
    assert {letter.reason for letter in pair.server.letters()} == {INTERRUPTED}
    assert all(not record.machine.alive for node in (pair.client, pair.server) for record in node.sources())
    assert pair.client.rows() == pair.server.rows() == 0
    assert pair.client.letters() == []


@pytest.mark.parametrize("behavior", [None, *IncompleteSequenceBehavior], ids=lambda each: each.value if each else "")
def test_a_message_whose_only_call_was_interrupted_is_a_dead_letter_at_the_end_of_its_sequence_too(
    behavior: IncompleteSequenceBehavior | None,
) -> None:
    node, foreign = Node("server", World(), policy=policy(MOST, incomplete_behavior=behavior)), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1, "one"))
    node.get(foreign.terminate(identifier, 1))
    node.crash_after_commit.add(node.commits + 2)
    node.world.run()
    assert (node.crashes, node.handled) == (1, [])
    assert node.letters_by_text() == [("one", "not delivered")]
    node.world.advance(node.policy.tombstone)
    assert node.empty()


def test_a_response_whose_only_call_was_interrupted_is_a_dead_letter_and_its_request_waits_no_longer() -> None:
    pair = Pair(client_policy=policy(MOST))
    link = pair.link()

    def killed(_context: MessageContext, text: str) -> None:
        if text == "re one":
            raise Crash

    pair.client.on_call = killed
    link.asks("one")
    pair.advance(5)
    link.asks("two")
    link.close()
    pair.advance(20)
    assert pair.client.crashes == 1
    assert pair.client.answers == [("two", "re two")]
    assert pair.client.letters_by_text() == [("re one", "not delivered")]
    assert pair.client.rows() == 0
    assert all(not record.machine.alive for record in pair.client.sources())


def test_a_handler_whose_claim_was_taken_over_commits_nothing_and_its_request_is_answered_once() -> None:
    pair = Pair(policy=policy(MOST))

    def paused(context: MessageContext, _text: str) -> None:
        after = pair.now + pair.server.settings.lease
        assert pair.server.store.claim(f"invoker {context.sequence}", "another", after, 1.0) is not None

    pair.server.on_call = paused
    link = pair.link()
    link.asks("one")
    link.close()
    pair.advance(100)
    assert pair.server.handled == []
    assert len(pair.server.contexts) == 1
    assert pair.client.answers == [("one", "fault Failed")]


def test_a_slow_handler_that_is_called_once_keeps_its_claim() -> None:
    pair = Pair(policy=policy(MOST))
    lease = pair.server.settings.lease

    def slow(context: MessageContext, _text: str) -> None:
        for part in (0.6, 1.2):
            pair.server.engine.clock.run_once(pair.now + part * lease)
        resource = f"invoker {context.sequence}"
        assert pair.server.store.claim(resource, "another", pair.now + 1.5 * lease, lease) is None

    pair.server.on_call = slow
    link = pair.link()
    link.asks("one")
    link.close()
    pair.advance(20)
    assert pair.server.handled == ["one"]
    assert pair.client.answers == [("one", "re one")]


class Rival:
    """Handlers that take their time, and another process on the store that takes over every claim that is over."""

    def __init__(self, node: Node, seconds: float) -> None:
        self.node, self.seconds = node, seconds
        self.calls: list[str] = []
        self.taken_over = 0
        node.on_call = self

    def __call__(self, context: MessageContext, text: str) -> None:
        self.calls.append(text)
        assert len(self.calls) < 500, "the same handlers run again and again"
        self.node.world.now += self.seconds
        resource, now, lease = f"invoker {context.sequence}", self.node.world.now, self.node.settings.lease
        claim = self.node.store.claim(resource, "another process", now, lease)
        if claim is not None:
            self.taken_over += 1
            self.node.store.release(claim)


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
@ORDERS
def test_run_of_slow_handlers_commits_in_parts_before_its_claim_can_be_taken_over(
    assurance: DeliveryAssurance, in_order: bool
) -> None:
    node, foreign = Node("server", World(), policy=policy(assurance, in_order=in_order)), Foreign()
    texts = [f"note {number}" for number in range(1, 51)]
    identifiers = [foreign.open(node), foreign.open(node)]
    for identifier in identifiers:
        for number, text in enumerate(texts, 1):
            node.get(foreign.note(identifier, number, text))
    rival = Rival(node, seconds=1.0)
    node.world.advance(200)
    assert rival.taken_over == 0
    assert sorted(node.handled) == sorted(texts * 2)
    assert len(rival.calls) == 100, "no handler was called twice"


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_handler_that_takes_less_than_half_the_lease_keeps_its_claim(assurance: DeliveryAssurance) -> None:
    node, foreign = Node("server", World(), policy=policy(assurance)), Foreign()
    identifier = foreign.open(node)
    for number in range(1, 5):
        node.get(foreign.note(identifier, number))
    rival = Rival(node, seconds=0.49 * node.settings.lease)
    node.world.advance(200)
    assert rival.taken_over == 0
    assert node.handled == [f"note {number}" for number in range(1, 5)]


@ASSURANCES
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@ORDERS
def test_every_assurance_carries_both_patterns_to_the_end(
    assurance: DeliveryAssurance, listens: bool, in_order: bool
) -> None:
    chosen = policy(assurance, in_order=in_order)
    pair = Pair(policy=chosen, client_policy=chosen)
    link = pair.link(listens=listens)
    link.notes("one")
    link.asks("two", "refuse three", "four")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "two", "four"]
    assert pair.client.answers == [("two", "re two"), ("refuse three", "fault Refused"), ("four", "re four")]
    pair.assert_ended()


@ASSURANCES
def test_the_last_crash_of_all_does_not_keep_the_response_sequence_open(assurance: DeliveryAssurance) -> None:
    pair = Pair(policy=policy(assurance))
    link = pair.link(listens=False)
    link.notes("one")
    link.close()
    pair.run()
    pair.advance(100)
    pair.assert_ended()


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assurance", "in_order", "at_once"),
    [
        (ONCE, True, []),
        (ONCE, False, ["three", "two"]),
        (LEAST, True, []),
        (LEAST, False, ["three", "two"]),
        (MOST, True, ["three"]),
        (MOST, False, ["three", "two"]),
    ],
    ids=lambda value: getattr(value, "value", str(value)),
)
def test_delivery_while_there_is_a_gap(assurance: DeliveryAssurance, in_order: bool, at_once: list[str]) -> None:
    # DA-04
    node, foreign = Node("server", World(), policy=policy(assurance, in_order=in_order)), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 3, "three"))
    node.world.run()
    node.get(foreign.note(identifier, 2, "two"))
    node.world.run()
    assert node.handled == at_once
    node.get(foreign.note(identifier, 1, "one"))
    node.world.run()
    rest = {True: ["one", "two", "three"], False: [*at_once, "one"]}[not at_once]
    if assurance is MOST and in_order:
        rest = ["three"]
        assert [(letter.number, letter.reason) for letter in node.letters()] == [
            (2, "it came after a later message had been delivered"),
            (1, "it came after a later message had been delivered"),
        ]
    assert node.handled == rest


def test_a_request_that_came_too_late_is_answered_with_a_fault() -> None:
    node, foreign = Node("server", World(), policy=policy(MOST)), Foreign()
    identifier = foreign.open(node, offer="urn:offered", acks_to="http://friend.example/")
    node.get(foreign.note(identifier, 2, "two"))
    node.world.run()
    node.get(foreign.ask(identifier, 1, "one", reply_to="http://friend.example/", message_id="urn:late"))
    node.turn()
    node.turn()
    (flight,) = [each for each in node.world.wire if each.name == "response 1"]
    assert b"Failed" in flight.http.body
    assert flight.envelope.relates_to == "urn:late"


def test_a_response_that_came_too_late_still_answers_its_request_with_a_dead_letter() -> None:
    pair = Pair(client_policy=policy(MOST))
    pair.lose("response 1")
    link = pair.link()
    link.asks("one", "two")
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("two", "re two")]
    assert pair.client.letters_by_text() == [("re one", "not delivered")]
    assert pair.client.rows() == 0
    assert all(not record.machine.alive for record in pair.client.sources())


# --- failing handlers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_a_failing_handler_is_tried_again_by_the_policy_and_the_rest_waits(assurance: DeliveryAssurance) -> None:
    pair = Pair(policy=policy(assurance))
    broken = Broken(pair.server, "two", times=4)
    link = pair.link()
    link.notes("one", "two", "three")
    link.close()
    times: list[float] = []
    pair.run()
    assert pair.server.handled == ["one"]
    for _ in range(4):
        buffer = next(iter(pair.server.store.committed.invoker.buffers.values())).record
        times.append((buffer.retry_at or 0) - pair.now)
        assert buffer.last_error == "RuntimeError: a handler stumbled"
        pair.advance(times[-1])
    assert times == [0.5, 1.0, 2.0, 4.0]
    assert [attempt for text, attempt in broken.attempts if text == "two"] == [1, 2, 3, 4, 5]
    pair.advance(10)
    assert pair.server.handled == ["one", "two", "three"]
    pair.assert_ended()


def test_the_tries_are_counted_over_a_crash() -> None:
    pair = Pair()
    broken = Broken(pair.server, "one", times=3)
    pair.link().notes("one")
    pair.advance(2)
    pair.server.crash()
    pair.advance(10)
    assert [attempt for _, attempt in broken.attempts] == [1, 2, 3, 4]


@ASSURANCES
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_a_message_that_is_skipped_is_a_dead_letter_and_the_order_goes_on(
    assurance: DeliveryAssurance, listens: bool
) -> None:
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=3))
    broken = Broken(pair.server, "two")
    link = pair.link(listens=listens)
    link.notes("one", "two", "three")
    link.close()
    pair.advance(20)
    assert pair.server.handled == ["one", "three"]
    assert pair.server.letters_by_text() == [("two", "not delivered")]
    assert pair.server.letters()[0].reason == "given up: RuntimeError: a handler stumbled"
    tries = [attempt for text, attempt in broken.attempts if text == "two"]
    assert tries == ([1] if assurance is MOST else [1, 2, 3])
    assert pair.client.rows() == 0
    assert all(record.machine.tombstone for record in pair.server.destinations())


@ASSURANCES
def test_a_request_that_is_skipped_is_answered_with_a_fault(assurance: DeliveryAssurance) -> None:
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2))
    Broken(pair.server, "two")
    link = pair.link()
    link.asks("one", "two", "three")
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("one", "re one"), ("two", "fault Failed"), ("three", "re three")]
    assert pair.client.rows() == 0


@ASSURANCES
def test_handler_that_refuses_with_a_detail_that_is_no_xml_has_failed(assurance: DeliveryAssurance) -> None:
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2))
    broken = Broken(pair.server, "two", error=ApplicationFault("no", detail=b"<a/><b/>"))
    pair.link().asks("one", "two", "three")
    pair.advance(20)
    assert pair.client.answers == [("one", "re one"), ("two", "fault Failed"), ("three", "re three")]
    assert broken.attempts.count(("two", 1)) == 1
    assert pair.server.letters()[0].reason.startswith("given up: PayloadError: the payload cannot be sent")


class Bare(ApplicationFault):
    """A fault of the application's whose constructor does not call that of its base."""

    def __init__(self) -> None: ...


#: Faults that cannot be written.
UNWRITABLE = [ApplicationFault("no", detail={"why": "gone"}), Bare()]  # type: ignore[arg-type]


@ASSURANCES
@pytest.mark.parametrize("fault", UNWRITABLE, ids=["a detail that is no XML at all", "no fields"])
def test_handler_that_refuses_with_a_fault_that_cannot_be_written_has_failed(
    assurance: DeliveryAssurance, fault: ApplicationFault
) -> None:
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2))
    broken = Broken(pair.server, "two", error=fault)
    pair.link().asks("one", "two", "three")
    pair.advance(20)
    assert pair.client.answers == [("one", "re one"), ("two", "fault Failed"), ("three", "re three")]
    attempts = [attempt for text, attempt in broken.attempts if text == "two"]
    assert attempts == ([1] if assurance is MOST else [1, 2])
    assert pair.server.letters()[0].reason.startswith("given up: AttributeError: ")


def test_one_way_message_that_is_refused_with_a_fault_without_a_reason_has_failed() -> None:
    pair = Pair(policy=policy(on_failure=OnFailure.SKIP, max_attempts=2))
    Broken(pair.server, "two", error=Bare())
    pair.link().notes("one", "two", "three")
    pair.advance(20)
    assert pair.server.handled == ["one", "three"]
    assert [letter.reason[:24] for letter in pair.server.letters()] == ["given up: AttributeError"]


def test_reason_of_a_refusal_that_no_store_can_keep_is_in_the_dead_letter_with_replacements(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mercury")
    pair = Pair()
    Broken(pair.server, "two", error=ApplicationFault("no\0 \ud800 more"))
    pair.link().notes("one", "two", "three")
    pair.advance(20)
    assert pair.server.handled == ["one", "three"]
    assert [letter.reason for letter in pair.server.letters()] == ["the handler refused it: no\ufffd ? more"]
    lines = [line for line in caplog.messages if "answers with a fault" in line]
    assert lines == [r"the handler of Note answers with a fault: 'no\x00 \ud800 more'"], "a file in UTF-8 can hold it"


@ASSURANCES
def test_a_callback_that_is_skipped_leaves_a_dead_letter_and_nothing_waits(assurance: DeliveryAssurance) -> None:
    pair = Pair(client_policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2))
    Broken(pair.client, "re one")
    link = pair.link()
    link.asks("one", "two")
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("two", "re two")]
    assert pair.client.letters_by_text() == [("re one", "not delivered")]
    assert pair.client.rows() == 0
    pair.advance(5000)
    assert len(pair.client.letters()) == 1, "it is not reported again when the sequence is forgotten"


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_a_callback_that_fails_is_tried_again_and_its_request_waits(assurance: DeliveryAssurance) -> None:
    pair = Pair(client_policy=policy(assurance))
    Broken(pair.client, "re one", times=3)
    link = pair.link()
    link.asks("one")
    pair.advance(1)
    assert pair.client.answers == []
    assert pair.client.rows() == 1
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("one", "re one")]
    pair.assert_ended()


def test_a_response_waits_until_its_callback_is_registered() -> None:
    pair = Pair()
    pair.link().asks("one")
    pair.hold("response 1")
    pair.run()
    callback = pair.client.registry.callback("answer")
    assert callback is not None
    pair.client.registry.drop_callback("answer")
    pair.release()
    pair.advance(3)
    assert pair.client.answers == []
    pair.client.registry.add_callback("answer", callback)
    pair.advance(3)
    assert pair.client.answers == [("one", "re one")]


def test_a_future_of_a_process_that_is_gone_leaves_a_dead_letter() -> None:
    pair = Pair()
    link = pair.link()
    link.ask("one")
    pair.hold("response 1")
    pair.run()
    pair.client.crash()
    pair.release()
    pair.advance(3)
    assert [letter.reason for letter in pair.client.letters()] == ["the caller that waited for this response has gone"]
    assert pair.client.rows() == 0


# --- what is rolled back with it -------------------------------------------------------------------------------------


def relaying(pair: Pair, text: str = "relayed") -> Link:
    """A handler that sends a message of its own in the transaction that consumes its message."""
    third = Node("third", pair)
    onward = pair.server.to(third, policy=pair.link(offer=False)._channel.policy)
    before = pair.server.on_call

    def relay(context: MessageContext, received: str) -> None:
        onward.notes(f"{text} {received}", tx=context.transaction)
        if before is not None:
            before(context, received)

    pair.server.on_call = relay
    return onward


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_failing_handlers_sends_are_rolled_back_and_earlier_messages_commit(
    assurance: DeliveryAssurance,
) -> None:
    # decision 11
    pair = Pair(policy=policy(assurance))
    Broken(pair.server, "two", times=2)
    relaying(pair)
    pair.link().notes("one", "two", "three")
    pair.run()
    assert pair.nodes["third"].handled == ["relayed one"]
    pair.advance(10)
    assert pair.nodes["third"].handled == ["relayed one", "relayed two", "relayed three"]


def test_an_application_fault_undoes_the_handlers_work_and_consumes_the_request() -> None:
    # decision 11
    pair = Pair()
    relaying(pair)
    link = pair.link()
    link.asks("refuse one", "two")
    link.close()
    pair.advance(10)
    assert pair.client.answers == [("refuse one", "fault Refused"), ("two", "re two")]
    assert pair.nodes["third"].handled == ["relayed two"]
    assert len(pair.server.contexts) == 2


def test_a_crash_after_the_handler_repeats_none_of_its_messages() -> None:
    pair = Pair()
    relaying(pair)
    pair.link().notes("one")
    while not pair.server.destinations() or not pair.server.destination().machine.received:
        pair.client.turn()
        pair.carry()
    for commit in (1, 3, 5):
        pair.server.crash_before_commit.add(pair.server.commits + commit)
    pair.advance(20)
    assert pair.server.crashes == 3
    assert pair.nodes["third"].handled == ["relayed one"]


# --- errors of the store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_a_passing_error_of_the_store_never_counts_as_a_try(assurance: DeliveryAssurance) -> None:
    # decision 11
    pair = Pair(policy=policy(assurance, on_failure=OnFailure.SKIP, max_attempts=1))
    broken = Broken(pair.server, "two", times=5, error=TransientStorageError("a serialization failure"))
    link = pair.link()
    link.notes("one", "two", "three")
    link.close()
    pair.advance(10)
    assert set(broken.attempts) == {("one", 1), ("two", 1), ("three", 1)}
    assert pair.server.letters() == []
    expected = ["one", "two", "three"]
    assert pair.server.handled == expected if assurance is ONCE else pair.server.handled[-1] == "three"


@pytest.mark.parametrize("assurance", [ONCE, LEAST], ids=lambda each: each.value)
def test_a_commit_that_fails_is_repeated_message_by_message(assurance: DeliveryAssurance) -> None:
    pair = Pair(policy=policy(assurance))
    link = pair.link()
    link.notes("one", "two")
    while not pair.server.destinations() or not pair.server.destination().machine.received.covers(1, 2):
        pair.client.turn()
        pair.carry()
    pair.server.failing_commits.add(pair.server.commits + (1 if assurance is ONCE else 2))
    pair.advance(5)
    assert pair.server.handled == ["one", "two"]
    assert pair.server.letters() == []


def test_message_lost_to_a_store_error_under_at_most_once_is_a_dead_letter_and_answered() -> None:
    # DA-05
    pair = Pair(policy=policy(MOST))
    Broken(pair.server, "one", error=TransientStorageError("a serialization failure"))
    link = pair.link()
    link.asks("one")
    link.close()
    pair.advance(20)
    assert pair.server.handled == []
    assert pair.server.letters_by_text() == [("one", "not delivered")]
    assert pair.client.answers == [("one", "fault Failed")]
    assert pair.client.rows() == 0


def test_an_error_of_the_store_that_will_not_pass_is_the_handlers() -> None:
    pair = Pair(policy=policy(on_failure=OnFailure.SKIP, max_attempts=2))
    broken = Broken(pair.server, "one", error=CapabilityError("this store is no branch"))
    pair.link().notes("one", "two")
    pair.advance(10)
    assert [attempt for text, attempt in broken.attempts if text == "one"] == [1, 2]
    assert pair.server.handled == ["two"]


def test_a_buffer_that_cannot_be_worked_on_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    node, foreign = Node("server", World()), Foreign()
    bad, good = foreign.open(node), foreign.open(node)
    for identifier in (bad, good):
        node.get(foreign.note(identifier, 1, identifier))
    markers = type(node.store.transaction().invoker).markers

    def poisoned(manager: object, sequence: str) -> object:
        if sequence == bad:
            raise ValueError("a row that cannot be read")
        return markers(manager, sequence)

    with monkeypatch.context() as patch:
        patch.setattr(type(node.store.transaction().invoker), "markers", poisoned)
        node.world.run()
        assert node.handled == [good]
    node.world.advance(2)
    assert node.handled == [good, bad]


def test_a_key_that_cannot_be_worked_on_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    rms = type(pair.client.store.transaction().rms)
    unnumbered = rms.unnumbered

    def poisoned(manager: object, key: object, *limits: int) -> object:
        if "bad" in str(key):
            raise ValueError("a row that cannot be read")
        return unnumbered(manager, key, *limits)

    pair.link(key="bad").notes("bad")
    pair.link(key="good").notes("good")
    with monkeypatch.context() as patch:
        patch.setattr(rms, "unnumbered", poisoned)
        pair.run()
        assert pair.server.handled == ["good"]
    pair.advance(2)
    assert pair.server.handled == ["good", "bad"]


# --- who hears what --------------------------------------------------------------------------------------------------


def test_a_handler_gets_the_sequence_and_number_of_its_message() -> None:
    # decision 12
    pair = Pair()
    Broken(pair.server, "one", times=1)
    link = pair.link()
    (message_id,) = link.asks("one")
    pair.advance(5)
    first, second = pair.server.contexts
    identifier = pair.server.destination().identifier
    for context, attempt in ((first, 1), (second, 2)):
        assert (context.message_id, context.sequence, context.number) == (message_id, identifier, 1)
        assert (context.attempt, context.peer, context.correlation) == (attempt, "peer", None)
    (answer,) = pair.client.contexts
    assert answer.relates_to == message_id
    assert answer.correlation == "one"


def test_a_skipped_message_acknowledged_at_delivery_is_acknowledged() -> None:
    at_delivery = policy(on_failure=OnFailure.SKIP, max_attempts=1, acknowledge_at=AcknowledgeAt.DELIVERY)
    pair = Pair(policy=at_delivery)
    Broken(pair.server, "one")
    link = pair.link()
    link.notes("one", "two")
    link.close()
    pair.advance(20)
    assert pair.server.handled == ["two"]
    assert pair.client.rows() == 0
    assert pair.client.letters() == []


def test_the_body_of_a_request_comes_as_it_was_sent() -> None:
    node, foreign = Node("server", World()), Foreign(RM11_SOAP12)
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.note(identifier, 1, "a &lt; b &amp; ä"))) == "acknowledgement"
    node.world.run()
    assert node.handled == ["a &lt; b &amp; ä"]
    assert body("x").startswith(b"<t:entry")
