"""A process on the wire of a test: an engine whose workers run when the wire calls them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse, Step
from mercury.engine.failover_uri import is_failover
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.member_posts import addressed
from mercury.errors import TransientStorageError
from mercury.statemachine.failover import Failure
from mercury.storage.api import StorageManager, Topic
from mercury.testing.flights import Exchange, Flight
from mercury.testing.store import Crash
from mercury.testing.wire import Wire
from mercury.wire.envelope import HttpMessage


class Process(ABC):
    """An engine on a wire. It replaces the threads, the HTTP server and the HTTP client of a real process.

    :param host: the host name in its URLs.
    """

    #: The engine since the last start.
    engine: Engine

    def __init__(self, host: str, wire: Wire) -> None:
        self.host = host
        self.up = False
        self.crashes = 0
        self._wire = wire
        #: Of posts to destinations with several addresses, by slot: the address.
        self._sent_to: dict[tuple[str, str, int], str] = {}
        wire.processes[host] = self

    # --- to be overridden ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def polled_store(self) -> StorageManager:
        """The store that is queried for due work."""

    @abstractmethod
    def start(self) -> None:
        """Start or restart with the committed state: make a new engine, and set `up`."""

    def stop(self) -> None:
        """Stop without saving: state that is not committed is lost. The process is down until `start`."""
        self.up = False
        self._wire.break_off(self)

    def worked(self, step: Step) -> None:  # noqa: B027  for checks
        """Called after a worker has run."""

    def posted(self, outgoing: Outgoing) -> None:  # noqa: B027
        """Called before a message is posted; the transaction that decided to post it is committed."""

    def replied(self, http: HttpMessage) -> None:  # noqa: B027
        """Called before an HTTP reply is sent."""

    # --- work ------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Lose all state that is not committed, and restart at once."""
        self.crashes += 1
        self.stop()
        self.start()

    def turn(self) -> bool:
        """Run once each worker that has due work. Returns whether any work was done."""
        if not self.up:
            return False
        worked, now, polled_store = False, self._wire.clock.now, self.polled_store
        for worker, due in (
            (self.engine.source, polled_store.due_rms),
            (self.engine.invocation, polled_store.due_invoker),
            (self.engine.destination, polled_store.due_rmd),
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
            self.worked(step)
            self.post(step.posts)
        return worked

    def next_due(self) -> float | None:
        """The time of its next due work, in seconds since the epoch; ``None`` = there is none."""
        times = [self.polled_store.next_due(topic) for topic in Topic]
        return min((at for at in times if at is not None), default=None)

    # --- the wire --------------------------------------------------------------------------------------------------

    def post(self, posts: list[Outgoing]) -> None:
        """Put the engine's messages on the wire."""
        for outgoing in posts:
            self.posted(outgoing)
            sent = self._addressed(outgoing)
            self._wire.launch(
                Flight(self.engine.encoded(sent).whole(), sent.url, Exchange(self, self.engine, outgoing))
            )

    def _addressed(self, outgoing: Outgoing) -> Outgoing:
        """A post to the chosen one of the addresses of its destination. One that fails is due again like others."""
        if not is_failover(outgoing.url):
            return outgoing
        book = self.engine.addresses
        chosen = book.choose(outgoing.url, self._wire.clock.now, 0.0)
        address = chosen if isinstance(chosen, str) else book.first(outgoing.url)
        self._sent_to[outgoing.slot] = address
        return addressed(outgoing, address)

    def receive(self, arrivals: list[Arrival]) -> list[Answer] | None:
        """Handle arrivals in one transaction; ``None`` = the process crashed meanwhile."""
        try:
            return self.engine.receive(arrivals, self._wire.clock.now)
        except Crash:
            self.crash()
            return None

    def respond(self, waiting: Sequence[PendingResponse], *, partly: bool = False) -> HttpMessage | None:
        """The responses that a held exchange waits for; ``None`` = they do not exist yet.

        :param partly: some of them are enough.
        """
        try:
            return self.engine.respond(waiting, self._wire.clock.now, partly=partly)
        except TransientStorageError:
            return None
        except Crash:
            self.crash()
            return None

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None:
        """Called when a posted message has got an HTTP reply."""
        address = self._sent_to.pop(outgoing.slot, None)
        if address is not None:
            self.engine.addresses.worked(outgoing.url, address, self._wire.clock.now)
        try:
            arrival = self.engine.answered(outgoing, http, self._wire.clock.now)
        except Crash:
            self.crash()
            return
        if arrival is not None:
            answers = self.receive([arrival])
            if answers is not None:
                self.post(list(answers[0].posts))

    def failed(self, outgoing: Outgoing, error: str) -> None:
        """Called when the exchange of a posted message has failed."""
        now, address = self._wire.clock.now, self._sent_to.pop(outgoing.slot, None)
        if address is not None:
            self.engine.addresses.failed(outgoing.url, address, now, now, 0.0, Failure.UNREACHED)
        try:
            self.engine.failed(outgoing, error, self._wire.clock.now)
        except Crash:
            self.crash()
