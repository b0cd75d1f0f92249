"""One node: the real engine with a store that survives crashes, driven by the simulation's events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from mercury.engine.addresses import AddressPolicy
from mercury.engine.exchange import Answer, Arrival, HeldExchange, Outgoing
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.held_exchanges import HeldWorker
from mercury.engine.settings import EngineSettings
from mercury.errors import TransientStorageError
from mercury.simulation.application import SERVICE, Ledger, SimulatedApplication, messages
from mercury.simulation.checks import Checks
from mercury.simulation.faults import FaultyStore, SimulatedCrash
from mercury.simulation.flows import Flow
from mercury.simulation.network import Network, OnReply
from mercury.simulation.process_run import TOPICS, ProcessRun, Worker
from mercury.simulation.scenario import Scenario
from mercury.simulation.stores import Interruptions, NodeStore, SharedMemoryNodeStore
from mercury.simulation.variation import Variation
from mercury.simulation.world import SeededIds, World
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.storage.api import Topic, Transaction
from mercury.storage.records import Channel, SequenceKey
from mercury.wire.envelope import HttpMessage
from mercury.wire.scan import Limits

#: The address that all nodes' requests come from, as behind one router: they share the limits for one peer.
PEER = "192.0.2.1"
#: The lease of a claim, in seconds.
LEASE = 5.0
#: The probability that a process is stopped in a handler, if several processes share a store.
STOPPED_IN_A_HANDLER = 0.02
#: Seconds between two polls, in the variation that sets clocks.
CLOCK_POLL_INTERVAL = 1.0


class Node:
    """A process at a host of the simulated network.

    :param ledger: the application's ledger, shared by several processes of one node.
    """

    def __init__(
        self,
        number: int,
        world: World,
        network: Network,
        scenario: Scenario,
        checks: Checks,
        store: NodeStore,
        ledger: Ledger | None = None,
    ) -> None:
        self.host = f"node{number}"
        self.ledger = ledger or Ledger()
        self.store = store
        self.up = False
        self.crashes = 0
        self._number = number
        self._world = world
        self._network = network
        self._scenario = scenario
        self._checks = checks
        self._chance = Random(world.random.getrandbits(64))  # noqa: S311  replayable on purpose
        self._healed = False
        self._run: ProcessRun | None = None
        #: The error of the node's clock, in seconds.
        self._clock_error = 0.0
        #: The interval of the workers' polls in seconds; ``None`` = they do not poll.
        self._poll = CLOCK_POLL_INTERVAL if scenario.variation is Variation.CLOCK else store.poll
        #: The simulation time until which the process is stopped: it does nothing, and keeps its state.
        self._stopped_until = 0.0
        self._channels: dict[str, Channel] = {}
        network.join(self.host, self)

    # --- clock -----------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        """The time by the node's clock."""
        return self._world.now + self._clock_error

    def plan_clock_steps(self, horizon: float) -> None:
        """Plan steps of the clock at random times within ``horizon`` virtual seconds."""
        for _ in range(4):
            by = self._chance.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0))
            self._world.after(self._chance.uniform(0.0, horizon), partial(self._set_clock, by))

    def _set_clock(self, by: float) -> None:
        self._clock_error += by
        self._world.log(f"{self.host} sets its clock by {by:g} s")
        self._plan_work(0.0)

    def plan_stops(self, horizon: float) -> None:
        """Plan stops of the process at random times within ``horizon`` virtual seconds, often longer than a lease."""
        for _ in range(3):
            length = self._chance.uniform(0.0, 4 * LEASE)
            self._world.after(self._chance.uniform(0.0, horizon), partial(self._stop, length))

    def _stop(self, length: float) -> None:
        self._stopped_until = max(self._stopped_until, self._world.now + length)
        self._world.log(f"{self.host} is stopped for {length:g} s")

    def _handling(self) -> None:
        """Stop the process inside a handler's transaction, at random, while the other processes work."""
        shares = isinstance(self.store, SharedMemoryNodeStore) and not self._healed  # a file would stay locked
        if shares and not self._world.within and self._chance.random() < STOPPED_IN_A_HANDLER:
            length = self._chance.uniform(0.0, 4 * LEASE)
            self._stop(length + 0.001)
            self._world.run_within(self._world.now + length)

    def _is_stopped(self, afterwards: Callable[[], None]) -> bool:
        """Whether the process is stopped now; if so, ``afterwards`` is called when it resumes."""
        if self._world.now >= self._stopped_until:
            return False
        self._world.at(self._stopped_until, afterwards)
        return True

    # --- start and crash -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start, or restart after a crash, with the committed state."""
        interruptions = Interruptions(self._chance, self._scenario.node.crash_at_statement, SimulatedCrash)
        try:
            inner = self.store.open(interruptions)
        except SimulatedCrash:
            self._world.after(0.1, self.start)
            return
        store = FaultyStore(inner, self._scenario.node, self._chance, interruptions)
        store.defects = self._checks.violations
        if self._healed:
            store.heal()
        application = SimulatedApplication(self._scenario, self.ledger, self._chance, healed=self._healed)
        application.handling = self._handling
        engine = Engine(
            store=store,
            application=application.registry,
            observers=application.observers,
            ids=SeededIds(self._chance),
            settings=EngineSettings(
                limits=Limits(max_batch=self._scenario.max_batch),
                addresses=AddressPolicy(("*",)),
                lease=LEASE,
                number_batch=7,
                invoke_batch=5,
                max_backlog_bytes_per_peer=self._scenario.max_backlog_bytes_per_peer,
                max_backlog_bytes=self._scenario.max_backlog_bytes,
            ),
            monotonic=lambda: self._world.now,
        )
        workers: dict[Topic, Worker] = {
            Topic.RMS: engine.source,
            Topic.RMD: engine.destination,
            Topic.INVOKER: engine.invocation,
        }
        engine.note_others(isinstance(self.store, SharedMemoryNodeStore))
        run = ProcessRun(engine, store, application, workers, woken=set(Topic))
        store.listen(partial(self._committed, run), keys=engine.source.appended.announce)
        engine.invocation.answer = run.held_exchanges.release
        self._run = run
        self.up = True
        self._world.log(f"{self.host} starts")
        self._plan_work(0.0)

    def crash(self) -> None:
        """Lose all state that is not committed, and plan a restart."""
        if not self.up:
            return
        self.crashes += 1
        self.up = False
        self._run = None
        self._world.log(f"{self.host} crashes")
        downtime = 0.1 if self._healed else self._world.random.uniform(0.05, self._scenario.node.downtime)
        self._world.after(downtime, self.start)

    @property
    def has_ended(self) -> bool:
        """Whether all sequences have ended: a cheap test before every record is checked."""
        store = self.store
        return (
            all(record.machine.tombstone for record in store.destinations())
            and not any(record.machine.alive for record in store.sources())
            and not store.rows()
        )

    def heal(self) -> None:
        self._healed = True
        if self._run is not None:
            self._run.store.heal()
            self._run.application.healed = True

    # --- the application sends -------------------------------------------------------------------------------------

    def send(self, flow: Flow) -> None:
        """Send the next message of a flow if the process runs; the ledger and the message commit together."""
        run = self._run
        if run is None or self._world.now < self._stopped_until:
            return
        number = self.ledger.sent.get(flow.key, 0) + 1
        rows = messages(flow, number, self._channel(flow), self._now)
        posts: list[Outgoing] = []
        try:
            with run.store.transaction(partial(self._send_in, run, posts)) as tx:
                for each in rows:
                    tx.rms.append(each)
                tx.after_commit(lambda: self.ledger.sent.__setitem__(flow.key, number))
        except TransientStorageError:
            return
        except SimulatedCrash:
            self.crash()
            return
        if posts:
            self._post(run, posts)
            self._plan_rms(run)

    def _send_in(self, run: ProcessRun, posts: list[Outgoing], tx: Transaction) -> None:
        """Send in a transaction of the application what can leave at once, as the runtime does."""
        step = run.engine.source.send_in(tx, self._now)
        if step is not None:
            self._checks.worked(self, step)
            for action in step.actions:
                tx.after_commit(action)
            tx.after_commit(partial(posts.extend, step.posts))

    def _channel(self, flow: Flow) -> Channel:
        """The channel of a flow, one object for all its messages, as a sender has."""
        if flow.key not in self._channels:
            self._channels[flow.key] = self._channel_of(flow)
        return self._channels[flow.key]

    def _channel_of(self, flow: Flow) -> Channel:
        back = EndpointReference(f"http://{self.host}/responses") if flow.listening else ANONYMOUS_ENDPOINT
        endpoint = f"http://node{flow.server}/{SERVICE}"
        return Channel(key=SequenceKey(endpoint, flow.key), policy=flow.policy, reply_to=back)

    # --- requests arrive -------------------------------------------------------------------------------------------

    def handle_request(self, http: HttpMessage, path: str, reply: OnReply) -> None:
        run = self._run
        if run is None:
            return
        service = SERVICE if path == SERVICE else None
        envelope = self._network.read(http, path, lambda: run.engine.decode(http, service))
        url = f"http://{self.host}/{path}"
        self._enqueue(Arrival(http=http, service=service, url=url, peer=PEER, envelope=envelope), reply)

    def _enqueue(self, arrival: Arrival, reply: OnReply | None) -> None:
        run = self._run
        if run is None:
            return
        run.arrivals.append((arrival, reply))
        if not run.receiving:
            run.receiving = True
            waits = self._world.random.random() < self._scenario.batching
            self._world.after(self._world.random.uniform(0, 0.2) if waits else 0.0, partial(self._receive, run))

    def _receive(self, run: ProcessRun) -> None:
        """Handle all waiting arrivals in one transaction, as the engine's group commit does."""
        if run is not self._run or self._is_stopped(partial(self._receive, run)):
            return
        waiting, run.arrivals, run.receiving = run.arrivals, [], False
        try:
            with run.held_exchanges.storing():
                answers = run.engine.receive([arrival for arrival, _ in waiting], self._now)
                held = [self._hold(run, answer, reply) for (_, reply), answer in zip(waiting, answers, strict=True)]
        except SimulatedCrash:
            self.crash()
            return
        for (_, reply), answer, exchange in zip(waiting, answers, held, strict=True):
            self._checks.replied(self, answer.http)
            if answer.posts:
                self._post(run, answer.posts)
            if reply is not None:
                self._reply(run, answer, exchange, reply)
        self._plan_rms(run)

    def _plan_rms(self, run: ProcessRun) -> None:
        """Plan work after a transaction that has sent: it may have set another time."""
        if run is self._run:
            run.due.pop(Topic.RMS, None)
            self._plan_work(0.0)

    def _hold(self, run: ProcessRun, answer: Answer, reply: OnReply | None) -> HeldExchange | None:
        """Hold the exchange if a response may come."""
        if reply is None or not answer.waiting:
            return None
        return run.held_exchanges.hold(*answer.waiting, stored=answer.stored)

    def _reply(self, run: ProcessRun, answer: Answer, held: HeldExchange | None, reply: OnReply) -> None:
        if held is None:
            reply(answer.http)
            return
        held.response.add_done_callback(lambda found: self._respond(run, found.result() or answer.http, reply))
        self._world.after(self._scenario.back_channel_wait, partial(self._give_up, run, held, answer.http, reply))

    def _respond(self, run: ProcessRun, response: HttpMessage, reply: OnReply) -> None:
        if run is self._run:
            self._checks.replied(self, response)
            reply(response)

    def _give_up(self, run: ProcessRun, held: HeldExchange, http: HttpMessage, reply: OnReply) -> None:
        """Answer a held exchange without its response, which did not come in time."""
        if run is self._run and not held.response.done():
            reply(run.held_exchanges.so_far(held) or http)

    # --- the workers -----------------------------------------------------------------------------------------------

    def _committed(self, run: ProcessRun, topics: frozenset[Topic]) -> None:
        run.forget(topics)
        if run is self._run:
            run.woken |= topics
            self._plan_work(self._world.random.uniform(0, 0.002))

    def _plan_work(self, delay: float) -> None:
        run, at = self._run, self._world.now + delay
        if run is None or (run.work_at is not None and run.work_at <= at):
            return
        run.work_at = at
        self._world.at(at, partial(self._work, run, at))

    def _work(self, run: ProcessRun, at: float) -> None:
        """Run every worker that was woken or has something due, in a random order."""
        if run is not self._run or run.work_at != at or self._is_stopped(partial(self._work, run, at)):
            return
        run.work_at = None
        try:
            self._turn(run)
        except SimulatedCrash:
            self.crash()

    def _turn(self, run: ProcessRun) -> None:
        now, due, store_poll = self._now, run.due, self.store.poll
        woken, run.woken = run.woken, set()
        # A commit wakes the workers for everything that it makes due.
        topics = [topic for topic in TOPICS if topic in woken or due.get(topic, 0.0) <= now]
        if store_poll is not None and self._world.now >= run.poll_at:
            topics, run.poll_at = list(TOPICS), self._world.now + store_poll
        if len(topics) > 1:
            self._chance.shuffle(topics)
        try:
            if self._poll is not None:
                run.engine.clock.run_once(now)
            for topic in topics:
                if store_poll is None and run.due_at(topic) > now:
                    continue  # the commit has made nothing due: the worker would find nothing
                step = run.workers[topic].run_once(now)
                self._checks.worked(self, step)
                if step.posts:
                    self._post(run, step.posts)
                run.held_exchanges.release(step.responses)
            if self._scenario.variation is Variation.SEVERAL:
                HeldWorker(run.engine, run.held_exchanges).run_once(now)
        except TransientStorageError:
            run.woken |= set(topics)
            run.due = {}
            self._plan_work(0.01)
            return
        if store_poll is None:
            run.due = due = run.all_due()
        else:
            run.due = due = {topic: _due_of(run.workers[topic]) for topic in TOPICS}
        earliest = min(due.values())
        if self._poll is not None:
            earliest = min(earliest, now + self._poll)
        if earliest < math.inf and self._run is run:
            self._plan_work(max(0.01, earliest - now))

    # --- posting ---------------------------------------------------------------------------------------------------

    def _post(self, run: ProcessRun, posts: Sequence[Outgoing]) -> None:
        for outgoing in posts:
            self._checks.posted(self, outgoing)
            self._world.log(f"{self.host} posts {outgoing.purpose.value} {outgoing.number or ''} to {outgoing.url}")
            self._network.post(
                self.host,
                outgoing.url,
                run.engine.encoded(outgoing),
                partial(self._answered, run, outgoing),
                partial(self._failed, run, outgoing),
            )

    def _answered(self, run: ProcessRun, outgoing: Outgoing, http: HttpMessage) -> None:
        if run is not self._run or self._is_stopped(partial(self._answered, run, outgoing, http)):
            return
        self._world.log(f"{self.host} is answered {http.status}, {len(http.body)} bytes")
        try:
            arrival = run.engine.answered(outgoing, http, self._now)
        except SimulatedCrash:
            self.crash()
            return
        if arrival is not None:
            self._enqueue(arrival, None)

    def _failed(self, run: ProcessRun, outgoing: Outgoing, error: str) -> None:
        if run is not self._run or self._is_stopped(partial(self._failed, run, outgoing, error)):
            return
        try:
            run.engine.failed(outgoing, error, self._now)
        except SimulatedCrash:
            self.crash()


def _due_of(worker: Worker) -> float:
    """When the work is due next that a worker may take; infinity = never.

    Claims outlive a process, so a worker sees rows that another process has claimed only at its next poll.
    """
    due = worker.next_due()
    return math.inf if due is None else due
