"""Transactions that a process has left in doubt, in real databases."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from mercury.testing.contract.builders import row
from tests.xa.places import Places
from tests.xa.test_recovery import Killed, die_after


def leave_in_doubt(places: Places, at: float) -> None:
    """One process dies before its decision, another after it: two transactions stay prepared.

    :param at: when the messages of both were sent, in seconds since the epoch.
    """
    for number, step in ((1, "prepare"), (2, "commit_decision")):
        with places.process() as coordinator:
            die_after(coordinator, step)
            tx = coordinator.transaction()
            tx._roll_back = lambda: None  # type: ignore[method-assign]
            with pytest.raises(Killed), tx:
                tx.connection("app").execute(text("insert into placed values (:number)"), {"number": number})
                tx.rms.append(row(f"urn:message:{number}", correlation=str(number), created_at=at))
