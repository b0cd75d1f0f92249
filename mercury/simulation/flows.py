"""The flows of messages in a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import ALL_PROTOCOLS
from mercury.statemachine.retransmission import RetransmissionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The messages that one node sends to another under one key."""

    client: int
    server: int
    key: str
    messages: int
    policy: SourcePolicy
    listening: bool
    in_out: bool
    #: The mean time between sends, in virtual seconds.
    send_interval: float
    #: The application ends the sequence after each of these numbers of messages; the next message starts a successor.
    ends_after: tuple[int, ...] = ()
    #: Whether these ends abandon messages that are not acknowledged.
    abandons: bool = False
    #: Seconds after which the messages expire: each message has the next one of these, and then the first again.
    times_to_live: tuple[float | None, ...] = (None,)

    def time_to_live(self, number: int) -> float | None:
        """The seconds after which a message expires; ``None`` = never."""
        return self.times_to_live[number % len(self.times_to_live)]


def flows_of(chance: Random, nodes: int, messages: int) -> tuple[Flow, ...]:
    """One to four flows between these nodes, with at least ``messages`` messages in total."""
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
            # More attempts than the faulty phase has time for. If a source gave up terminating, its destination would
            # end the sequence by inactivity, after days, and the checks could not distinguish it from a forgotten one.
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
                send_interval=chance.choice((0.005, 0.05, 0.3)),
                ends_after=ends,
            )
        )
    return tuple(flows)
