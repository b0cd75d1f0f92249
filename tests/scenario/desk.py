"""A node that delivers on arrival: the handlers of its service are known to be quick, and the test runs its workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mercury.engine.application import MessageContext, Operation
from mercury.engine.exchange import Arrival
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.records import InvokerRecord
from mercury.wire.envelope import HttpMessage, Payload

from .foreign import RM11_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, NOTE, Node, World, name_of
from .harness.words import SERVICE


@contextmanager
def worked_on(node: Node, *sequences: str) -> Iterator[None]:
    """Another thread delivers from these buffers meanwhile. Afterwards arrivals are delivered as before."""
    with node.engine.invocation._turns.alone(sequences):  # type: ignore[union-attr]
        yield
    deliver_again(node)


def deliver_again(node: Node) -> None:
    """Let the transactions pass that only store after one that has failed."""
    assert node.engine.on_arrival is not None
    while node.engine.on_arrival._only_stores():
        pass


class Desk:
    """A node and a foreign client. What is handled before `work` was delivered in the transaction that received it.

    :param known: whether the handlers were called before, and are known to be quick.
    """

    def __init__(
        self,
        *,
        policy: DestinationPolicy = DESTINATION,
        known: bool = True,
        foreign: Foreign | None = None,
        **settings: Any,
    ) -> None:
        self.world = World()
        self.node = Node("server", self.world, policy=policy, **settings)
        self.foreign = foreign or Foreign(RM11_SOAP12)
        if known:
            self.learn()

    def learn(self) -> None:
        """Let the worker call the handlers once, in no time."""
        self.note(self.foreign.open(self.node), 1)
        assert self.node.handled == [], "how long they take is not known yet"
        self.work()
        assert self.node.handled == ["note 1"]
        self.node.handled.clear()
        self.node.contexts.clear()
        self.node.events.clear()

    def open(self, **creation: str) -> str:
        """A new sequence."""
        return self.foreign.open(self.node, **creation)

    def note(self, sequence: str, *numbers: int) -> list[str]:
        """The client posts messages of a sequence, which arrive together; returns the names of the replies."""
        return self.get(*(self.foreign.note(sequence, number) for number in numbers))

    def get(self, *https: HttpMessage) -> list[str]:
        """Messages arrive together; returns the names of the replies."""
        return [name_of(reply) for reply in self.node.get_all(list(https))]

    def work(self) -> None:
        """Let the invoker deliver what is due."""
        self.node.engine.invocation.run_once(self.world.now)

    def work_later(self, seconds: float) -> None:
        """Let the invoker deliver after some time."""
        self.world.now += seconds
        self.work()

    @property
    def called(self) -> list[int]:
        """The numbers of the messages that a handler was called for, whether or not that was committed."""
        return [context.number for context in self.node.contexts]

    def stored(self, sequence: str) -> list[int]:
        """The messages that wait in the buffer of a sequence."""
        return sorted(self.node.store.committed.invoker.buffers[sequence].rows)

    def buffer(self, sequence: str) -> InvokerRecord:
        """The record of a buffer as committed."""
        return self.node.store.committed.invoker.buffers[sequence].record


class TwoServices(Desk):
    """A second service has the handler ``slow``, which was never called; each has a sequence."""

    def __init__(self) -> None:
        super().__init__(known=False)
        operation = Operation(name="Note", action=NOTE, response_action=None, call=_never)
        self.node.registry.add_service("slow", [operation])
        self.learn()
        (made,) = self.node.get_all([self.foreign.create()], "services/slow")
        self.slow, self.quick = identifier_in(made), self.open()

    def note_both(self) -> None:
        """A message of each arrives, in one transaction."""
        sent = [(self.foreign.note(self.slow, 1), "slow"), (self.foreign.note(self.quick, 1), SERVICE)]
        self.node.receive(
            [Arrival(http=http, service=name, url=self.node.service_url, peer="stranger") for http, name in sent]
        )


def _never(_context: MessageContext, _payload: Payload) -> None:
    raise AssertionError("nobody knows how long this takes")
