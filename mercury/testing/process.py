"""One process on the wire: an engine that works when it is told to."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse
from mercury.engine.runtime.core import Engine
from mercury.errors import TransientStorageError
from mercury.storage.api import StorageManager, Topic
from mercury.testing.flights import Exchange, Flight
from mercury.testing.store import Crash
from mercury.testing.wire import Wire
from mercury.wire.encode import encode
from mercury.wire.envelope import HttpMessage


class Process(ABC):
    """An engine on a wire, in place of the threads, the HTTP server and the HTTP client of a real process.

    :param host: in the URLs of what it serves.
    """

    #: Of this life; what a crash takes away is replaced.
    engine: Engine

    def __init__(self, host: str, wire: Wire) -> None:
        self.host = host
        self.up = False
        self.crashes = 0
        self._wire = wire
        wire.processes[host] = self

    # --- what a subclass says --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def due_in(self) -> StorageManager:
        """The store that knows what is due."""

    @abstractmethod
    def start(self) -> None:
        """Begin with what is committed, or begin again: a new engine, and `up`."""

    def stop(self) -> None:
        """It is gone, and what is not committed with it; it stays down until `start`."""
        self.up = False
        self._wire.break_off(self)

    def posted(self, outgoing: Outgoing) -> None:  # noqa: B027  for those who look
        """It posts this: the transaction that decided upon it is committed."""

    def replied(self, http: HttpMessage) -> None:  # noqa: B027
        """It replies this."""

    # --- work ------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Everything but committed state is gone; the process is back at once."""
        self.crashes += 1
        self.stop()
        self.start()

    def turn(self) -> bool:
        """A turn of each worker that has something due. Returns whether anything was done."""
        if not self.up:
            return False
        worked, now, due_in = False, self._wire.clock.now, self.due_in
        for worker, due in (
            (self.engine.source, due_in.due_rms),
            (self.engine.invocation, due_in.due_invoker),
            (self.engine.destination, due_in.due_rmd),
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
        """When it has something to do next; ``None`` = never."""
        times = [self.due_in.next_due(topic) for topic in Topic]
        return min((at for at in times if at is not None), default=None)

    # --- the wire --------------------------------------------------------------------------------------------------

    def post(self, posts: list[Outgoing]) -> None:
        """Put on the wire what the engine wants posted."""
        for outgoing in posts:
            self.posted(outgoing)
            self._wire.launch(Flight(encode(outgoing.envelope), outgoing.url, Exchange(self, self.engine, outgoing)))

    def receive(self, arrivals: list[Arrival]) -> list[Answer] | None:
        """What arrives together is handled together; ``None`` = the process crashed over it."""
        try:
            return self.engine.receive(arrivals, self._wire.clock.now)
        except Crash:
            self.crash()
            return None

    def respond(self, waiting: PendingResponse) -> HttpMessage | None:
        """The response that an exchange waits for, if it is there by now."""
        try:
            return self.engine.respond(waiting, self._wire.clock.now)
        except TransientStorageError:
            return None
        except Crash:
            self.crash()
            return None

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None:
        """What it posted was replied to."""
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
        """What it posted was not replied to."""
        try:
            self.engine.failed(outgoing, error, self._wire.clock.now)
        except Crash:
            self.crash()
