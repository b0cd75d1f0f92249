"""Detects growth of the memory of long-running processes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

MIB = 2**20
#: Seconds between two samples.
EVERY = 5.0
#: The share of the samples at the start that is ignored; the fewest samples for a judgement.
WARM_UP, FEWEST = 0.3, 60
#: The allowed growth from the first third of the other samples to the last: a share, plus bytes.
SHARE, BYTES = 0.08, 8 * MIB


@dataclass(slots=True)
class Memory:
    """The samples of one process."""

    name: str
    pid: int
    samples: list[int] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        return len(self.samples) >= FEWEST

    @property
    def compared(self) -> tuple[int, int]:
        """The median of the first third of the samples after the warm-up, and of the last third."""
        return compared(self.samples)

    @property
    def flat(self) -> bool:
        first, last = self.compared
        return last - first <= max(SHARE * first, BYTES)

    def __str__(self) -> str:
        if not self.samples:
            return f"{self.name}: no samples"
        if not self.enough:
            return f"{self.name}: {self.samples[-1] / MIB:.1f} MiB, too few samples"
        first, last = self.compared
        verdict = "flat" if self.flat else "IT GROWS"
        life = len(self.samples) * EVERY / 60
        return f"{self.name} (ran {life:.0f} min): {first / MIB:.1f} MiB early, {last / MIB:.1f} MiB late: {verdict}"


def compared(samples: Sequence[int]) -> tuple[int, int]:
    """See `Memory.compared`."""
    warm = samples[int(len(samples) * WARM_UP) :]
    third = max(1, len(warm) // 3)
    return int(statistics.median(warm[:third])), int(statistics.median(warm[-third:]))
