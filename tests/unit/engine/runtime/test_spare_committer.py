"""While a handler that is usually quick takes long, a second thread handles what arrives of other sequences."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from mercury.engine.delivery import on_arrival
from mercury.engine.exchange import Arrival, OnAnswer, Outgoing, Purpose
from mercury.engine.runtime import spare_committer
from mercury.engine.runtime.group_commit import ArrivalQueue
from mercury.engine.runtime.spare_committer import OVERDUE, SpareCommitter, names_of
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire.decode import decode
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage, Undecodable
from tests.acceptance.processes import eventually
from tests.hanging_desk import FOREIGN, PATIENCE, Desk
from tests.scenario.harness import name_of

LATE, OTHER = "urn:late", "urn:other"


def read(http: HttpMessage, _service: str | None = None) -> Envelope | Undecodable:
    return decode(http.body, http.content_type, http.soap_action)


def _broken(_http: HttpMessage, _service: str | None) -> Envelope:
    raise KeyError("unforeseen")


def arrival(http: HttpMessage, request: Outgoing | None = None) -> Arrival:
    """One that is decoded, as the endpoint passes it."""
    return Arrival(http=http, envelope=read(http), request=request)


def posted(pair: str | None = None, rmd: str | None = None) -> Outgoing:
    """A post of this side, whose reply has arrived."""
    envelope = Envelope(
        soap=SoapVersion.SOAP12, addressing=AddressingVersion.WSA10, rm=RmVersion.RM11, action="urn:a", body=EMPTY
    )
    return Outgoing(url="http://peer.example", envelope=envelope, purpose=Purpose.MESSAGE, pair=pair, rmd=rmd)


class Committer:
    """The second thread beside a committer that is busy; a test calls its methods, or starts it.

    :param full: how many arrivals may wait.
    """

    def __init__(self, full: int = 100) -> None:
        self.arrivals = ArrivalQueue[tuple[Arrival, OnAnswer | None]](full, most=4)
        #: What the second thread has handled: a list of numbers for each transaction.
        self.handled: queue.Queue[list[Arrival]] = queue.Queue()
        self.decoded: list[HttpMessage] = []
        #: The sequences of the transaction whose calls have taken longer than `seconds`.
        self.late = frozenset({LATE})
        self.seconds = OVERDUE
        #: What happens while the second thread answers.
        self.meanwhile: Callable[[], object] = lambda: None
        self.spare = SpareCommitter(self.arrivals, self._late, self._decode, self._answer)

    def _late(self, seconds: float) -> frozenset[str]:
        return self.late if seconds <= self.seconds else frozenset()

    def _decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        self.decoded.append(http)
        return read(http, service)

    def _answer(self, waiting: list[tuple[Arrival, OnAnswer | None]]) -> None:
        self.meanwhile()
        self.handled.put([each for each, _ in waiting])

    def arrive(self, *https: HttpMessage) -> list[Arrival]:
        """These arrive, and the committer is busy."""
        arrivals = [arrival(http) for http in https]
        assert self.arrivals.put([(each, None) for each in arrivals]) == len(arrivals)
        return arrivals

    def left(self) -> list[Arrival]:
        """What the committer finds when it is free again."""
        return [each for each, _ in self.arrivals.take_waiting()] if self.arrivals.length else []


# --- what it takes ----------------------------------------------------------------------------------------------------


def test_arrivals_of_other_sequences_are_handled_together_and_those_of_the_late_one_wait_in_their_order() -> None:
    committer = Committer()
    first, other, second, create = committer.arrive(
        FOREIGN.note(LATE, 1), FOREIGN.note(OTHER, 1), FOREIGN.note(LATE, 2), FOREIGN.create()
    )
    committer.spare.help(committer.late)
    assert committer.handled.get_nowait() == [other, create]
    (after,) = committer.arrive(FOREIGN.note(LATE, 3))
    assert committer.left() == [first, second, after]
    assert committer.handled.empty()


def test_arrivals_that_are_set_apart_wait_before_those_that_come_meanwhile() -> None:
    committer = Committer()
    first, _ = committer.arrive(FOREIGN.note(LATE, 1), FOREIGN.note(OTHER, 1))
    came: list[Arrival] = []
    committer.meanwhile = lambda: came.extend(committer.arrive(FOREIGN.note(LATE, 2)))
    committer.spare.help(committer.late)
    assert committer.left() == [first, *came]


def test_if_all_that_waits_is_of_the_late_sequence_there_is_no_transaction() -> None:
    committer = Committer()
    waiting = committer.arrive(FOREIGN.note(LATE, 1))
    committer.spare.help(committer.late)
    assert committer.handled.empty()
    assert committer.left() == waiting


def test_many_arrivals_of_the_late_sequence_do_not_hide_another_one_behind_them() -> None:
    committer = Committer()
    waiting = committer.arrive(*(FOREIGN.note(LATE, number) for number in range(1, 10)), FOREIGN.note(OTHER, 1))
    committer.spare.help(committer.late)
    assert committer.handled.get_nowait() == waiting[-1:]
    assert [*committer.left(), *committer.left(), *committer.left()] == waiting[:-1]


def test_it_takes_no_more_than_one_transaction_may_have() -> None:
    committer = Committer()
    waiting = committer.arrive(*(FOREIGN.note(OTHER, number) for number in range(1, 7)))
    committer.spare.help(committer.late)
    assert committer.handled.get_nowait() == waiting[:4]
    assert committer.left() == waiting[4:]


def test_an_arrival_that_cannot_even_be_refused_ends_no_thread() -> None:
    committer = Committer()
    broken = Arrival(http=HttpMessage(b"", "", None))
    committer.spare = SpareCommitter(committer.arrivals, lambda _: committer.late, _broken, committer._answer)
    (other,) = committer.arrive(FOREIGN.note(OTHER, 1))
    committer.arrivals.put([(broken, None)])
    committer.spare.help(committer.late)
    assert committer.handled.get_nowait() == [other, broken], "the transaction answers it as an unexpected error"


def test_an_arrival_that_nobody_has_decoded_is_decoded_once() -> None:
    committer = Committer()
    http = FOREIGN.note(LATE, 1)
    committer.arrivals.put([(Arrival(http=http), None)])
    committer.spare.help(committer.late)
    assert committer.decoded == [http]
    (left,) = committer.left()
    assert isinstance(left.envelope, Envelope), "the committer need not decode it again"


CASES = {
    "its message": (FOREIGN.note(LATE, 1), {LATE}),
    "a question for its acknowledgement": (FOREIGN.alone(FOREIGN.ack_requested(LATE)), {LATE}),
    "such a question with another's message": (
        FOREIGN.note(OTHER, 1, headers=FOREIGN.ack_requested(LATE)),
        {LATE, OTHER},
    ),
    "its close": (FOREIGN.close(LATE), {LATE}),
    "its end": (FOREIGN.terminate(LATE), {LATE}),
    "the answer to its close": (FOREIGN.ended("CloseSequenceResponse", LATE, "urn:m"), {LATE}),
    "the answer to its end": (FOREIGN.ended("TerminateSequenceResponse", LATE, "urn:m"), {LATE}),
    "a MakeConnection, which may be for it": (FOREIGN.poll("http://peer.example/anonymous?id=1"), {LATE}),
    "an acknowledgement of what this side has sent": (FOREIGN.alone(FOREIGN.acknowledgement(LATE, ((1, 1),))), set()),
    "a new sequence": (FOREIGN.create(), set()),
    "a new sequence that follows it": (FOREIGN.create(follows=LATE), {LATE}),
    "what is no envelope": (HttpMessage(b"<a/>", "application/soap+xml"), set()),
}


@pytest.mark.parametrize(("http", "names"), CASES.values(), ids=CASES)
def test_sequences_that_an_arrival_locks_are_known(http: HttpMessage, names: set[str]) -> None:
    try:
        envelope: Envelope | Undecodable = read(http)
    except Undecodable as error:
        envelope = error
    assert names_of(Arrival(http=http, envelope=envelope), {LATE}) == names


@pytest.mark.parametrize("about", [{"pair": LATE}, {"rmd": LATE}])
def test_reply_to_a_post_about_a_sequence_locks_it(about: dict[str, str]) -> None:
    http = FOREIGN.alone(FOREIGN.acknowledgement("urn:sent", ((1, 1),)))
    assert names_of(arrival(http, posted(**about))) == {LATE}
    assert names_of(arrival(http, posted())) == set()


# --- the thread -------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Committer]:
    """The thread at rest, because no call is late. It looks again at once."""
    monkeypatch.setattr(spare_committer, "PAUSE", 0.0)
    committer = Committer()
    committer.late = frozenset()
    committer.spare.thread.start()
    yield committer
    committer.late = frozenset()
    committer.spare.end()
    committer.spare.thread.join(PATIENCE)
    assert not committer.spare.thread.is_alive()


def test_thread_helps_once_a_call_is_late_and_as_long_as_it_is(running: Committer) -> None:
    running.arrive(FOREIGN.note(OTHER, 1))
    running.spare.look()
    assert running.handled.empty(), "nothing is late"
    running.late = frozenset({LATE})
    running.spare.look()
    assert len(running.handled.get(timeout=PATIENCE)) == 1
    (second,) = running.arrive(FOREIGN.note(OTHER, 2))
    assert running.handled.get(timeout=PATIENCE) == [second], "it looks by itself while the call lasts"


def test_thread_rests_after_a_late_call_and_wakes_for_the_next_one(running: Committer) -> None:
    for _ in range(2):
        running.late = frozenset({LATE})
        (expected,) = running.arrive(FOREIGN.note(OTHER, 1))
        running.spare.look()
        assert running.handled.get(timeout=PATIENCE) == [expected]
        running.late = frozenset()
        eventually(lambda: not running.spare._woken.is_set(), "it rests")


def test_a_call_that_is_not_overdue_wakes_nobody() -> None:
    committer = Committer()
    committer.arrive(FOREIGN.note(OTHER, 1))
    committer.seconds = OVERDUE / 2
    committer.spare.look()
    assert not committer.spare._woken.is_set()
    committer.seconds = OVERDUE
    committer.spare.look()
    assert committer.spare._woken.is_set()


def test_a_late_call_wakes_nobody_if_nothing_has_arrived() -> None:
    committer = Committer()
    committer.spare.look()
    assert not committer.spare._woken.is_set()


@pytest.mark.parametrize("late", [frozenset[str](), frozenset({LATE})], ids=["at rest", "during a late call"])
def test_thread_ends_when_it_is_told_to(running: Committer, late: frozenset[str]) -> None:
    running.late = late
    running.arrive(FOREIGN.note(LATE, 1))
    running.spare.look()
    running.spare.end()
    running.spare.thread.join(PATIENCE)
    assert not running.spare.thread.is_alive()
    assert len(running.left()) == 1, "what it has not handled is left to the committer"


# --- in a process -----------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A process that helps itself as soon as a call has begun."""
    monkeypatch.setattr(spare_committer, "OVERDUE", 0.0)
    monkeypatch.setattr(spare_committer, "PAUSE", 0.0)
    monkeypatch.setattr(on_arrival, "SECONDS", 0.0)
    made = Desk("memory:")
    with made.mercury:
        made.know()
        yield made
        made.over.set()


def test_other_sequences_are_received_while_a_handler_hangs_and_the_hanging_one_goes_on_after_it(desk: Desk) -> None:
    hanging, other = desk.open(), desk.open()
    first = desk.post(FOREIGN.note(hanging, 1, "slow"))
    assert desk.began.wait(PATIENCE)
    second = desk.post(FOREIGN.note(hanging, 2, "after it"))
    assert name_of(desk.post(FOREIGN.note(other, 1, "other")).get(timeout=PATIENCE).http) == "acknowledgement"
    assert name_of(desk.post(FOREIGN.create()).get(timeout=PATIENCE).http) == "CreateSequenceResponse"
    assert first.empty()
    assert second.empty(), "it waits for the lock of its sequence"
    desk.over.set()
    assert name_of(first.get(timeout=PATIENCE).http) == "acknowledgement"
    assert name_of(second.get(timeout=PATIENCE).http) == "acknowledgement"
    eventually(lambda: len(desk.handled) == 4, "all are handled", PATIENCE)
    slow, after = (next(text for text in desk.handled if each in text) for each in ("slow", "after it"))
    assert desk.handled.index(slow) < desk.handled.index(after)


def test_second_thread_calls_no_handler_that_may_hang_like_the_first(desk: Desk) -> None:
    """Otherwise both threads wait, and nothing is received."""
    hanging, others = desk.open(), [desk.open() for _ in range(3)]
    desk.be_quick()
    first = desk.post(FOREIGN.note(hanging, 1, "slow"))
    assert desk.began.wait(PATIENCE)
    assert first.empty(), "the committer waits for the handler"
    for other in others:
        reply = desk.post(FOREIGN.note(other, 1, "slow too")).get(timeout=PATIENCE)
        assert name_of(reply.http) == "acknowledgement"


def test_process_that_stops_in_time_stops_its_second_thread(desk: Desk) -> None:
    (thread,) = [each for each in threading.enumerate() if each.name == "mercury-committer-2"]
    assert desk.mercury.watch.ended_threads() == []
    desk.mercury.stop()
    assert not thread.is_alive()
