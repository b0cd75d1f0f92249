"""Gives a branch its verdict: compares the rows that were to be sent with those that arrived.

Pure: the rows are arguments.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


class Verdict(enum.Enum):
    """The verdict on a branch: the first that applies, in this order."""

    #: The fault could not be set, or the programs could not be started again: nothing is known.
    FAILED = "failed"
    #: The step of the branch did not happen within the time limit, so that no fault was set.
    NOT_REACHED = "not reached"
    #: A message has not arrived.
    LOST = "lost"
    #: A message has arrived more often than it was sent.
    REPEATED = "repeated"
    #: A message has arrived with another content.
    ALTERED = "altered"
    #: A message has arrived that was not sent.
    UNEXPECTED = "unexpected"
    #: All have arrived, not in the order of sending.
    DISORDERED = "out of order"
    #: Two members served at the same time for longer than a lease, although one should; or one that was replaced has
    #: written.
    SPLIT = "two serve"
    #: All is right, but the stream stood still for longer than the scenario permits.
    SLOW = "slow"
    RIGHT = "right"

    @property
    def is_wrong(self) -> bool:
        """The deployment has broken a guarantee."""
        return self in WRONG

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


#: What exit code 1 is for; branches that could not run are exit code 2.
WRONG = frozenset(
    {
        *(Verdict.LOST, Verdict.REPEATED, Verdict.ALTERED, Verdict.UNEXPECTED, Verdict.DISORDERED),
        *(Verdict.SPLIT, Verdict.SLOW),
    }
)
UNKNOWN = frozenset({Verdict.FAILED, Verdict.NOT_REACHED})

_SENTENCES = {
    Verdict.FAILED: "The branch could not run to its end.",
    Verdict.NOT_REACHED: "The step did not happen, so no fault was set.",
    Verdict.LOST: "A message has not arrived.",
    Verdict.REPEATED: "A message has arrived more often than it was sent.",
    Verdict.ALTERED: "A message has arrived with another content.",
    Verdict.UNEXPECTED: "A message has arrived that was not sent.",
    Verdict.DISORDERED: "All have arrived, not in the order of sending.",
    Verdict.SPLIT: "Two members served at the same time, or one that was replaced has written.",
    Verdict.SLOW: "All is right, but it took longer than the scenario permits.",
    Verdict.RIGHT: "All have arrived once, unaltered and in order.",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was to be sent. One that ``expires`` may be missing."""

    number: int
    checksum: str = ""
    expires: bool = False


@dataclass(frozen=True, slots=True)
class ArrivedRow:
    """A row of the receiver's table, in the order of arrival."""

    number: int
    checksum: str = ""
    #: Seconds since the epoch; ``None`` = the table has no times.
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The numbers of the messages with each defect; all empty = right."""

    lost: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    altered: tuple[int, ...] = ()
    unexpected: tuple[int, ...] = ()
    disordered: tuple[int, ...] = ()
    #: Not defects: those that were permitted to expire, and did not arrive.
    expired: tuple[int, ...] = ()

    @property
    def verdict(self) -> Verdict:
        for verdict, numbers in self.defects().items():
            if numbers:
                return verdict
        return Verdict.RIGHT

    def defects(self) -> dict[Verdict, tuple[int, ...]]:
        """The numbers by verdict, in the order of verdicts."""
        return {
            Verdict.LOST: self.lost,
            Verdict.REPEATED: self.repeated,
            Verdict.ALTERED: self.altered,
            Verdict.UNEXPECTED: self.unexpected,
            Verdict.DISORDERED: self.disordered,
        }

    def __str__(self) -> str:
        parts = [f"{verdict.value}: {_numbers(found)}" for verdict, found in self.defects().items() if found]
        if self.expired:
            parts.append(f"expired, as permitted: {_numbers(self.expired)}")
        return "; ".join(parts)


def judge(sent: Iterable[Sent], arrived: Sequence[ArrivedRow]) -> Finding:
    """Compare what was sent with what arrived, in the order of arrival."""
    known = {each.number: each for each in sent}
    counts = Counter(each.number for each in arrived)
    missing = [number for number in known if not counts[number]]
    first: dict[int, None] = dict.fromkeys(each.number for each in arrived if each.number in known)
    return Finding(
        lost=tuple(sorted(number for number in missing if not known[number].expires)),
        repeated=tuple(sorted(number for number, count in counts.items() if count > 1 and number in known)),
        altered=tuple(
            sorted({a.number for a in arrived if a.number in known and a.checksum != known[a.number].checksum})
        ),
        unexpected=tuple(sorted(number for number in counts if number not in known)),
        disordered=tuple(_behind(first)),
        expired=tuple(sorted(number for number in missing if known[number].expires)),
    )


def _behind(numbers: Iterable[int]) -> Iterable[int]:
    """The numbers that come after a higher one."""
    highest: int | None = None
    for number in numbers:
        if highest is not None and number < highest:
            yield number
        else:
            highest = number


def _numbers(found: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(str(each) for each in found[:most])
    return shown if len(found) <= most else f"{shown} and {len(found) - most} more"


@dataclass(frozen=True, slots=True)
class Gaps:
    """How the steady stream flowed, in seconds between two arrivals."""

    #: The median over the branch, and the longest after the fault.
    p50: float = 0.0
    longest: float = 0.0
    count: int = field(default=0)


def gaps(arrivals: Sequence[float], fault_at: float) -> Gaps:
    """The gaps between the stream's arrivals (seconds since the epoch, ascending). The longest from the fault on is the
    time to fail over: the stream may stand still before it, behind a large message in the same order."""
    since = [fault_at, *(at for at in arrivals if at >= fault_at)]
    between = _between(arrivals)
    if not between:
        return Gaps()
    return Gaps(sorted(between)[len(between) // 2], max(_between(since), default=0.0), len(between))


def _between(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]
