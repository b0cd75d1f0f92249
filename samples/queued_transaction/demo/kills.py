"""When who is killed: by how far the work is, so that all kills fall while it is going on."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from samples.queued_transaction.demo.options import Options

#: No kill after this share of the orders is sent.
LATEST = 0.85


class Victim(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True)
class Kill:
    victim: Victim
    #: Once so many orders are marked as sent.
    after: int
    #: At the named point between its two commits, else wherever it is.
    between_commits: bool


def plan(options: Options) -> list[Kill]:
    """All kills, in the order in which they come.

    Both are killed, if there are two kills or more; the first kill of each is between its two commits, where there are
    two, so that what such a store lacks shows every time.
    """
    chance = random.Random(f"kills {options.seed}")
    latest = max(1, int(options.orders * LATEST))
    count = options.kills
    after = sorted(chance.sample(range(latest), count) if count <= latest else chance.choices(range(latest), k=count))
    others = [chance.choice(list(Victim)) for _ in range(count - 2)]
    victims = [Victim.CLIENT, Victim.SERVER, *others][:count]
    chance.shuffle(victims)
    found: list[Kill] = []
    for victim, moment in zip(victims, after, strict=True):
        first = all(kill.victim is not victim for kill in found)
        between = chance.random() < 0.5 or first
        found.append(Kill(victim, moment, between and options.store.two_commits))
    return found
