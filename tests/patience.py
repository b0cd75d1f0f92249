"""How long a test waits for what must happen: long enough for a busy machine."""

from __future__ import annotations

import os

#: Seconds that limit every wait; set for mutants, whose tests may wait in vain.
VARIABLE = "TESTS_PATIENCE"


def patience(seconds: float) -> float:
    """The limit of a wait, in seconds."""
    return min(seconds, float(os.environ.get(VARIABLE, seconds)))
