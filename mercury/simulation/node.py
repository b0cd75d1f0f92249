"""One node: the real engine over a store that survives crashes, driven by events."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from mercury.engine.addresses import AddressPolicy
from mercury.engine.exchange import Answer, Arrival, HeldExchange, Outgoing, Step
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.held_exchanges import HeldExchanges, HeldWorker
from mercury.engine.settings import EngineSettings
from mercury.errors import TransientStorageError
from mercury.simulation.application import ONE_WAY, SERVICE, TWO_WAY, Ledger, SimulatedApplication, body
from mercury.simulation.checks import Checks
from mercury.simulation.faults import FaultyStore, SimulatedCrash
from mercury.simulation.flows import Flow
from mercury.simulation.network import Network, OnReply
from mercury.simulation.scenario import Scenario
from mercury.simulation.stores import Interruptions, NodeStore, SharedMemoryNodeStore
from mercury.simulation.variation import Variation
from mercury.simulation.world import SeededIds, World
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.storage.api import Topic
from mercury.storage.records import Channel, OutboundKind, OutboundMessage, SequenceKey
from mercury.wire.encode import encode
from mercury.wire.envelope import HttpMessage

#: Where all nodes come from, as behind one router: what one of them leaves waiting counts against the others.
PEER = "192.0.2.1"
TOPICS = tuple(Topic)
#: Seconds for which a process keeps what it works on when nothing is heard of it.
LEASE = 5.0
#: Chance that a process is stopped in a handler, where several share a store.
STOPPED_IN_A_HANDLER = 0.02
#: Seconds between two checks of the clock, where clocks are set.
CLOCK_POLL_INTERVAL = 1.0


class Worker(Protocol):
    """One of the engine's workers."""

    def run_once(self, now: float) -> Step: ...

    def next_due(self) -> float | None: ...


@dataclass(slots=True)
class _Life:
    """What a crash takes away."""

    engine: Engine
    store: FaultyStore
    application: SimulatedApplication
    workers: dict[Topic, Worker]
    arrivals: list[tuple[Arrival, OnReply | None]] = field(default_factory=list)
    held_exchanges: HeldExchanges = field(default_factory=HeldExchanges)
    #: Which workers a commit has called for.
    called: set[Topic] = field(default_factory=set)
    #: When the workers had something due after their last turn.
    due: dict[Topic, float] = field(default_factory=dict)
    #: When, by world time, the workers poll.
    poll_at: float = 0.0
    work_at: float | None = None
    receiving: bool = False


class Node:
    """A process at a host of the simulated network.

    :param ledger: what the application commits, when several processes run it.
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
        self._life: _Life | None = None
        #: By how much its clock is wrong, in seconds.
        self._wrong_by = 0.0
        #: Until when, by world time, it is stopped: it does nothing, and loses nothing.
        self._stopped_until = 0.0
        network.join(self.host, self)

    # --- its clock -------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        """What its clock shows."""
        return self._world.now + self._wrong_by

    @property
    def _poll(self) -> float | None:
        """Seconds after which its workers poll."""
        return CLOCK_POLL_INTERVAL if self._scenario.variation is Variation.CLOCK else self.store.poll

    def plan_clock_steps(self, horizon: float) -> None:
        """Set the clock back and forth at random times within ``horizon`` seconds."""
        for _ in range(4):
            by = self._chance.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0))
            self._world.after(self._chance.uniform(0.0, horizon), lambda by=by: self._set_clock(by))  # type: ignore[misc]

    def _set_clock(self, by: float) -> None:
        self._wrong_by += by
        self._world.log(f"{self.host} sets its clock by {by:g} s")
        self._plan_work(0.0)

    def plan_stops(self, horizon: float) -> None:
        """Stop it at random times within ``horizon`` seconds, often for longer than its leases last."""
        for _ in range(3):
            length = self._chance.uniform(0.0, 4 * LEASE)
            self._world.after(self._chance.uniform(0.0, horizon), lambda length=length: self._stop(length))  # type: ignore[misc]

    def _stop(self, length: float) -> None:
        self._stopped_until = max(self._stopped_until, self._world.now + length)
        self._world.log(f"{self.host} is stopped for {length:g} s")

    def _handling(self) -> None:
        """It may be stopped inside a transaction; what the others do meanwhile decides whether it may still commit."""
        shares = isinstance(self.store, SharedMemoryNodeStore) and not self._healed  # a file would stay locked
        if shares and not self._world.within and self._chance.random() < STOPPED_IN_A_HANDLER:
            length = self._chance.uniform(0.0, 4 * LEASE)
            self._stop(length + 0.001)
            self._world.run_within(self._world.now + length)

    def _is_stopped(self, afterwards: Callable[[], None]) -> bool:
        """Whether it is stopped now; then ``afterwards`` is done when it goes on."""
        if self._world.now >= self._stopped_until:
            return False
        self._world.at(self._stopped_until, afterwards)
        return True

    # --- life and death --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with what is committed, or begin again."""
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
        life = _Life(engine, store, application, workers, called=set(Topic))
        store.listen(lambda topics: self._committed(life, topics))
        engine.invocation.answer = life.held_exchanges.release
        self._life = life
        self.up = True
        self._world.log(f"{self.host} starts")
        self._plan_work(0.0)

    def crash(self) -> None:
        """Everything but committed state is gone; the node comes back after a while."""
        if not self.up:
            return
        self.crashes += 1
        self.up = False
        self._life = None
        self._world.log(f"{self.host} crashes")
        downtime = 0.1 if self._healed else self._world.random.uniform(0.05, self._scenario.node.downtime)
        self._world.after(downtime, self.start)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is open any more: a cheap test, before every record is checked."""
        store = self.store
        return (
            all(record.machine.tombstone for record in store.destinations())
            and not any(record.machine.alive for record in store.sources())
            and not store.rows()
        )

    def heal(self) -> None:
        self._healed = True
        if self._life is not None:
            self._life.store.heal()
            self._life.application.healed = True

    # --- the application sends -------------------------------------------------------------------------------------

    def send(self, flow: Flow) -> None:
        """Send the next message of a flow, if the node is up; the ledger and the message commit together."""
        life = self._life
        if life is None or self._world.now < self._stopped_until:
            return
        number = self.ledger.sent.get(flow.key, 0) + 1
        channel = self._channel(flow)
        row = OutboundMessage(
            message_id=f"urn:{flow.key}:{number}",
            channel=channel,
            action=TWO_WAY if flow.in_out else ONE_WAY,
            payload=body(flow.key, number),
            expects_response=flow.in_out,
            callback="answer" if flow.in_out else None,
            correlation=f"{flow.key}/{number}",
            created_at=self._now,
        )
        rows = [row]
        if number in flow.ends_after or number == flow.messages:
            end_id = f"urn:{flow.key}:end{number}"
            abandons = flow.abandons and number != flow.messages
            kind = OutboundKind.ABANDON if abandons else OutboundKind.END
            rows.append(OutboundMessage(message_id=end_id, channel=channel, kind=kind))
        try:
            with life.store.transaction() as tx:
                for each in rows:
                    tx.rms.append(each)
                tx.after_commit(lambda: self.ledger.sent.__setitem__(flow.key, number))
        except TransientStorageError:
            return
        except SimulatedCrash:
            self.crash()

    def _channel(self, flow: Flow) -> Channel:
        back = EndpointReference(f"http://{self.host}/responses") if flow.listening else ANONYMOUS_ENDPOINT
        endpoint = f"http://node{flow.server}/{SERVICE}"
        return Channel(key=SequenceKey(endpoint, flow.key), policy=flow.policy, reply_to=back)

    # --- the network brings ----------------------------------------------------------------------------------------

    def arrives(self, http: HttpMessage, path: str, reply: OnReply) -> None:
        life = self._life
        if life is None:
            return
        service = SERVICE if path == SERVICE else None
        envelope = self._network.read(http, path, lambda: life.engine.decode(http, service))
        url = f"http://{self.host}/{path}"
        self._enqueue(Arrival(http=http, service=service, url=url, peer=PEER, envelope=envelope), reply)

    def _enqueue(self, arrival: Arrival, reply: OnReply | None) -> None:
        life = self._life
        if life is None:
            return
        life.arrivals.append((arrival, reply))
        if not life.receiving:
            life.receiving = True
            waits = self._world.random.random() < self._scenario.batching
            self._world.after(self._world.random.uniform(0, 0.2) if waits else 0.0, lambda: self._receive(life))

    def _receive(self, life: _Life) -> None:
        """What the committer does: everything that waits, in one transaction."""
        if life is not self._life or self._is_stopped(lambda: self._receive(life)):
            return
        waiting, life.arrivals, life.receiving = life.arrivals, [], False
        try:
            answers = life.engine.receive([arrival for arrival, _ in waiting], self._now)
        except SimulatedCrash:
            self.crash()
            return
        for (_, reply), answer in zip(waiting, answers, strict=True):
            self._checks.replied(self, answer.http)
            self._post(life, list(answer.posts))
            if reply is not None:
                self._reply(life, answer, reply)

    def _reply(self, life: _Life, answer: Answer, reply: OnReply) -> None:
        if answer.waiting is None:
            reply(answer.http)
            return
        held = life.held_exchanges.hold(answer.waiting)
        held.response.add_done_callback(lambda found: self._respond(life, found.result(), reply))
        self._world.after(self._scenario.back_channel_wait, lambda: self._give_up(life, held, answer.http, reply))

    def _respond(self, life: _Life, response: HttpMessage | None, reply: OnReply) -> None:
        if life is self._life and response is not None:
            self._checks.replied(self, response)
            reply(response)

    def _give_up(self, life: _Life, held: HeldExchange, http: HttpMessage, reply: OnReply) -> None:
        """The response did not come in time."""
        if life is self._life and not held.response.done():
            life.held_exchanges.let_go(held)
            reply(http)

    # --- the workers -----------------------------------------------------------------------------------------------

    def _committed(self, life: _Life, topics: frozenset[Topic]) -> None:
        if life is self._life:
            life.called |= topics
            self._plan_work(self._world.random.uniform(0, 0.002))

    def _plan_work(self, delay: float) -> None:
        life, at = self._life, self._world.now + delay
        if life is None or (life.work_at is not None and life.work_at <= at):
            return
        life.work_at = at
        self._world.at(at, lambda: self._work(life, at))

    def _work(self, life: _Life, at: float) -> None:
        """A turn of every worker that was called or has something due, in an order that chance decides."""
        if life is not self._life or life.work_at != at or self._is_stopped(lambda: self._work(life, at)):
            return
        life.work_at = None
        try:
            self._turn(life)
        except SimulatedCrash:
            self.crash()

    def _turn(self, life: _Life) -> None:
        now = self._now
        called, life.called = life.called, set()
        # What became due since by a commit was called for by it.
        topics = [topic for topic in TOPICS if topic in called or life.due.get(topic, 0.0) <= now]
        if self.store.poll is not None and self._world.now >= life.poll_at:
            topics, life.poll_at = list(TOPICS), self._world.now + self.store.poll
        self._chance.shuffle(topics)
        try:
            if self._poll is not None:
                life.engine.clock.run_once(now)
            for topic in topics:
                step = life.workers[topic].run_once(now)
                self._post(life, step.posts)
                life.held_exchanges.release(step.responses)
            if self._scenario.variation is Variation.SEVERAL:
                HeldWorker(life.engine, life.held_exchanges).run_once(now)
        except TransientStorageError:
            life.called |= set(topics)
            life.due = {}
            self._plan_work(0.01)
            return
        life.due = {topic: self._due_at(life, topic) for topic in TOPICS}
        earliest = min(life.due.values())
        if self._poll is not None:
            earliest = min(earliest, now + self._poll)
        if earliest < math.inf and self._life is life:
            self._plan_work(max(0.01, earliest - now))

    def _due_at(self, life: _Life, topic: Topic) -> float:
        # Where claims outlive a process, what another one has claimed is none of this one's business until it polls.
        due = life.store.next_due(topic) if self.store.poll is None else life.workers[topic].next_due()
        return math.inf if due is None else due

    # --- posting ---------------------------------------------------------------------------------------------------

    def _post(self, life: _Life, posts: list[Outgoing]) -> None:
        for outgoing in posts:
            self._checks.posted(self, outgoing)
            self._world.log(f"{self.host} posts {outgoing.purpose.value} {outgoing.number or ''} to {outgoing.url}")
            self._network.post(
                self.host,
                outgoing.url,
                encode(outgoing.envelope),
                lambda http, outgoing=outgoing: self._answered(life, outgoing, http),  # type: ignore[misc]
                lambda error, outgoing=outgoing: self._failed(life, outgoing, error),  # type: ignore[misc]
            )

    def _answered(self, life: _Life, outgoing: Outgoing, http: HttpMessage) -> None:
        if life is not self._life or self._is_stopped(lambda: self._answered(life, outgoing, http)):
            return
        self._world.log(f"{self.host} is answered {http.status}, {len(http.body)} bytes")
        try:
            arrival = life.engine.answered(outgoing, http, self._now)
        except SimulatedCrash:
            self.crash()
            return
        if arrival is not None:
            self._enqueue(arrival, None)

    def _failed(self, life: _Life, outgoing: Outgoing, error: str) -> None:
        if life is not self._life or self._is_stopped(lambda: self._failed(life, outgoing, error)):
            return
        try:
            life.engine.failed(outgoing, error, self._now)
        except SimulatedCrash:
            self.crash()
