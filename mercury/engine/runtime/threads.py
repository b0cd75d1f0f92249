"""The threads of an engine: one committer, pools for the workers, and senders.

Each kind of blocking work has threads of its own: invokers run handlers, senders wait for the network, and the
committer only handles arrivals, all that wait in one transaction.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from mercury.engine.endpoint_errors import REPEATED, TRIED_AGAIN
from mercury.engine.exchange import Answer, Arrival, Outgoing, Purpose, Step
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.group_commit import GroupCommit
from mercury.engine.runtime.held_exchanges import HeldExchanges, HeldWorker
from mercury.engine.runtime.sender_pools import SenderPools
from mercury.engine.runtime.transport import Transport
from mercury.engine.runtime.worker_pool import Worker, WorkerPool
from mercury.errors import Overloaded, TransportError
from mercury.statemachine.bounds import above, at_least
from mercury.storage.api import StorageManager, Topic
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.media import read_content_type
from mercury.wire.scan import MessageRefused
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.runtime")

#: Seconds between two polls of a worker that knows when its next work is due.
RETENTION_POLL_INTERVAL = 3600.0
#: Seconds between two checks of the clock.
CLOCK_POLL_INTERVAL = 1.0

#: The time, in seconds, that each of the last steps of a stop gets even if the deadline has passed.
LAST_STEP_TIMEOUT = 0.2
#: Characters of a peer's Content-Type in the error of an endpoint.
_TYPE_LENGTH = 80

#: The answer to an arrival after an unexpected error. The peer sends its message again.
UNHANDLED = Answer(http=HttpMessage(b"", "", None, 500))

#: Called once with the answer to an arrival, in the committer's thread. For an exchange that is held for its response
#: (``answer.held``), the callee calls ``runtime.held_exchanges.let_go`` at the end.
OnAnswer = Callable[[Answer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """The numbers of threads, and the limits of their queues. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: The most arrivals that wait for the committer; further ones are refused as busy.
    queue: int = 1024
    #: The most arrivals in one transaction.
    batch: int = 256
    #: The most parallel HTTP exchanges for messages that are sent for the first time, each in a thread; as many, in
    #: addition, for everything else. One that the server holds open for its response counts a quarter. One server gets
    #: 3/4 of them at most.
    senders: int = 32
    invokers: int = 4
    #: The time between two polls of a worker without a wake-up.
    poll: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, queue=self.queue, batch=self.batch, senders=self.senders, invokers=self.invokers)
        above(0, poll=self.poll)


class Runtime:
    """Runs an engine until it is stopped.

    :param clock: seconds since the epoch.
    :param retention: removes rows whose retention time has passed; ``None`` = they are not removed.
    """

    def __init__(
        self,
        engine: Engine,
        store: StorageManager,
        transport: Transport,
        settings: RuntimeSettings,
        clock: Callable[[], float] = time.time,
        retention: Worker | None = None,
    ) -> None:
        self.held_exchanges = HeldExchanges()
        self._engine = engine
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._arrivals: queue.Queue[tuple[Arrival, OnAnswer | None] | None] = queue.Queue(settings.queue)
        invokers = [f"mercury-invoker-{number}" for number in range(settings.invokers)]
        self._pools = {
            Topic.RMS: self._pool(["mercury-rms"], engine.source),
            Topic.RMD: self._pool(["mercury-rmd"], engine.destination),
            Topic.INVOKER: self._pool(invokers, engine.invocation),
        }
        self._all_pools = [*self._pools.values(), self._pool(["mercury-clock"], engine.clock, CLOCK_POLL_INTERVAL)]
        if retention is not None:
            self._all_pools.append(self._pool(["mercury-retention"], retention, RETENTION_POLL_INTERVAL))
        #: Finds responses that other processes have stored for the exchanges that are held here.
        self._held = self._pool(["mercury-held"], HeldWorker(engine, self.held_exchanges))
        if store.capabilities.shared:
            self._all_pools.append(self._held)
        self._committer = threading.Thread(target=self._commit, name="mercury-committer", daemon=True)
        self._stopping = threading.Event()
        self._started = False
        #: Every thread was started.
        self._complete = False
        #: How often other processes are known to have committed something of source sequences.
        self._others = 0
        #: Endpoints whose last exchange failed, with the reason.
        self.endpoint_errors = engine.endpoint_errors
        self._senders = SenderPools(settings.senders, self.exchange, self.endpoint_errors.slows)
        engine.source.is_in_flight = self._senders.is_in_flight
        engine.invocation.answer = self.held_exchanges.release
        engine.invocation.more = self._pools[Topic.INVOKER].wake_one
        durable = "nothing of it is kept, and it is handled again at the next start, or by another process on the store"
        self._becomes = durable if store.capabilities.durable else "and lost with the store, which is in memory"
        store.listen(self._committed, self._others_committed)

    def _pool(self, names: list[str], worker: Worker, poll: float | None = None) -> WorkerPool:
        return WorkerPool(names, worker, self.turn, poll or self._settings.poll, self._clock, self._engine.outages)

    # --- start and stop --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads."""
        self._started = True
        self._committer.start()
        self._senders.start()
        for pool in self._all_pools:
            pool.start()
        self._complete = True

    def stop(self, deadline: float) -> None:
        """End all threads: they finish their present work and begin nothing new.

        :param deadline: the longest time to wait, in seconds. Work that takes longer is abandoned; as after a crash,
            the store still has it.
        """
        if not self._started or self._stopping.is_set():
            return
        until = time.monotonic() + deadline
        self._stopping.set()
        for pool in self._all_pools:
            pool.stop()
        self.held_exchanges.release_all()
        self._senders.stop()
        for thread in [*self._pool_threads, *self._senders.threads]:
            thread.join(max(0.0, until - time.monotonic()))
        with contextlib.suppress(queue.Full):
            self._arrivals.put(None, timeout=LAST_STEP_TIMEOUT)
        self._committer.join(max(LAST_STEP_TIMEOUT, until - time.monotonic()))
        for what in self._engine.running_calls.now():
            log.warning("%s is not over after %.1f s: left behind, %s", what, deadline, self._becomes)
        late = [t.name for t in (*self._pool_threads, *self._senders.threads, self._committer) if t.is_alive()]
        if late:
            log.warning("still busy after %.1f s, left behind: %s", deadline, ", ".join(late))
        # In a thread, because abandoned work may hold a lock that this needs. Claims that are not released expire.
        ending = threading.Thread(target=self._engine.stop, name="mercury-ending", daemon=True)
        ending.start()
        ending.join(max(LAST_STEP_TIMEOUT, until - time.monotonic()))
        self._transport.close()

    @property
    def _pool_threads(self) -> list[threading.Thread]:
        return [thread for pool in self._all_pools for thread in pool.threads]

    @property
    def running(self) -> bool:
        """Whether every thread that should run does."""
        threads = [self._committer, *self._pool_threads, *self._senders.threads]
        return self._started and not self._stopping.is_set() and all(thread.is_alive() for thread in threads)

    @property
    def ended_threads(self) -> list[str]:
        """The names of threads that have ended although the runtime runs. It does not get them back."""
        if not self._complete or self._stopping.is_set():
            return []
        threads = [self._committer, *self._pool_threads, *self._senders.threads]
        return [thread.name for thread in threads if not thread.is_alive()]

    # --- arrivals --------------------------------------------------------------------------------------------------

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """Decode an HTTP message for `Arrival`, in the caller's thread, to relieve the committer."""
        return self._engine.decode(http, service)

    def is_secured(self, service: str | None) -> bool:
        """Whether `decode` checks WS-Security of messages to a service: then it is called beside the event loop."""
        return self._engine.is_secured(service)

    def secured_reply(self, http: HttpMessage, service: str | None, request: Verified | None) -> HttpMessage:
        """The answer to a message to a service as it goes over the network, in the caller's thread."""
        return self._engine.secured_reply(http, service, request)

    def submit(self, arrival: Arrival, on_answer: OnAnswer | None = None) -> None:
        """Queue an arrival for the committer.

        :raises Overloaded: the queue is full, or the runtime is stopping; the arrival was not queued.
        """
        if self._stopping.is_set() and on_answer is not None:
            raise Overloaded("this endpoint is stopping; send it again later")
        try:
            self._arrivals.put_nowait((arrival, on_answer))
        except queue.Full:
            raise Overloaded("too many messages wait to be stored; send it again later") from None

    def _commit(self) -> None:
        """The committer's loop: handle all waiting arrivals in one transaction."""
        together = GroupCommit(self._arrivals, self._settings.batch)
        while True:
            waiting, ended = together.take()
            if ended:
                self._arrivals.put(None)
            if not waiting:
                return
            self._answer_all(waiting)
            del waiting  # so that their bodies are in memory no longer than needed: the next arrival may take hours

    def _answer_all(self, waiting: list[tuple[Arrival, OnAnswer | None]]) -> None:
        """Handle arrivals in one transaction and pass their answers on."""
        others = self._others
        answers = self._answers([arrival for arrival, _ in waiting])
        if others != self._others:
            self._held.wake()  # the worker may have polled before the exchanges were held
        for (arrival, on_answer), answer in zip(waiting, answers, strict=True):
            try:
                if arrival.request is not None:
                    self._senders.stored(arrival.request)
                self.post(list(answer.posts))
                if on_answer is not None:
                    on_answer(answer)
            except Exception:
                log.exception("an answer could not be passed on; the peer sends its message again")

    def _answers(self, arrivals: list[Arrival]) -> list[Answer]:
        """The answers to all arrivals of one transaction.

        After an unexpected error each is answered with `UNHANDLED`: the thread goes on, because all peers need it.
        """
        try:
            with self.held_exchanges.storing():
                answers = [self._hold(answer) for answer in self._engine.receive(arrivals, self._clock())]
        except Exception:
            log.exception("%d arrivals could not be handled; they are answered with HTTP status 500", len(arrivals))
            return [UNHANDLED] * len(arrivals)
        return answers

    def _hold(self, answer: Answer) -> Answer:
        """Hold the exchange if a response may come; the caller releases it."""
        return answer if answer.waiting is None else replace(answer, held=self.held_exchanges.hold(answer.waiting))

    # --- posts -----------------------------------------------------------------------------------------------------

    def post(self, posts: list[Outgoing]) -> None:
        """Pass posts to the senders."""
        for outgoing in posts:
            self._senders.put(outgoing)

    def exchange(self, outgoing: Outgoing) -> bool:
        """Run one HTTP exchange, in a sender's thread; returns whether the reply was queued for the committer.

        :raises Exception: an unexpected error, also one while the reply is read. The endpoint counts as failing.
        """
        try:
            return self._exchange(outgoing)
        except TransportError as error:
            self._failed(outgoing, str(error).removeprefix(f"{outgoing.url}: "), answered=False)
            self._engine.failed(outgoing, str(error), self._clock())
            return False
        except Exception as error:
            # The caller logs it. As an endpoint that fails, it gets few of the exchanges until one works.
            self._failed(outgoing, f"the exchange ended with an unexpected {type(error).__name__}", answered=True)
            raise

    def _exchange(self, outgoing: Outgoing) -> bool:
        reply = self._transport.post(outgoing.url, self._engine.encoded(outgoing))
        problem = _unusable_reply(reply)
        if problem is not None:
            reply = HttpMessage(b"", "", None, reply.status)  # an error page of a web server is ignored (HTTP-02)
        arrival = self._engine.answered(outgoing, reply, self._clock())
        if arrival is not None and isinstance(arrival.envelope, Undecodable):
            problem = f"its reply is refused: {arrival.envelope}"
        if problem is None:
            self.endpoint_errors.worked(outgoing.error_name, self._clock())
        else:
            self._failed(outgoing, problem, answered=True)
        if arrival is None:
            return False
        # Waiting for a full queue is intended: it slows the senders down to the committer's speed.
        while not self._stopping.is_set():
            try:
                self._arrivals.put((arrival, None), timeout=self._settings.poll)
                return True
            except queue.Full:
                continue
        return False

    def _failed(self, outgoing: Outgoing, reason: str, *, answered: bool) -> None:
        name, once = outgoing.error_name, outgoing.purpose is Purpose.ANSWER
        again = REPEATED if once else TRIED_AGAIN
        # A refusal at one path does not slow answers to other peers' paths, which have the same error name.
        slows = not (once and answered)
        self.endpoint_errors.failed(name, f"{name}: {reason}", self._clock(), again=again, slows=slows)

    def turn(self, worker: Worker) -> Step:
        """Run a worker once, and post its messages."""
        step = worker.run_once(self._clock())
        self.post(step.posts)
        self.held_exchanges.release(step.responses)
        return step

    def _committed(self, topics: frozenset[Topic]) -> None:
        for topic in topics:
            self._pools[topic].wake()

    def _others_committed(self, topics: frozenset[Topic]) -> None:
        if Topic.RMS in topics:
            self._others += 1
            self._held.wake()


def _unusable_reply(reply: HttpMessage) -> str | None:
    """Why a reply cannot be an answer of a SOAP endpoint; ``None`` = it can, or needs no body."""
    problem = f"HTTP status {reply.status}" if reply.status >= 300 else None
    if reply.status == 404:
        problem = "HTTP status 404: nothing is served at this path"
    if not reply.body:
        return problem
    try:
        read_content_type(reply.content_type)
    except MessageRefused:
        kind = reply.content_type[:_TYPE_LENGTH]
        return problem or f"HTTP status {reply.status}, but with {kind}: that is not a SOAP endpoint"
    return None
