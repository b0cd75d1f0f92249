"""Errors that the client's application catches are counted, reported, and classified."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy.exc import OperationalError

from mercury.errors import OutcomeUnknown, TransientStorageError
from mercury.storage.application import Ending
from tests.chaos.caught import counted, described, wrong
from tests.chaos.cells import matrix
from tests.chaos.driver import Result
from tests.chaos.report import as_json, totals

DRIVER = OperationalError("select 1", {}, Exception("the connection is lost"))
AGAIN = TransientStorageError("again")
CELL = next(cell for cell in matrix() if not cell.never)


@pytest.mark.parametrize(
    ("error", "ending", "at_commit", "bad"),
    [
        pytest.param(AGAIN, Ending.ROLLED_BACK, True, False, id="the commit was rolled back"),
        pytest.param(OutcomeUnknown("?"), Ending.UNKNOWN, True, False, id="the outcome is unknown"),
        pytest.param(DRIVER, Ending.ROLLED_BACK, False, False, id="a statement of the application's own failed"),
        pytest.param(DRIVER, Ending.COMMITTED, True, True, id="the driver's error after the decision"),
        pytest.param(AGAIN, Ending.COMMITTED, True, True, id="a transient error after the commit"),
        pytest.param(DRIVER, Ending.ROLLED_BACK, True, True, id="the driver's error from the commit"),
    ],
)
def test_an_error_that_no_application_should_see_is_wrong(
    error: Exception, ending: Ending, at_commit: bool, bad: bool
) -> None:
    caught = counted([f"sent\n{described(error, ending, at_commit=at_commit)}\ndone\n"])
    assert sum(caught.values()) == 1
    assert bool(wrong(caught)) is bad


def test_caught_errors_are_in_the_report() -> None:
    result = Result(cell=CELL, caught=Counter({"TransientStorageError": 2}))
    assert totals([CELL], [result, result])["caught by the client: TransientStorageError"] == 4
    assert as_json(0, [CELL], [result])["cells"][0]["caught"] == {"TransientStorageError": 2}
