"""The scenario of a seed: nodes, flows, protocol versions, policies and faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from mercury.simulation.flows import Flow, flows_of
from mercury.simulation.variation import Variation, variation_of, varied_destination, varied_flow
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.retransmission import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFaults:
    """The faults of the network. Probabilities are per exchange, times are virtual seconds."""

    lose_request: float = 0.0
    lose_reply: float = 0.0
    duplicate: float = 0.0
    #: The mean of the exponential delay of each direction.
    delay: float = 0.01
    #: The probability of a long delay, which reorders messages, and its maximum.
    late: float = 0.0
    lateness: float = 1.0
    #: The number of partitions of a pair of nodes, and their longest duration.
    partitions: int = 0
    partition_length: float = 20.0
    #: The timeout of an exchange.
    timeout: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaults:
    """The faults of the nodes."""

    #: The probabilities, for each commit, of a crash before it and of a crash after it.
    crash_before_commit: float = 0.0
    crash_after_commit: float = 0.0
    #: The probability, for each SQL statement, of a crash before it.
    crash_at_statement: float = 0.0
    #: The probability that a commit fails without a crash.
    commit_fails: float = 0.0
    #: The longest time until a crashed node restarts, in virtual seconds.
    downtime: float = 10.0
    #: The probability that a handler or callback raises an unexpected error.
    handler_fails: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a seed determines before the simulation starts."""

    seed: int
    nodes: int
    flows: tuple[Flow, ...]
    network: NetworkFaults
    node: NodeFaults
    destination: DestinationPolicy
    #: The probability that several arrivals are committed together.
    batching: float
    back_channel_wait: float
    #: The most bytes of one peer's messages, and of all, in the InvokerBuffers of a node.
    max_backlog_bytes_per_peer: int = 512 * 1024**2
    max_backlog_bytes: int = 4 * 1024**3
    #: The most messages of a batch that a node takes.
    max_batch: int = 256
    variation: Variation = Variation.NONE
    lines: list[str] = field(default_factory=list)

    def describe(self) -> list[str]:
        """The scenario as lines of text, for the trace."""
        shown = [f"seed {self.seed}, {self.nodes} nodes, variation: {self.variation.value}"]
        shown += [str(self.network), str(self.node), str(self.destination)]
        return shown + [str(flow) for flow in self.flows]


def scenario_of(seed: int, *, messages: int = 100, statements: bool = False) -> Scenario:
    """The scenario of a seed.

    :param messages: the least number of messages of all flows together.
    :param statements: the stores execute SQL statements, so that a crash before one can be simulated.
    """
    chance = Random(seed)  # noqa: S311  replayable on purpose
    nodes = chance.choice((2, 2, 2, 3, 3, 4, 5))
    quiet = chance.random() < 0.1
    network = _network(chance) if not quiet else NetworkFaults()
    faults = NodeFaults(
        crash_before_commit=chance.choice((0.0, 0.0, 0.003, 0.01)),
        crash_after_commit=chance.choice((0.0, 0.0, 0.003, 0.01)),
        commit_fails=chance.choice((0.0, 0.01, 0.05)),
        downtime=chance.uniform(0.5, 20.0),
        handler_fails=chance.choice((0.0, 0.02, 0.1)),
        # Drawn from a random generator of its own, so that the rest of a seed is the same with every store.
        crash_at_statement=Random(-seed - 1).choice((0.0, 0.0002, 0.001)) if statements else 0.0,  # noqa: S311
    )
    variation = variation_of(seed)
    options = Random(-seed - 2)  # noqa: S311  a generator of its own: the rest of a seed is as without the variation
    flows = tuple(varied_flow(variation, flow, options) for flow in flows_of(chance, nodes, messages))
    bounds = Random(-seed - 3)  # noqa: S311  likewise
    few = bounds.choice((1_000, 10_000, 64 * 1024**2))
    peer, every = bounds.choice((3_000, 30_000, 512 * 1024**2)), bounds.choice((5_000, 4 * 1024**3))
    kept = any(flow.in_out and not flow.listening and not flow.policy.offer for flow in flows)
    if variation.leaves_dead_letters or variation.gives_up or kept:
        # These variations make dead letters and unacknowledged replies, which no operator removes. With small limits
        # the node would refuse messages, or give up the older half of the replies.
        few, peer, every = 64 * 1024**2, 512 * 1024**2, 4 * 1024**3
    batches = Random(-seed - 4)  # noqa: S311  likewise
    flows = tuple(replace(flow, policy=replace(flow.policy, batch=batches.choice((1, 3, 256)))) for flow in flows)
    destination = replace(varied_destination(variation, _destination(chance), options), max_backlog_bytes=few)
    destination = replace(destination, batches=batches.random() < 0.8)
    return Scenario(
        seed=seed,
        nodes=nodes,
        variation=variation,
        flows=flows,
        network=network,
        node=faults if not quiet else NodeFaults(),
        destination=destination,
        batching=chance.choice((0.0, 0.3, 0.8)),
        back_channel_wait=chance.choice((0.0, 0.05, 1.0)),
        max_backlog_bytes_per_peer=peer,
        max_backlog_bytes=every,
        max_batch=batches.choice((2, 5, 256)),
    )


def _network(chance: Random) -> NetworkFaults:
    return NetworkFaults(
        lose_request=chance.choice((0.0, 0.05, 0.2, 0.35)),
        lose_reply=chance.choice((0.0, 0.05, 0.2, 0.35)),
        duplicate=chance.choice((0.0, 0.1, 0.3)),
        delay=chance.choice((0.001, 0.02, 0.2)),
        late=chance.choice((0.0, 0.1, 0.3)),
        lateness=chance.choice((0.5, 5.0, 30.0)),
        partitions=chance.choice((0, 0, 1, 3)),
        partition_length=chance.uniform(1.0, 40.0),
        timeout=chance.choice((2.0, 5.0, 10.0)),
    )


def _destination(chance: Random) -> DestinationPolicy:
    return DestinationPolicy(
        acknowledge_at=chance.choice((AcknowledgeAt.ACCEPTANCE, AcknowledgeAt.ACCEPTANCE, AcknowledgeAt.DELIVERY)),
        acknowledgement_interval=chance.choice((0.0, 0.1, 0.5)),
        acknowledge_every=chance.choice((1, 4, 16)),
        max_ranges=chance.choice((2, 8, 512)),
        max_backlog=chance.choice((3, 20, 10_000)),
        redelivery=Backoff(base=0.2, cap=2.0),
        # Longer than a message can be delayed, and longer than a whole run.
        tombstone=100_000.0,
        inactivity_timeout=50_000.0,
    )
