"""One engine with its store and application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mercury.client.futures import Futures
from mercury.engine.addresses import AddressPolicy
from mercury.engine.application import MessageContext, Operation
from mercury.engine.events import DeadLettered, Event, MessageRefused, SequenceFailed
from mercury.engine.exchange import Arrival, Outgoing, Step
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.engine.runtime.core import Engine
from mercury.engine.settings import EngineSettings
from mercury.engine.stage.mover import Target
from mercury.errors import ApplicationFault
from mercury.simulation.application import Ledger
from mercury.simulation.checks import Checks
from mercury.simulation.stores import MemoryNodeStore
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, MAKE_CONNECTION_ANONYMOUS, EndpointReference
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.storage.letters import DeadLetter
from mercury.storage.memory import MemoryStore
from mercury.storage.records import Channel, RmdRecord, RmsRecord, SequenceKey
from mercury.testing import CountedIds, Process
from mercury.wire.envelope import HttpMessage, Payload

from .link import Link
from .watched import WatchedStore
from .words import ASK, DESTINATION, NOTE, SERVICE, body, source, text_of
from .world import World

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class ReportedErrors:
    """The errors that the application's observers received."""

    failed: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str | None, str]] = field(default_factory=list)
    dead_lettered: list[tuple[str | None, str]] = field(default_factory=list)


@dataclass(slots=True)
class CheckedNode:
    """The `NodeView` of a node, for the simulation's checks."""

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
        #: The committed work of the handlers; and of the callbacks, as (correlation, text).
        self.handled: list[str] = []
        self.answers: list[tuple[str | None, str]] = []
        self.contexts: list[MessageContext] = []
        #: Called in a handler or callback before anything else; may raise.
        self.on_call: Callable[[MessageContext, str], None] | None = None
        self.reported = ReportedErrors()
        #: The events that the observers received, from all starts of the node.
        self.events: list[Event] = []
        self.looked = CheckedNode(name)
        self.start()

    # --- start and stop --------------------------------------------------------------------------------------------

    @property
    def polled_store(self) -> MemoryStore:
        return self.store

    def start(self) -> None:
        """Start or restart with the committed state."""
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
        self.engine = self.new_engine()
        self.up = True

    def new_engine(self, target: Target | None = None) -> Engine:
        """An engine over the store as it is now.

        :param target: the store behind a stage.
        """
        return Engine(
            store=self.watched,
            application=self.registry,
            observers=self.observers,
            ids=self.ids,
            settings=self.settings,
            monotonic=lambda: self.world.now,
            target=target,
        )

    def stop(self) -> None:
        """Lose all state that is not committed. The node is down until `start`."""
        self.engine = None  # type: ignore[assignment]
        super().stop()

    def forget(self) -> None:
        """Delete the committed state too; for a node that is down."""
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

    # --- checks ----------------------------------------------------------------------------------------------------

    def worked(self, step: Step) -> None:
        self.checks.worked(self.looked, step)

    def posted(self, outgoing: Outgoing) -> None:
        assert not self.watched.open, "the network is used inside a transaction"
        self.checks.posted(self.looked, outgoing)

    def replied(self, http: HttpMessage) -> None:
        self.checks.replied(self.looked, http)

    # --- hand-written envelopes ------------------------------------------------------------------------------------

    def get(self, http: HttpMessage, path: str | None = None) -> HttpMessage:
        """Handle a post from another peer; returns the HTTP reply, without holding the exchange."""
        return self.get_all([http], path)[0]

    def get_all(self, https: list[HttpMessage], path: str | None = None) -> list[HttpMessage]:
        """Handle several posts in one transaction."""
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
        polls: bool = False,
        wsa_to: str | None = None,
    ) -> Link:
        url = server if isinstance(server, str) else server.service_url
        reply_to = EndpointReference(self.responses_url) if listens else ANONYMOUS_ENDPOINT
        if polls:
            reply_to = EndpointReference(f"{MAKE_CONNECTION_ANONYMOUS}{self.ids.new()}")
        channel = Channel(key=SequenceKey(url, key), policy=policy or source(), reply_to=reply_to, identity=identity)
        return Link(self, channel if wsa_to is None else replace(channel, wsa_to=wsa_to))

    # --- the application -------------------------------------------------------------------------------------------

    def _note(self, context: MessageContext, payload: Payload) -> Payload | None:
        text = self._begin(context, payload)
        context.transaction.after_commit(lambda: self.handled.append(text))
        return None

    def _ask(self, context: MessageContext, payload: Payload) -> Payload:
        text = self._begin(context, payload)
        context.transaction.after_commit(lambda: self.handled.append(text))
        if text.startswith("refuse"):
            raise ApplicationFault("no", code="Refused")  # the work above is rolled back
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
                self.reported.failed.append((event.reason, event.dead_letters))
            case MessageRefused():
                self.reported.refused.append((event.message_id, event.reason))
            case DeadLettered():
                self.reported.dead_lettered += ((letter.message_id, letter.reason) for letter in event.letters)
            case _:
                pass

    def seen(self, kind: type[E]) -> list[E]:
        """The events of a kind, in their order."""
        return [event for event in self.events if isinstance(event, kind)]

    # --- queries ---------------------------------------------------------------------------------------------------

    def sources(self) -> list[RmsRecord]:
        return sorted(
            (record for data in self.store.committed.rms.keys.values() for record in data.records),
            key=lambda record: record.created_at,
        )

    def source(self) -> RmsRecord:
        """The only source sequence."""
        (record,) = self.sources()
        return record

    def destinations(self) -> list[RmdRecord]:
        return list(self.store.committed.rmd.records.values())

    def destination(self) -> RmdRecord:
        """The only destination sequence at the service."""
        (record,) = [record for record in self.destinations() if record.service is not None]
        return record

    def letters(self) -> list[DeadLetter]:
        return list(self.store.committed.dead_letters.values())

    def letters_by_text(self) -> list[tuple[str, str]]:
        """The dead letters as (text, certainty)."""
        return [(text_of(letter.payload), letter.certainty.value) for letter in self.letters()]

    def rows(self) -> int:
        return sum(len(data.rows) for data in self.store.committed.rms.keys.values())

    def empty(self) -> bool:
        """Whether the store has no sequence and no message."""
        store = self.store
        return not (store.committed.rms.keys or store.committed.rmd.records or store.committed.invoker.buffers)
