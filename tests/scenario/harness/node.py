"""One engine with its store and application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mercury.client.futures import Futures
from mercury.engine.addresses import AddressPolicy
from mercury.engine.application import MessageContext, Operation
from mercury.engine.events import DeadLettered, Event, MessageRefused, SequenceFailed
from mercury.engine.exchange import Arrival, Outgoing
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.engine.runtime.core import Engine
from mercury.engine.settings import EngineSettings
from mercury.errors import ApplicationFault
from mercury.simulation.application import Ledger
from mercury.simulation.checks import Checks
from mercury.simulation.stores import MemoryNodeStore
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.storage.memory import MemoryStore
from mercury.storage.records import Channel, DeadLetter, RmdRecord, RmsRecord, SequenceKey
from mercury.testing import CountedIds, Process
from mercury.wire.envelope import HttpMessage, Payload

from .link import Link
from .watched import WatchedStore
from .words import ASK, DESTINATION, NOTE, SERVICE, body, source, text_of
from .world import World

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Told:
    """What the application's observers heard of errors."""

    failed: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str | None, str]] = field(default_factory=list)
    dead_lettered: list[tuple[str | None, str]] = field(default_factory=list)


@dataclass(slots=True)
class Looked:
    """A node as the simulation's checks see it."""

    host: str
    store: MemoryNodeStore = field(default_factory=MemoryNodeStore)
    ledger: Ledger = field(default_factory=Ledger)


class Node(Process):
    """One engine with its store and application."""

    def __init__(
        self,
        name: str,
        world: World,
        *,
        policy: DestinationPolicy = DESTINATION,
        allow: tuple[str, ...] = ("*",),
        **settings: Any,
    ) -> None:
        super().__init__(name, world)
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
        #: What the observers were told, whatever process of the node it was.
        self.events: list[Event] = []
        self.looked = Looked(name)
        self.start()

    # --- life ------------------------------------------------------------------------------------------------------

    @property
    def due_in(self) -> MemoryStore:
        return self.store

    def start(self) -> None:
        """Begin with what is committed, or begin again."""
        former = getattr(self, "watched", None)
        self.store: MemoryStore = self.looked.store.open(lambda: None)
        self.watched = WatchedStore(self.store, self)
        if former is not None:
            self.watched.carry_on(former)
        self.futures = Futures(self.ids.new())
        self.registry = Registry(default_policy=self.policy)
        operations = (
            Operation(name="Note", action=NOTE, response_action=None, call=self._note),
            Operation(name="Ask", action=ASK, response_action=f"{ASK}Response", call=self._ask),
        )
        self.registry.add_service(SERVICE, operations)
        self.registry.add_callback("answer", self._answer)
        self.registry.add_callback(self.futures.callback_name, self.futures.callback())
        self.observers = Observers()
        self.observers.subscribe(self.futures.dead_lettered, DeadLettered)
        self.stop_watching = self.observers.subscribe(self._observe)
        self.engine = Engine(
            store=self.watched,
            application=self.registry,
            observers=self.observers,
            ids=self.ids,
            settings=self.settings,
            monotonic=lambda: self.world.now,
        )
        self.up = True

    def stop(self) -> None:
        """Everything but committed state is gone; it stays down until `start`."""
        self.engine = None  # type: ignore[assignment]
        super().stop()

    def forget(self) -> None:
        """What is committed is gone too; for a node that is down."""
        assert not self.up
        self.looked.store = MemoryNodeStore()

    @property
    def commits(self) -> int:
        return self.watched.commits

    @property
    def crash_before_commit(self) -> set[int]:
        return self.watched.crash_before_commit

    @property
    def crash_after_commit(self) -> set[int]:
        return self.watched.crash_after_commit

    @property
    def failing_commits(self) -> set[int]:
        return self.watched.failing_commits

    @failing_commits.setter
    def failing_commits(self, numbers: set[int]) -> None:
        self.watched.failing_commits = numbers

    # --- what the checks see ---------------------------------------------------------------------------------------

    def posted(self, outgoing: Outgoing) -> None:
        assert not self.watched.open, "the network is used inside a transaction"
        self.checks.posted(self.looked, outgoing)

    def replied(self, http: HttpMessage) -> None:
        self.checks.replied(self.looked, http)

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
        self,
        server: Node | str,
        key: str = "key",
        *,
        policy: SourcePolicy | None = None,
        listens: bool = True,
        identity: str | None = None,
    ) -> Link:
        url = server if isinstance(server, str) else server.service_url
        reply_to = EndpointReference(self.responses_url) if listens else ANONYMOUS_ENDPOINT
        channel = Channel(key=SequenceKey(url, key), policy=policy or source(), reply_to=reply_to, identity=identity)
        return Link(self, channel)

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

    # --- observing -------------------------------------------------------------------------------------------------

    def _observe(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case SequenceFailed():
                self.told.failed.append((event.reason, event.dead_letters))
            case MessageRefused():
                self.told.refused.append((event.message_id, event.reason))
            case DeadLettered():
                self.told.dead_lettered += ((letter.message_id, letter.reason) for letter in event.letters)
            case _:
                pass

    def seen(self, kind: type[E]) -> list[E]:
        """The events of a kind, in their order."""
        return [event for event in self.events if isinstance(event, kind)]

    # --- looking ---------------------------------------------------------------------------------------------------

    def sources(self) -> list[RmsRecord]:
        return sorted(
            (record for data in self.store.committed.rms.keys.values() for record in data.records),
            key=lambda record: record.created_at,
        )

    def source(self) -> RmsRecord:
        """The source sequence, when there is one only."""
        (record,) = self.sources()
        return record

    def destinations(self) -> list[RmdRecord]:
        return list(self.store.committed.rmd.records.values())

    def destination(self) -> RmdRecord:
        """The destination sequence at the service, when there is one only."""
        (record,) = [record for record in self.destinations() if record.service is not None]
        return record

    def letters(self) -> list[DeadLetter]:
        return list(self.store.committed.dead_letters.values())

    def buried(self) -> list[tuple[str, str]]:
        """The dead letters as (text, certainty)."""
        return [(text_of(letter.payload), letter.certainty.value) for letter in self.letters()]

    def rows(self) -> int:
        return sum(len(data.rows) for data in self.store.committed.rms.keys.values())

    def empty(self) -> bool:
        """Whether nothing is remembered."""
        store = self.store
        return not (store.committed.rms.keys or store.committed.rmd.records or store.committed.invoker.buffers)
