"""Fair scheduling: a peer with many sequences does not delay the messages of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.delivery.call_times import TOGETHER_SECONDS
from mercury.engine.exchange import Arrival
from mercury.engine.rates import RateSettings
from mercury.wire.envelope import HttpMessage

from .foreign import RM11_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, Node, World, name_of
from .harness.words import SERVICE

GREEDY, HONEST = "192.0.2.1", "192.0.2.99"


class Server:
    """A node whose handler takes its time, and one thread that calls it."""

    def __init__(self, seconds: float = 0.1, rates: RateSettings | None = None) -> None:
        self.world = World()
        policy = replace(DESTINATION, max_backlog=1000)
        self.node = Node("server", self.world, policy=policy, rates=rates or RateSettings())
        self.foreign = Foreign(RM11_SOAP12)
        self.seconds = seconds
        self.handled: list[str] = []
        self.node.on_call = self._handle

    def _handle(self, _context: MessageContext, text: str) -> None:
        self.world.now += self.seconds
        self.handled.append(text)

    def post(self, http: HttpMessage, peer: str) -> HttpMessage:
        answers = self.node.receive([Arrival(http=http, service=SERVICE, url=self.node.service_url, peer=peer)])
        assert answers is not None
        return answers[0].http

    def make(self, peer: str) -> str:
        return identifier_in(self.post(self.foreign.create(), peer))

    def send(self, sequence: str, number: int, text: str, peer: str) -> None:
        assert name_of(self.post(self.foreign.note(sequence, number, text), peer)) == "acknowledgement"

    def fill(self, peer: str, sequences: int, messages: int) -> list[str]:
        made = [self.make(peer) for _ in range(sequences)]
        for sequence in made:
            for number in range(1, messages + 1):
                self.send(sequence, number, f"{peer} {sequence} {number}", peer)
        return made

    def look(self) -> int:
        """The thread asks the store once for work. Returns how many messages were handled."""
        before = len(self.handled)
        self.node.engine.invocation.run_once(self.world.now)
        return len(self.handled) - before


@pytest.mark.parametrize("used_before", [False, True])
def test_a_single_message_waits_for_one_run_of_a_peer_with_many_sequences(used_before: bool) -> None:
    server = Server()
    honest = server.make(HONEST)
    if used_before:
        server.send(honest, 1, "before", HONEST)
        server.look()
    server.fill(GREEDY, sequences=100, messages=20)
    server.look()
    server.send(honest, 1 + used_before, "honest", HONEST)
    sent = server.world.now
    while "honest" not in server.handled:
        assert server.look()
    assert server.world.now - sent <= 2.2  # one run of twenty messages, and its own


def test_every_peer_waits_for_one_run_of_each_other_peer() -> None:
    server = Server()
    peers = [f"192.0.2.{number}" for number in range(1, 6)]
    for peer in peers:
        server.fill(peer, sequences=10, messages=20)
    server.look()
    server.send(server.make(HONEST), 1, "honest", HONEST)
    sent = server.world.now
    while "honest" not in server.handled:
        assert server.look()
    assert server.world.now - sent <= len(peers) * 2.0 + 0.2


def test_a_thread_tries_again_after_a_second_and_leaves_the_rest_to_the_next_caller() -> None:
    server = Server()
    made = server.fill(GREEDY, sequences=10, messages=3)
    assert server.look() == 12  # 0.3 s a run: the fourth began before a second was over
    held = [name for name in made if f"invoker {name}" in server.node.store._claims]
    assert len(held) == 4
    assert server.look() == 12
    assert server.look() == 6


def test_quick_handlers_are_called_for_all_that_is_due_in_one_run() -> None:
    server = Server(seconds=0.0)
    server.fill(GREEDY, sequences=60, messages=20)
    assert server.look() == 60 * 20


def test_messages_of_one_sequence_still_go_together() -> None:
    server = Server(seconds=0.05)
    server.fill(GREEDY, sequences=1, messages=50)
    before = server.node.commits
    assert server.look() == 50
    assert server.node.commits - before == 1


def test_thread_wakes_another_one_only_when_it_has_work_itself() -> None:
    """Otherwise idle threads wake each other without a pause while handlers are at work on all that is due."""
    server = Server()
    first, second = server.fill(GREEDY, 2, 1)
    invocation, woken = server.node.engine.invocation, list[int]()
    invocation.more = lambda: woken.append(1)
    with invocation._turns.alone([first, second]):
        assert server.look() == 0
        assert woken == []
    assert server.look() == 2
    assert woken == [1]


def test_one_transaction_with_several_buffers_ends_in_time_for_the_others() -> None:
    server = Server(seconds=0.004)
    assert server.node.engine.on_arrival is not None
    server.node.engine.on_arrival.able = False
    server.fill(GREEDY, sequences=1, messages=1)
    assert server.look() == 1  # from now on its calls are known to be quick
    server.fill(GREEDY, sequences=10, messages=10)
    before = server.node.commits
    assert server.look() == pytest.approx(TOGETHER_SECONDS / 0.004, abs=1)
    assert server.node.commits - before == 1
    while server.look():
        pass
    assert len(server.handled) == 101


def test_buffers_of_a_service_with_a_limited_rate_get_no_more_together() -> None:
    server = Server(seconds=0.0, rates=RateSettings(services=(f"{SERVICE}=4",)))
    server.fill(GREEDY, sequences=1, messages=1)
    server.look()
    server.fill(GREEDY, sequences=10, messages=1)
    server.look()
    assert len(server.handled) <= 5
