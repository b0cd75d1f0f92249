"""The intervals of a coordinator and its recovery."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals of a coordinator and its recovery, in seconds."""

    #: Seconds between two runs of recovery.
    interval: float = 1.0
    #: How long a process counts as alive after its last heartbeat. Then its undecided transactions are rolled back.
    lease: float = 5.0
    #: Age below which recovery ignores a prepared branch, because its coordinator is probably about to finish it.
    grace: float = 1.0
