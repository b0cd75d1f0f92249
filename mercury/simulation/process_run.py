"""What a simulated process has only in its memory, so that a crash loses it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from mercury.engine.exchange import Arrival, Step
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.held_exchanges import HeldExchanges
from mercury.simulation.application import SimulatedApplication
from mercury.simulation.faults import FaultyStore
from mercury.simulation.network import OnReply
from mercury.storage.api import Topic

TOPICS = tuple(Topic)


class Worker(Protocol):
    """One of the engine's workers."""

    def run_once(self, now: float) -> Step: ...

    def next_due(self) -> float | None: ...


@dataclass(slots=True)
class ProcessRun:
    """The volatile state of a process, which a crash loses."""

    engine: Engine
    store: FaultyStore
    application: SimulatedApplication
    workers: dict[Topic, Worker]
    arrivals: list[tuple[Arrival, OnReply | None]] = field(default_factory=list)
    held_exchanges: HeldExchanges = field(init=False)
    #: The topics whose workers a commit has woken.
    woken: set[Topic] = field(default_factory=set)
    #: When each worker's next work was due, after its last run.
    due: dict[Topic, float] = field(default_factory=dict)
    #: When work of each kind is due, as the store has said since the last commit that concerned this kind.
    known: dict[Topic, float] = field(default_factory=dict)
    #: The simulation time of the next poll.
    poll_at: float = 0.0
    work_at: float | None = None
    receiving: bool = False

    def __post_init__(self) -> None:
        self.held_exchanges = HeldExchanges(ids=self.engine.ids)

    def forget(self, topics: frozenset[Topic]) -> None:
        """A commit has changed when work of these kinds is due: the store is asked again."""
        for topic in topics:
            self.known.pop(topic, None)

    def due_at(self, topic: Topic) -> float:
        """When work of this kind is due next, for any owner of claims; infinity = never."""
        due = self.known.get(topic)
        if due is None:
            found = self.store.next_due(topic)
            due = self.known[topic] = math.inf if found is None else found
        return due

    def all_due(self) -> dict[Topic, float]:
        """When work of each kind is due next, as `due_at`."""
        for topic in TOPICS:
            if topic not in self.known:
                self.due_at(topic)
        return self.known.copy()
