"""How often a coordinator and its recovery do what they do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of a coordinator and its recovery, in seconds."""

    #: Seconds between two runs of recovery.
    interval: float = 1.0
    #: How long a process is believed to live without a sign of it. Then its undecided transactions are rolled back.
    lease: float = 5.0
    #: How long others leave a branch to its coordinator, which is most likely about to finish it.
    grace: float = 1.0
