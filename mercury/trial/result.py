"""What a trial has found: the result of each branch, and of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mercury.trial.judging import UNKNOWN, Finding, Gaps, Verdict
from mercury.trial.tree import Branch


@dataclass(frozen=True, slots=True)
class Moments:
    """When things have happened in a branch, in seconds from its beginning."""

    #: With what happened.
    events: tuple[tuple[float, str], ...] = ()
    #: The arrivals of its messages and of the stream's.
    arrivals: tuple[float, ...] = ()
    stream: tuple[float, ...] = ()
    #: The first fault; ``None`` = it was not set.
    fault: float | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class BranchResult:
    """The result of one branch."""

    branch: Branch
    verdict: Verdict
    #: Of its messages, and of their answers.
    finding: Finding = field(default_factory=Finding)
    answers: Finding = field(default_factory=Finding)
    gaps: Gaps = field(default_factory=Gaps)
    moments: Moments = field(default_factory=Moments)
    #: How many messages it has sent.
    sent: int = 0
    #: Why it could not run, or what is wrong, in words.
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "branch": self.branch.name,
            "key": self.branch.key,
            "step": self.branch.step.name,
            "moment": self.branch.moment.value,
            "faults": [str(action) for action in self.branch.actions],
            "content": self.branch.content.name,
            "verdict": self.verdict.value,
            "detail": self.detail,
            "seconds": round(self.moments.seconds, 3),
            "gap": {"p50": round(self.gaps.p50, 3), "max": round(self.gaps.longest, 3)},
            "events": [[round(at, 3), what] for at, what in self.moments.events],
        }


@dataclass(slots=True)
class TrialResult:
    """The result of a trial."""

    scenario: str
    #: Of those that ran, in the order of the tree.
    branches: list[BranchResult]
    #: How many were to run.
    planned: int
    seed: int
    seconds: float
    lease: float
    limit: float | None
    #: Of the steady stream over the whole trial.
    stream: Finding = field(default_factory=Finding)
    streamed: int = 0
    #: How many messages were left in stores that should be empty at the end.
    left: int = 0
    #: How many branches were run a second time, because their step was not reached.
    again: int = 0
    #: The trial was interrupted.
    interrupted: bool = False
    #: The machine: processors, and processes that wanted one, on average over the last 15 minutes or less.
    processors: int = 0
    load: float = 0.0

    @property
    def counts(self) -> dict[Verdict, int]:
        counted = Counter(each.verdict for each in self.branches)
        return {verdict: counted[verdict] for verdict in Verdict}

    @property
    def gaps(self) -> list[float]:
        """The times to fail over of the branches whose stream flowed, ascending, in seconds."""
        return sorted(each.gaps.longest for each in self.branches if each.gaps.count and each.verdict not in UNKNOWN)

    @property
    def is_wrong(self) -> bool:
        """The deployment has broken a guarantee: in a branch, in the stream, or because something was left."""
        wrong = any(each.verdict.is_wrong for each in self.branches)
        return wrong or self.stream.verdict.is_wrong or self.left > 0

    @property
    def is_complete(self) -> bool:
        """Every planned branch ran, and its fault was set."""
        return len(self.branches) == self.planned and not any(each.verdict in UNKNOWN for each in self.branches)

    def as_json(self) -> dict[str, Any]:
        gaps = self.gaps
        return {
            "scenario": self.scenario,
            "planned": self.planned,
            "ran": len(self.branches),
            "interrupted": self.interrupted,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "machine": {"processors": self.processors, "load": round(self.load, 1)},
            "verdicts": {verdict.value: count for verdict, count in self.counts.items()},
            "stream": {"messages": self.streamed, "verdict": self.stream.verdict.value, "detail": str(self.stream)},
            "left": self.left,
            "again": self.again,
            "failover": {
                "lease": self.lease,
                "limit": self.limit,
                "p50": round(median(gaps), 3),
                "max": round(max(gaps, default=0.0), 3),
            },
            "branches": [each.as_json() for each in self.branches],
        }


def median(values: Sequence[float]) -> float:
    return values[len(values) // 2] if values else 0.0
