"""Who sends what to whom in a simulated world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import ALL_PROTOCOLS
from mercury.statemachine.retransmission import RetransmissionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The messages of one internal key."""

    client: int
    server: int
    key: str
    messages: int
    policy: SourcePolicy
    listening: bool
    in_out: bool
    #: Mean virtual seconds between sends.
    pace: float
    #: After how many messages the application ends the sequence, to go on with a successor.
    ends_after: tuple[int, ...] = ()
    #: These ends abandon what is not acknowledged.
    abandons: bool = False


def flows_of(chance: Random, nodes: int, messages: int) -> tuple[Flow, ...]:
    """One to four flows between these nodes, with ``messages`` messages or a few more, all together."""
    count = chance.choice((1, 2, 2, 3, 4))
    flows = []
    for index in range(count):
        client, server = chance.sample(range(nodes), 2)
        share = -(-messages // count)
        ends = tuple(sorted(chance.sample(range(1, share), min(share - 1, chance.choice((0, 0, 1, 3))))))
        policy = SourcePolicy(
            protocol=chance.choice(ALL_PROTOCOLS),
            retransmission=RetransmissionPolicy(base=chance.choice((0.3, 1.0, 2.0)), cap=8.0),
            window=chance.choice((1, 4, 32)),
            idle_timeout=chance.choice((None, 2.0, 30.0)),
            offer=True,
            close=chance.random() < 0.5,
            # More than fit into the time of the faults: who gives up saying the end leaves it to the destination to
            # notice the silence, after days, and a sequence whose end was forgotten would look the same.
            end_attempts=200,
        )
        listening = chance.random() < 0.5
        in_out = chance.random() < 0.5
        if listening and chance.random() < 0.3:
            policy = replace(policy, offer=False)
        flows.append(
            Flow(
                client=client,
                server=server,
                key=f"key{index}",
                messages=share,
                policy=policy,
                listening=listening,
                in_out=in_out,
                pace=chance.choice((0.005, 0.05, 0.3)),
                ends_after=ends,
            )
        )
    return tuple(flows)
