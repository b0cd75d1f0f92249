"""The threads of an engine: one committer, pools for the workers, and senders.

Each kind of blocking work has threads of its own: invokers run handlers, senders wait for the network, and the
committer only handles arrivals, all that wait in one transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mercury.engine.exchange import Answer, Arrival, OnAnswer, Outgoing, Step, Waiting
from mercury.engine.runtime.allocator import return_large_blocks
from mercury.engine.runtime.collector import Collector
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.group_commit import ArrivalQueue
from mercury.engine.runtime.held_exchanges import HeldExchanges, HeldWorker
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.node import INTERVAL as NODE_INTERVAL
from mercury.engine.runtime.node import NodeWorker
from mercury.engine.runtime.posting import Posting
from mercury.engine.runtime.postponed import PostponedArrivals
from mercury.engine.runtime.retention import ATTACHMENTS_PAUSE
from mercury.engine.runtime.spare_committer import SpareCommitter
from mercury.engine.runtime.transport import ConcurrentTransport, Transport
from mercury.engine.runtime.work_scout import WorkScout
from mercury.engine.runtime.worker_pool import Worker, WorkerPool
from mercury.errors import Overloaded
from mercury.statemachine.bounds import above, at_least
from mercury.storage.api import StorageManager, Topic, Transaction
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.runtime")

#: Seconds between two polls of the worker that removes rows. It knows when its next work is due, but attachments that
#: are written meanwhile do not wake it.
RETENTION_POLL_INTERVAL = ATTACHMENTS_PAUSE
#: Seconds between two checks of the clock.
CLOCK_POLL_INTERVAL = 1.0

#: The time, in seconds, that each of the last steps of a stop gets even if the deadline has passed.
LAST_STEP_TIMEOUT = 0.2
#: Characters of a peer's Content-Type in the error of an endpoint.
_TYPE_LENGTH = 80

#: The answer to an arrival after an unexpected error. The peer sends its message again.
UNHANDLED = Answer(http=HttpMessage(b"", "", None, 500))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """The numbers of threads, and the limits of their queues. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: The most arrivals that wait for the committer; further ones are refused as busy.
    queue: int = 1024
    #: The most arrivals in one transaction.
    batch: int = 256
    #: The most parallel HTTP exchanges for messages that are sent for the first time; as many, but at most 64, in
    #: addition, for everything else. One server gets 3/4 of them at most: it begins with 8, and has more while that
    #: makes it faster; a destination of Mercury has 3/4 of them from its first answer on.
    #: One thread runs them all: more of them cost connections, and no threads.
    senders: int = 256
    invokers: int = 4
    #: The time between two queries for work that no wake-up has announced: one statement for all workers.
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
        transport: Transport | ConcurrentTransport,
        settings: RuntimeSettings,
        clock: Callable[[], float] = time.time,
        retention: Worker | None = None,
    ) -> None:
        self.held_exchanges = HeldExchanges(ids=engine.ids)
        self._collector = Collector()
        self._engine = engine
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._arrivals = ArrivalQueue[Waiting](
            settings.queue,
            settings.batch,
            size=lambda each: each[0].size,
            calls=lambda each: engine.call_seconds(each[0]),
            can_wait=lambda each: each[0].is_acknowledgement,
            gathers=lambda: self._senders.has_waiting,  # messages wait for exchanges: more of them would wait, too
            pause=lambda: engine.source.appended.pause,
        )
        rare = engine.longest_pause
        invokers = [f"mercury-invoker-{number}" for number in range(settings.invokers)]
        self._pools = {
            Topic.RMS: self._pool(["mercury-rms"], engine.source, rare),
            Topic.RMD: self._pool(["mercury-rmd"], engine.destination, rare),
            Topic.INVOKER: self._pool(invokers, engine.invocation, rare),
        }
        scout = WorkScout(engine.work_due, self._found, settings.poll)
        self._all_pools = [*self._pools.values(), self._pool(["mercury-scout"], scout)]
        self._all_pools.append(self._pool(["mercury-clock"], engine.clock, CLOCK_POLL_INTERVAL))
        if retention is not None:
            self._all_pools.append(self._pool(["mercury-retention"], retention, RETENTION_POLL_INTERVAL))
        #: Finds responses that other processes have stored for the exchanges that are held here.
        self._held = self._pool(["mercury-held"], HeldWorker(engine, self.held_exchanges))
        if store.capabilities.shared:
            self._all_pools.append(self._held)
            counts = (lambda: len(self._pool_threads), lambda: self._arrivals.length)
            node = NodeWorker(
                store,
                engine.owner,
                engine.services,
                *counts,
                engine.traffic,
                clock(),
                engine.members,
                engine.note_others,
            )
            self._all_pools.append(self._pool(["mercury-node"], node, NODE_INTERVAL))
        self._committer = threading.Thread(target=self._commit, name="mercury-committer", daemon=True)
        self._spare = SpareCommitter(self._arrivals, engine.late_deliveries, engine.decode, self._answer_all)
        self._postponed = PostponedArrivals(settings.queue, settings.batch, self._answer_again)
        self._stopping = threading.Event()
        self._started = False
        #: Every thread was started.
        self._complete = False
        #: How often other processes are known to have committed something of source sequences.
        self._others = 0
        #: What answers say of the store; ``None`` = nothing.
        self.store_id = engine.store_id
        #: Endpoints whose last exchange failed, with the reason.
        self.endpoint_errors = engine.endpoint_errors
        #: For what follows the commits of the application.
        self._behind = HelperThreads("mercury-behind")
        self._posting = Posting(engine, transport, settings.senders, clock, self._deliver)
        self._senders = self._posting.pools
        engine.source.appended.wake = self._pools[Topic.RMS].wake
        engine.source.is_in_flight = self._senders.is_in_flight
        engine.source.has_exchange = self._senders.has_exchange
        engine.source.creations_wait = self._senders.creations_wait
        engine.invocation.answer = self.held_exchanges.release
        engine.invocation.more = self._pools[Topic.INVOKER].wake_one
        durable = "nothing of it is kept, and it is handled again at the next start, or by another process on the store"
        self._becomes = durable if store.capabilities.durable else "and lost with the store, which is in memory"
        store.listen(self._committed, self._others_committed, engine.source.appended.announce)

    def _pool(self, names: list[str], worker: Worker, poll: float | None = None) -> WorkerPool:
        return WorkerPool(names, worker, self.turn, poll or self._settings.poll, self._clock, self._engine.outages)

    # --- start and stop --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads."""
        self._started = True
        return_large_blocks()
        self._collector.adapt()
        self._committer.start()
        self._spare.thread.start()
        self._postponed.thread.start()
        self._posting.start()
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
        self._posting.stop()
        for thread in self._pool_threads:
            thread.join(max(0.0, until - time.monotonic()))
        open_exchanges = self._senders.wait(until)
        self._arrivals.close()
        self._spare.end()
        for thread in self._committers:
            if thread is self._postponed.thread:
                self._postponed.end()  # last: the others may have postponed what still waited for them
            thread.join(max(LAST_STEP_TIMEOUT, until - time.monotonic()))
        for what in self._engine.running_calls.now():
            log.warning("%s is not over after %.1f s: left behind, %s", what, deadline, self._becomes)
        late = [thread.name for thread in (*self._pool_threads, *self._committers) if thread.is_alive()]
        late += [f"{open_exchanges} HTTP exchanges"] if open_exchanges else []
        if late:
            log.warning("still busy after %.1f s, left behind: %s", deadline, ", ".join(late))
        # In a thread, because abandoned work may hold a lock that this needs. Claims that are not released expire.
        ending = threading.Thread(target=self._engine.stop, args=(self._clock(),), name="mercury-ending", daemon=True)
        ending.start()
        ending.join(max(LAST_STEP_TIMEOUT, until - time.monotonic()))
        self._transport.close()
        self._collector.restore()

    @property
    def _pool_threads(self) -> list[threading.Thread]:
        return [thread for pool in self._all_pools for thread in pool.threads]

    @property
    def _committers(self) -> list[threading.Thread]:
        return [self._committer, self._spare.thread, self._postponed.thread]

    @property
    def running(self) -> bool:
        """Whether every thread that should run does."""
        threads = [*self._committers, *self._pool_threads]
        return self._started and not self._stopping.is_set() and all(thread.is_alive() for thread in threads)

    @property
    def store_fails(self) -> bool:
        """Whether work of these threads on the store has failed lately, and waits."""
        return self._engine.outages.failing

    @property
    def ended_threads(self) -> list[str]:
        """The names of threads that have ended although the runtime runs. It does not get them back."""
        if not self._complete or self._stopping.is_set():
            return []
        threads = [*self._committers, *self._pool_threads]
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
        if not self._arrivals.put([(arrival, on_answer)]):
            raise Overloaded("too many messages wait to be stored; send it again later")
        self._spare.look()

    def _commit(self) -> None:
        """The committer's loop: handle all waiting arrivals in one transaction."""
        while waiting := self._arrivals.take():
            self._answer_all(waiting)
            del waiting  # so that their bodies are in memory no longer than needed: the next arrival may take hours

    def _answer_all(self, waiting: list[Waiting]) -> None:
        """Handle arrivals in one transaction and pass their answers on."""
        self._postponed.put(self._answer_some(waiting, delivers=True, postpones=True))

    def _answer_again(self, waiting: list[Waiting], refuses: bool) -> list[Waiting]:
        """As `_answer_all` for postponed arrivals; returns those that have to wait longer.

        :param refuses: none may wait longer.
        """
        return self._answer_some(waiting, delivers=False, postpones=not refuses)

    def _answer_some(self, waiting: list[Waiting], *, delivers: bool, postpones: bool) -> list[Waiting]:
        """Handle arrivals in one transaction and pass the answers on; returns those that are postponed."""
        others = self._others
        answers = self._answers([arrival for arrival, _ in waiting], delivers=delivers, postpones=postpones)
        if others != self._others and self.held_exchanges:
            self._held.wake()  # the worker may have polled before the exchanges were held
        postponed = [each for each, answer in zip(waiting, answers, strict=True) if answer.postponed]
        done = [(*each, answer) for each, answer in zip(waiting, answers, strict=True) if not answer.postponed]
        self._senders.stored([arrival.request for arrival, _, _ in done if arrival.request is not None])
        # The answers first: CXF drops a reply that it gets at its address before the empty answer to its request.
        for _, on_answer, answer in done:
            try:
                if on_answer is not None:
                    on_answer(answer)
            except Exception:
                log.exception("an answer could not be passed on; the peer sends its message again")
        self.post([post for _, _, answer in done for post in answer.posts])
        return postponed

    def _answers(self, arrivals: list[Arrival], *, delivers: bool, postpones: bool) -> list[Answer]:
        """The answers to all arrivals of one transaction.

        After an unexpected error each is answered with `UNHANDLED`: the thread goes on, because all peers need it.
        """
        try:
            with self.held_exchanges.storing():
                answers = self._engine.receive(arrivals, self._clock(), delivers=delivers, postpones=postpones)
                answers = [self._hold(answer) for answer in answers]
        except Exception:
            log.exception("%d arrivals could not be handled; they are answered with HTTP status 500", len(arrivals))
            return [UNHANDLED] * len(arrivals)
        return answers

    def _hold(self, answer: Answer) -> Answer:
        """Hold the exchange if a response may come; the caller releases it."""
        if not answer.waiting:
            return answer
        return replace(answer, held=self.held_exchanges.hold(*answer.waiting, stored=answer.stored))

    # --- posts -----------------------------------------------------------------------------------------------------

    def post(self, posts: list[Outgoing]) -> None:
        """Pass posts to the senders."""
        self._senders.put(posts)

    def _deliver(self, arrivals: Sequence[Arrival], wait: bool) -> int:
        """Queue replies for the committer; returns how many were queued.

        :param wait: whether to wait for room, until the runtime stops.
        """
        waiting = [(arrival, None) for arrival in arrivals]
        queued = self._arrivals.put(waiting, self._settings.poll if wait else 0.0)
        while wait and queued < len(waiting) and not self._stopping.is_set():
            queued += self._arrivals.put(waiting[queued:], self._settings.poll)
        self._spare.look()
        return queued

    def send_in(self, tx: Transaction) -> None:
        """Send in a transaction of the application, about to be committed, what can leave at once: see
        `SourceWorker.send_in`."""
        step = None if self._stopping.is_set() else self._engine.source.send_in(tx, self._clock())
        if step is not None:
            tx.after_commit(partial(self.run_behind, partial(self._post_behind, step)))

    def run_behind(self, call: Callable[[], None]) -> None:
        """Run what follows a commit of the application, in a thread of the engine."""
        self._behind.run(call)

    def _post_behind(self, step: Step) -> None:
        """Do what follows the commit of an application's transaction. What fails here is done when it is due again."""
        for action in step.actions:
            action()
        self.post(step.posts)

    def turn(self, worker: Worker) -> Step:
        """Run a worker once, and post its messages."""
        self._spare.look()
        step = worker.run_once(self._clock())
        self.post(step.posts)
        self.held_exchanges.release(step.responses)
        return step

    def _found(self, topic: Topic) -> None:
        if topic is Topic.RMS:
            self._engine.source.appended.search()
        self._pools[topic].wake()

    def _committed(self, topics: frozenset[Topic]) -> None:
        for topic in topics:
            self._pools[topic].wake()

    def _others_committed(self, topics: frozenset[Topic]) -> None:
        self._engine.note_others(True)
        if Topic.RMS in topics:
            self._others += 1
            if self.held_exchanges:  # one that is held from now on looks at the count
                self._held.wake()
