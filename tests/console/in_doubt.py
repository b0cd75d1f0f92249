"""Transactions that a process has left in doubt, in real databases."""

from __future__ import annotations

import pytest

from tests.xa.places import Places, work
from tests.xa.test_recovery import Killed, die_after


def leave_in_doubt(places: Places) -> None:
    """One process dies before its decision, another after it: two transactions stay prepared."""
    for number, step in ((1, "prepare"), (2, "commit_decision")):
        with places.process() as coordinator:
            die_after(coordinator, step)
            tx = coordinator.transaction()
            tx._roll_back = lambda: None  # type: ignore[method-assign]
            with pytest.raises(Killed), tx:
                work(tx, number)
