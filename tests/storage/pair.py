"""A client's and a server's engine with stores of any kind, called by the test, which also sets the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mercury.engine.application import MessageContext, Operation
from mercury.engine.exchange import Arrival, HeldExchange, Outgoing
from mercury.engine.ids import RandomIds
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.held_exchanges import HeldExchanges
from mercury.engine.settings import EngineSettings
from mercury.errors import MercuryError
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.storage.api import StorageManager
from mercury.storage.records import Channel, OutboundKind, OutboundMessage, SequenceKey
from mercury.wire.encode import encode
from mercury.wire.envelope import Payload
from mercury.wire.scan import Limits

URL = "http://server.example/services/shop"
ACTION = "urn:shop/put"
#: Of a request, and the callback for its response.
ASK, ANSWERED = "urn:shop/ask", "answered"


def channel(key: str = "till", *, offer: bool = True, window: int = 1000, batch: int = 1) -> Channel:
    """Where orders go; nothing is posted back to the client."""
    return Channel(key=SequenceKey(URL, key), policy=SourcePolicy(window=window, offer=offer, batch=batch))


@dataclass
class Side:
    """One engine with its store."""

    store: StorageManager
    #: What its handler has consumed and committed.
    handled: list[str] = field(default_factory=list)
    policy: DestinationPolicy = field(default_factory=DestinationPolicy)
    limits: Limits = field(default_factory=Limits)
    #: Whether messages may be delivered in the transaction that receives them.
    on_arrival: bool = False
    #: Is called by the handler.
    on_put: Callable[[MessageContext, str], object] = lambda _context, _text: None
    settings: EngineSettings = field(default_factory=EngineSettings)
    #: Makes the response to a request.
    response: Callable[[Payload], Payload] = lambda request: request

    def __post_init__(self) -> None:
        self.ids = RandomIds()
        self.observers = Observers()
        self.held_exchanges = HeldExchanges()
        registry = Registry()
        put = Operation(name="put", action=ACTION, response_action=None, call=self._put)
        ask = Operation(name="ask", action=ASK, response_action=f"{ASK}Response", call=self._answer)
        registry.add_service("shop", (put, ask), policy=self.policy)
        registry.add_callback(ANSWERED, self._answered)
        self.engine = Engine(
            store=self.store,
            application=registry,
            observers=self.observers,
            ids=self.ids,
            settings=replace(self.settings, limits=self.limits),
            monotonic=lambda: 0.0,  # time stands still within a turn, so that no claim is asked for anew
        )
        self.engine.invocation.answer = self.held_exchanges.release
        assert self.engine.on_arrival is not None
        self.engine.on_arrival.able &= self.on_arrival
        self.engine.note_others(False)

    def _put(self, context: MessageContext, payload: Payload) -> None:
        text = payload.xml.decode()
        self.on_put(context, text)
        context.transaction.after_commit(lambda: self.handled.append(text))

    def _answer(self, context: MessageContext, payload: Payload) -> Payload:
        self._put(context, payload)
        return self.response(payload)

    def _answered(self, context: MessageContext, result: Payload | MercuryError) -> None:
        assert isinstance(result, Payload)
        self._put(context, result)

    def turn(self, now: float) -> tuple[int, list[Outgoing]]:
        """One turn of each worker: how much was done, and what is to be posted. Exchanges get their responses."""
        steps = [worker.run_once(now) for worker in (self.engine.source, self.engine.destination)]
        steps.append(self.engine.invocation.run_once(now))
        for step in steps:
            self.held_exchanges.release(step.responses)
        return sum(step.progress for step in steps), [post for step in steps for post in step.posts]

    def receive(self, arrivals: Sequence[Arrival], now: float) -> list[Outgoing]:
        """Handle arrivals in one transaction; returns what is to be posted after it."""
        return [post for answer in self.engine.receive(arrivals, now) for post in answer.posts]


class Pair:
    """A client that sends, and a server that handles."""

    def __init__(self, client: StorageManager, server: StorageManager, settings: EngineSettings | None = None) -> None:
        """:param settings: the server's."""
        self.client = Side(client)
        self.server = Side(server, settings=settings or EngineSettings())

    def send(
        self,
        texts: Sequence[str],
        key: str = "till",
        *,
        end: bool = False,
        correlate: bool = True,
        ask: bool = False,
        offer: bool = True,
        window: int = 1000,
        batch: int = 1,
    ) -> None:
        """Hand over messages in one transaction, and perhaps the end of the sequence.

        :param ask: requests, whose responses come back on the connections of their posts.
        :param offer: a sequence is offered for responses.
        """
        with self.client.store.transaction() as tx:
            for text in texts:
                row = OutboundMessage(
                    message_id=self.client.ids.new(),
                    channel=channel(key, offer=offer, window=window, batch=batch),
                    action=ACTION,
                )
                row.payload = f"<order>{text}</order>".encode()
                row.correlation = f"order:{text}" if correlate else None
                if ask:
                    row.action, row.expects_response, row.callback = ASK, True, ANSWERED
                tx.rms.append(row)
            if end:
                kind = OutboundKind.END
                tx.rms.append(
                    OutboundMessage(
                        message_id=self.client.ids.new(), channel=channel(key, window=window, batch=batch), kind=kind
                    )
                )

    def end(self, key: str = "till", *, abandon: bool = False) -> None:
        """Hand over the end of the sequence, after its messages or with its messages abandoned."""
        kind = OutboundKind.ABANDON if abandon else OutboundKind.END
        row = OutboundMessage(message_id=self.client.ids.new(), channel=channel(key), kind=kind)
        with self.client.store.transaction() as tx:
            tx.rms.append(row)

    def run_and_grow(self, now: float) -> None:
        """`run`, then let the windows of the client's sequences have grown to the policy's size."""
        self.run(now)
        with self.client.store.transaction() as tx:
            tx.rms.lock([record.channel.key for record in tx.rms.all()])
            for record in tx.rms.all():
                record.machine.flow = replace(record.machine.flow, grown=record.channel.policy.window)
                tx.rms.save(record)

    def carry(self, posts: Sequence[Outgoing], now: float) -> list[Arrival]:
        """The client's posts to the server, all together; returns what the replies bring."""
        arrivals = [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]
        answers = self.server.engine.receive(arrivals, now)
        replies = (
            self.client.engine.answered(post, answer.http, now) for post, answer in zip(posts, answers, strict=True)
        )
        return [reply for reply in replies if reply is not None]

    def hold(self, posts: Sequence[Outgoing], now: float) -> list[HeldExchange]:
        """The client's requests to the server, all together; returns the exchanges that are held open for them."""
        arrivals = [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]
        with self.server.held_exchanges.storing():
            answers = self.server.engine.receive(arrivals, now)
            return [
                self.server.held_exchanges.hold(*answer.waiting, stored=answer.stored)
                for answer in answers
                if answer.waiting
            ]

    def run(self, now: float) -> None:
        """Turn both until there is nothing left to do at this time."""
        for _ in range(1000):
            done, posts = self.client.turn(now)
            while posts:
                posts = self.client.receive(self.carry(posts, now), now)
                done += len(posts)
            served, nowhere = self.server.turn(now)
            assert nowhere == []
            if not done and not posts and not served:
                return
        raise AssertionError("it never comes to rest")
