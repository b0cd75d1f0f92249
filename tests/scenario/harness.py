"""Named stories: real engines over stores in memory, a clock that is advanced, and a wire that is a list.

No thread, socket or chance takes part. A `World` has nodes; what they post becomes `Flight`s on its wire, each with a
name for people (``message 3``, ``CreateSequenceResponse``, ``fault UnknownSequence``). `World.lose`, `twice`, `hold`
and `alter` say by name what happens to the flights to come; `World.run` carries on until nothing is left to do now,
`World.advance` lets time pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from mercury.client.futures import Futures
from mercury.client.sender import Sender
from mercury.engine.addresses import AddressPolicy
from mercury.engine.application import MessageContext, Operation
from mercury.engine.core import Engine
from mercury.engine.exchange import Answer, Arrival, Outgoing, Waiting
from mercury.engine.parts import EngineSettings
from mercury.engine.registry import Registry
from mercury.errors import ApplicationFault, TransientStorageError
from mercury.simulation.checks import Checks
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.api import Capabilities, Claim, Topic, Transaction
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.store import MemoryTransaction
from mercury.storage.records import Channel, DeadLetter, RmdRecord, RmsRecord, SequenceKey
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import Envelope, HttpMessage, Payload, Undecodable

EPOCH = 1_000_000.0
SERVICE = "orders"
NOTE, ASK = "urn:test:Note", "urn:test:Ask"
#: No jitter, and intervals that are easy to add up: 1, 2, 4, 8, 8 ...
PATIENT = RetransmissionPolicy(base=1.0, factor=2.0, cap=8.0, jitter=0.0)
DESTINATION = DestinationPolicy(
    acknowledgement_interval=0.2,
    redelivery=RetransmissionPolicy(base=0.5, cap=4.0, jitter=0.0),
    tombstone=3600.0,
)


def source(protocol: Protocol | None = None, **changes: Any) -> SourcePolicy:
    """A source's policy without chance in it; ``changes`` are fields of `SourcePolicy`."""
    given = {"retransmission": PATIENT, "idle_timeout": None, "tombstone": 3600.0, **changes}
    return SourcePolicy(protocol=protocol or Protocol(), **given)


def body(text: str) -> bytes:
    return f'<t:entry xmlns:t="urn:test">{text}</t:entry>'.encode()


def text_of(xml: bytes) -> str:
    return xml.partition(b">")[2].rpartition(b"<")[0].decode()


class Crash(BaseException):
    """The process is gone. Not an `Exception`: nothing may handle it."""


class CountedIds:
    """`Ids` that count; a node keeps them over its crashes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        #: What `chance` returns.
        self.luck = 0.0

    def new(self) -> str:
        self._count += 1
        return f"urn:{self._name}:{self._count}"

    def chance(self) -> float:
        return self.luck


class _WatchedTransaction:
    def __init__(self, store: WatchedStore, inner: MemoryTransaction) -> None:
        self._store = store
        self._inner = inner

    def __enter__(self) -> MemoryTransaction:
        self._store.open += 1
        return self._inner.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._store.open -= 1
        self._store.leave(self._inner, error)


class WatchedStore:
    """The in-memory store of one life of a node: counts commits, and crashes or fails where it is told to."""

    capabilities = Capabilities(durable=True)

    def __init__(self, inner: MemoryStore, node: Node) -> None:
        self.inner = inner
        self._node = node
        #: Transactions that are open now.
        self.open = 0

    def transaction(self) -> _WatchedTransaction:
        return _WatchedTransaction(self, self.inner.transaction())

    def leave(self, inner: MemoryTransaction, error: BaseException | None) -> None:
        node = self._node
        if isinstance(error, AssertionError):
            node.checks.violated(f"{type(error).__name__}: {error}")
        mishap: BaseException | None = None
        crash_after = False
        if error is None:
            node.commits += 1
            if node.commits in node.crash_before_commit:
                mishap = Crash(f"before commit {node.commits}")
            elif node.commits in node.failing_commits:
                mishap = TransientStorageError(f"commit {node.commits} fails")
            crash_after = node.commits in node.crash_after_commit
        left_with = error or mishap
        inner.__exit__(type(left_with) if left_with else None, left_with, None)
        if mishap is not None:
            raise mishap
        if crash_after:
            raise Crash(f"after commit {node.commits}")

    def due_rmd(self, now: float, limit: int) -> list[str]:
        return self.inner.due_rmd(now, limit)

    def due_invoker(self, now: float, limit: int) -> list[str]:
        return self.inner.due_invoker(now, limit)

    def due_rms(self, now: float, limit: int) -> list[SequenceKey]:
        return self.inner.due_rms(now, limit)

    def next_due(self, topic: Topic) -> float | None:
        return self.inner.next_due(topic)

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        return self.inner.claim(resource, owner, now, lease)

    def release(self, claim: Claim) -> None:
        self.inner.release(claim)

    def listen(self, listener: Callable[[frozenset[Topic]], None]) -> None:
        self.inner.listen(listener)

    def close(self) -> None:
        self.inner.close()


@dataclass(slots=True)
class _Exchange:
    """A post whose answer somebody waits for. A crash of the poster leaves nobody."""

    node: Node
    engine: Engine
    outgoing: Outgoing
    over: bool = False


@dataclass(slots=True)
class Flight:
    """One HTTP message on its way."""

    http: HttpMessage
    #: Where a request goes.
    url: str = ""
    exchange: _Exchange | None = None
    is_reply: bool = False
    name: str = ""

    @property
    def envelope(self) -> Envelope:
        return decode(self.http.body, self.http.content_type, self.http.soap_action)


def name_of(http: HttpMessage) -> str:
    """What is in an HTTP message, for people."""
    if not http.body:
        return "accepted" if http.status < 300 else f"status {http.status}"
    try:
        envelope = decode(http.body, http.content_type, http.soap_action)
    except Undecodable:
        return "undecodable"
    match envelope.body:
        case Fault(code=code):
            return f"fault {code.value}"
        case Payload():
            if envelope.sequence is None:
                return "acknowledgement" if envelope.acknowledgements else "bare message"
            if not envelope.body.xml and envelope.action.endswith("/LastMessage"):
                return "LastMessage"
            kind = "message" if envelope.relates_to is None else "response"
            return f"{kind} {envelope.sequence.message_number}"
        case other:
            return type(other).__name__


@dataclass(slots=True)
class _Rule:
    name: str
    act: Callable[[Flight], None]
    left: int


@dataclass(slots=True)
class Parked:
    """A reply that is held back for a response."""

    node: Node
    waiting: Waiting
    flight: Flight


class World:
    """Nodes, a clock and a wire."""

    def __init__(self) -> None:
        self.now = EPOCH
        self.nodes: dict[str, Node] = {}
        self.wire: list[Flight] = []
        #: Flights that `hold` took off the wire.
        self.held: list[Flight] = []
        #: Replies that wait for a response.
        self.parked: list[Parked] = []
        #: Whether a server holds an exchange open for its response, or looks just once (HTTP-05).
        self.patient = True
        #: Names of everything that was put on the wire, in order.
        self.seen: list[str] = []
        #: The same as (time since the beginning, name).
        self.times: list[tuple[float, str]] = []
        #: Is asked about each flight by its place, from 0; ``None`` = it flies. For tests of every single flight.
        self.fate: Callable[[int, Flight], str | None] | None = None
        self._rules: list[_Rule] = []

    # --- what happens to flights -----------------------------------------------------------------------------------

    def lose(self, name: str, times: int = 1) -> None:
        """The next flights of this name do not arrive. ``*`` at the end stands for anything."""
        self._rules.append(_Rule(name, self._lost, times))

    def twice(self, name: str, times: int = 1) -> None:
        """The next requests of this name arrive twice; the second answer reaches nobody."""
        self._rules.append(_Rule(name, self._doubled, times))

    def hold(self, name: str, times: int = 1) -> None:
        """The next flights of this name are held until `release`."""
        self._rules.append(_Rule(name, self.held.append, times))

    def alter(self, name: str, change: Callable[[HttpMessage], HttpMessage], times: int = 1) -> None:
        """The next flights of this name arrive changed."""

        def altered(flight: Flight) -> None:
            flight.http = change(flight.http)
            self.wire.append(flight)

        self._rules.append(_Rule(name, altered, times))

    def forget_rules(self) -> None:
        self._rules.clear()

    def release(self, *, backwards: bool = False) -> None:
        """What was held goes on its way."""
        held, self.held[:] = list(self.held), []
        self.wire += reversed(held) if backwards else held

    def _lost(self, flight: Flight) -> None:
        if flight.exchange is not None:
            self._fail(flight.exchange, "lost")

    def _doubled(self, flight: Flight) -> None:
        self.wire += [flight, Flight(flight.http, flight.url, None, flight.is_reply, flight.name)]

    def launch(self, flight: Flight) -> None:
        """Put a flight on the wire, or let happen to it what the rules say."""
        flight.name = name_of(flight.http)
        place = len(self.seen)
        self.seen.append(flight.name)
        self.times.append((round(self.now - EPOCH, 6), flight.name))
        fate = self.fate(place, flight) if self.fate is not None else None
        if fate is not None:
            {"lose": self._lost, "twice": self._doubled, "hold": self.held.append}[fate](flight)
            return
        for rule in self._rules:
            if rule.left and (
                rule.name == flight.name or (rule.name[-1] == "*" and flight.name.startswith(rule.name[:-1]))
            ):
                rule.left -= 1
                rule.act(flight)
                return
        self.wire.append(flight)

    # --- time and work ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry on until nothing is left to do at this moment."""
        for _ in range(2000):
            worked = self.turn()
            if self.wire:
                self.carry()
            elif not worked and not self._unpark(final=True):
                return
        raise AssertionError(f"it never ends: ... {self.seen[-12:]}")

    def turn(self) -> bool:
        """One turn of every worker of every node; what they post goes on the wire. Returns whether any worked."""
        worked = [node.turn() for node in list(self.nodes.values())]
        return any(worked) | self._unpark(final=False)

    def carry(self) -> None:
        """Everything that is on the wire now arrives."""
        flights, self.wire = self.wire, []
        for flight in flights:
            self.arrive(flight)

    def advance(self, seconds: float) -> None:
        """Let time pass; what becomes due on the way is done at its time."""
        until = self.now + seconds
        self.run()
        for _ in range(100_000):
            times = [node.next_due() for node in self.nodes.values() if node.up]
            due = min((at for at in times if at is not None), default=until)
            if due > until or self.now >= until:
                break
            self.now = min(until, max(due, self.now + 0.001))
            self.run()
        self.now = until
        self.run()

    # --- arriving --------------------------------------------------------------------------------------------------

    def arrive(self, flight: Flight) -> None:
        if flight.is_reply:
            self._arrive_back(flight)
            return
        host, _, path = flight.url.removeprefix("http://").partition("/")
        node = self.nodes.get(host)
        if node is None or not node.up:
            if flight.exchange is not None:
                self._fail(flight.exchange, "connection refused")
            return
        service = path.removeprefix("services/") if path.startswith("services/") else None
        answer = node.receive([Arrival(http=flight.http, service=service, url=flight.url, peer="peer")])
        if answer is None:
            if flight.exchange is not None:
                self._fail(flight.exchange, "the other side broke it off")
            return
        self._answered(node, flight, answer[0])

    def _answered(self, node: Node, flight: Flight, answer: Answer) -> None:
        node.post(list(answer.posts))
        node.checks.replied(node, answer.http)
        if flight.exchange is None:
            return
        reply = Flight(answer.http, flight.url, flight.exchange, is_reply=True)
        if answer.waiting is None:
            self.launch(reply)
            return
        self.parked.append(Parked(node, answer.waiting, reply))
        self._unpark(final=not self.patient)

    def _unpark(self, *, final: bool) -> bool:
        moved = False
        for place in list(self.parked):
            response = place.node.respond(place.waiting)
            if place not in self.parked or (response is None and not final):
                continue
            self.parked.remove(place)
            moved = True
            if response is not None:
                place.flight.http = response
                place.node.checks.replied(place.node, response)
            self.launch(place.flight)
        return moved

    def _arrive_back(self, flight: Flight) -> None:
        exchange = flight.exchange
        if exchange is None or exchange.over or exchange.node.engine is not exchange.engine:
            return
        exchange.over = True
        exchange.node.answered(exchange.outgoing, flight.http)

    def break_off(self, node: Node) -> None:
        """A node has died over the exchanges it held open."""
        for place in [place for place in self.parked if place.node is node]:
            self.parked.remove(place)
            if place.flight.exchange is not None:
                self._fail(place.flight.exchange, "the other side broke it off")

    def _fail(self, exchange: _Exchange, why: str) -> None:
        if not exchange.over and exchange.node.engine is exchange.engine:
            exchange.over = True
            exchange.node.failed(exchange.outgoing, why)

    # --- looking ---------------------------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """How many flights of this name were put on the wire."""
        return self.seen.count(name)

    def when(self, name: str) -> list[float]:
        """At what times, in seconds since the beginning, flights of this name were put on the wire."""
        return [at for at, each in self.times if each == name]

    def violations(self) -> list[str]:
        return [text for node in self.nodes.values() for text in node.checks.violations]

    def unfinished(self) -> list[str]:
        """What a story that has come to its end may not leave behind."""
        probe = Checks()
        for node in self.nodes.values():
            probe.everything_ended(node)
        return probe.violations

    def assert_ended(self) -> None:
        """Every sequence has ended well on both sides, nothing is left, and no rule was broken on the way."""
        assert self.unfinished() == []
        self.assert_sound()

    def assert_sound(self) -> None:
        """No rule was broken: nothing said before it was committed, no machine or lock misused."""
        assert self.violations() == []


@dataclass(slots=True)
class Told:
    """What the application's error callback heard."""

    failed: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str | None, str]] = field(default_factory=list)
    died: list[tuple[str | None, str]] = field(default_factory=list)


class Node:
    """One engine with its store and application. Implements `Listener`."""

    def __init__(
        self,
        name: str,
        world: World,
        *,
        policy: DestinationPolicy = DESTINATION,
        allow: tuple[str, ...] = ("*",),
        **settings: Any,
    ) -> None:
        self.host = name
        self.world = world
        self.ids = CountedIds(name)
        self.checks = Checks()
        self.policy = policy
        self.settings = EngineSettings(addresses=AddressPolicy(allow), **settings)
        self.service_url = f"http://{name}/services/{SERVICE}"
        self.responses_url = f"http://{name}/responses"
        #: Committed work of the handlers, and what callbacks were given: (correlation, text).
        self.handled: list[str] = []
        self.answers: list[tuple[str | None, str]] = []
        self.contexts: list[MessageContext] = []
        #: Called in a handler or callback before anything else; may raise.
        self.on_call: Callable[[MessageContext, str], None] | None = None
        self.told = Told()
        self.commits = 0
        self.crash_before_commit: set[int] = set()
        self.crash_after_commit: set[int] = set()
        self.failing_commits: set[int] = set()
        self.crashes = 0
        self.up = False
        self.store: MemoryStore = MemoryStore()
        world.nodes[name] = self
        self.start()

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with what is committed, or begin again."""
        self.store = self.store.crashed()
        self.watched = WatchedStore(self.store, self)
        self.futures = Futures(self.ids.new())
        self.registry = Registry(default_policy=self.policy)
        operations = (
            Operation(name="Note", action=NOTE, response_action=None, call=self._note),
            Operation(name="Ask", action=ASK, response_action=f"{ASK}Response", call=self._ask),
        )
        self.registry.add_service(SERVICE, operations)
        self.registry.add_callback("answer", self._answer)
        self.registry.add_callback(self.futures.callback_name, self.futures.callback())
        self.engine = Engine(
            store=self.watched, application=self.registry, listener=self, ids=self.ids, settings=self.settings
        )
        self.up = True

    def stop(self) -> None:
        """Everything but committed state is gone; it stays down until `start`."""
        self.up = False
        self.engine = None  # type: ignore[assignment]
        self.world.break_off(self)

    def crash(self) -> None:
        """Everything but committed state is gone; the node is back at once."""
        self.crashes += 1
        self.stop()
        self.start()

    # --- work ------------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """A turn of each worker that has something due."""
        if not self.up:
            return False
        worked, now = False, self.world.now
        for worker, due in (
            (self.engine.source, self.store.due_rms),
            (self.engine.invocation, self.store.due_invoker),
            (self.engine.destination, self.store.due_rmd),
        ):
            if not due(now, 1):
                continue
            try:
                step = worker.run_once(now)
            except Crash:
                self.crash()
                return True
            except TransientStorageError:
                worked = True
                continue
            worked |= bool(step.posts or step.progress)
            self.post(step.posts)
        return worked

    def next_due(self) -> float | None:
        times = [self.store.next_due(topic) for topic in Topic]
        return min((at for at in times if at is not None), default=None)

    def post(self, posts: list[Outgoing]) -> None:
        assert not self.watched.open, "the network is used inside a transaction"
        for outgoing in posts:
            self.checks.posted(self, outgoing)
            self.world.launch(Flight(encode(outgoing.envelope), outgoing.url, _Exchange(self, self.engine, outgoing)))

    def receive(self, arrivals: list[Arrival]) -> list[Answer] | None:
        """What arrives together is handled together; ``None`` = the node crashed over it."""
        try:
            return self.engine.receive(arrivals, self.world.now)
        except Crash:
            self.crash()
            return None

    def respond(self, waiting: Waiting) -> HttpMessage | None:
        try:
            return self.engine.respond(waiting)
        except TransientStorageError:
            return None
        except Crash:
            self.crash()
            return None

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None:
        try:
            arrival = self.engine.answered(outgoing, http, self.world.now)
        except Crash:
            self.crash()
            return
        if arrival is not None:
            answers = self.receive([arrival])
            if answers is not None:
                self.post(list(answers[0].posts))

    def failed(self, outgoing: Outgoing, error: str) -> None:
        try:
            self.engine.failed(outgoing, error, self.world.now)
        except Crash:
            self.crash()

    # --- hand-written envelopes ------------------------------------------------------------------------------------

    def get(self, http: HttpMessage, path: str | None = None) -> HttpMessage:
        """Somebody posts this here; returns the reply, without waiting for a response."""
        return self.get_all([http], path)[0]

    def get_all(self, https: list[HttpMessage], path: str | None = None) -> list[HttpMessage]:
        """Several posts that are handled in one transaction."""
        url = self.service_url if path is None else f"http://{self.host}/{path}"
        service = url.partition("/services/")[2] or None
        answers = self.receive([Arrival(http=http, service=service, url=url, peer="stranger") for http in https])
        assert answers is not None
        for answer in answers:
            self.post(list(answer.posts))
        return [answer.http for answer in answers]

    # --- sending ---------------------------------------------------------------------------------------------------

    def to(
        self, server: Node | str, key: str = "key", *, policy: SourcePolicy | None = None, listens: bool = True
    ) -> Link:
        url = server if isinstance(server, str) else server.service_url
        reply_to = EndpointReference(self.responses_url) if listens else ANONYMOUS_ENDPOINT
        return Link(self, Channel(key=SequenceKey(url, key), policy=policy or source(), reply_to=reply_to))

    # --- the application -------------------------------------------------------------------------------------------

    def _note(self, context: MessageContext, payload: Payload) -> Payload | None:
        text = self._begin(context, payload)
        context.transaction.after_commit(lambda: self.handled.append(text))
        return None

    def _ask(self, context: MessageContext, payload: Payload) -> Payload:
        text = self._begin(context, payload)
        context.transaction.after_commit(lambda: self.handled.append(text))
        if text.startswith("refuse"):
            raise ApplicationFault("no", code="Refused")  # what was done above is undone with it
        return Payload(body(f"re {text}"))

    def _begin(self, context: MessageContext, payload: Payload) -> str:
        text = text_of(payload.xml)
        self.contexts.append(context)
        if self.on_call is not None:
            self.on_call(context, text)
        return text

    def _answer(self, context: MessageContext, response: Payload | Exception) -> None:
        text = text_of(response.xml) if isinstance(response, Payload) else f"fault {getattr(response, 'code', '')}"
        self.contexts.append(context)
        if self.on_call is not None:
            self.on_call(context, text)
        context.transaction.after_commit(lambda: self.answers.append((context.correlation, text)))

    # --- Listener --------------------------------------------------------------------------------------------------

    def sequence_failed(self, endpoint: str, key: str, reason: str, dead_letters: int) -> None:
        self.told.failed.append((reason, dead_letters))

    def peer_fault(self, endpoint: str, key: str, message_id: str | None, reason: str) -> None:
        self.told.refused.append((message_id, reason))

    def message_died(self, message_id: str | None, reason: str) -> None:
        self.told.died.append((message_id, reason))
        self.futures.died(message_id, reason)

    # --- looking ---------------------------------------------------------------------------------------------------

    def sources(self) -> list[RmsRecord]:
        return sorted(
            (record for data in self.store.rms.keys.values() for record in data.records),
            key=lambda record: record.created_at,
        )

    def source(self) -> RmsRecord:
        """The source sequence, when there is one only."""
        (record,) = self.sources()
        return record

    def destinations(self) -> list[RmdRecord]:
        return list(self.store.rmd.records.values())

    def destination(self) -> RmdRecord:
        """The destination sequence at the service, when there is one only."""
        (record,) = [record for record in self.destinations() if record.service is not None]
        return record

    def letters(self) -> list[DeadLetter]:
        return list(self.store.dead_letters.values())

    def buried(self) -> list[tuple[str, str]]:
        """The dead letters as (text, certainty)."""
        return [(text_of(letter.payload), letter.certainty.value) for letter in self.letters()]

    def rows(self) -> int:
        return sum(len(data.rows) for data in self.store.rms.keys.values())

    def empty(self) -> bool:
        """Whether nothing is remembered."""
        store = self.store
        return not (store.rms.keys or store.rmd.records or store.invoker.buffers)


class _Surroundings:
    """What a sender needs, as the node has it at the moment: a link outlives a crash."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def store(self) -> Any:
        return self._node.watched

    @property
    def ids(self) -> CountedIds:
        return self._node.ids

    @property
    def futures(self) -> Futures:
        return self._node.futures

    @property
    def clock(self) -> Callable[[], float]:
        return lambda: self._node.world.now

    @property
    def max_outbound_backlog(self) -> int:
        return self._node.settings.max_outbound_backlog

    def has_callback(self, name: str) -> bool:
        return self._node.registry.callback(name) is not None


class Link(Sender):
    """A sender with short ways to say what stories say."""

    def __init__(self, node: Node, channel: Channel) -> None:
        super().__init__(_Surroundings(node), channel, "urn:test")

    def notes(self, *texts: str, tx: Transaction | None = None) -> list[str]:
        """Send one-way messages; returns their MessageIDs."""
        return [self.send(body(text), operation="x", action=NOTE, tx=tx).message_id for text in texts]

    def asks(self, *texts: str, tx: Transaction | None = None) -> list[str]:
        """Send requests whose responses the callback ``answer`` gets."""
        return [
            self.request_with_callback(body(text), "answer", action=ASK, correlation=text, tx=tx).message_id
            for text in texts
        ]

    def ask(self, text: str) -> Future[bytes]:
        """Send a request whose response is waited for here."""
        return self.request(body(text), action=ASK)


class Pair(World):
    """A client and a server."""

    def __init__(
        self,
        *,
        policy: DestinationPolicy = DESTINATION,
        client_policy: DestinationPolicy = DESTINATION,
        **server_settings: Any,
    ) -> None:
        super().__init__()
        self.client = Node("client", self, policy=client_policy)
        self.server = Node("server", self, policy=policy, **server_settings)

    def link(self, protocol: Protocol | None = None, *, listens: bool = True, key: str = "key", **changes: Any) -> Link:
        """A sender from the client to the server; ``changes`` are fields of `SourcePolicy`."""
        return self.client.to(self.server, key, policy=source(protocol, **changes), listens=listens)


def quiet() -> None:
    """Failures that are meant do not fill the log."""
    logging.getLogger("mercury").setLevel(logging.CRITICAL + 1)
