"""The plan of kills. They are placed by the number of sent orders, so that all of them happen during the work."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from samples.queued_transaction.demo.options import Options

#: All kills are planned before this share of the orders is sent.
LATEST = 0.85


class Victim(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True)
class Kill:
    victim: Victim
    #: The number of orders that are marked as sent at the kill.
    after: int
    #: Kill between the process's two commits; otherwise wherever it is.
    between_commits: bool


def plan(options: Options) -> list[Kill]:
    """All kills in their order.

    With two kills or more both processes are killed. If the store needs two commits, the first kill of each process is
    between them, so that its loss or repetition of orders shows in every run.
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
