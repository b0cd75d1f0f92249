"""The verdicts: what each defect of the rows is called, and how the time to fail over is measured."""

from __future__ import annotations

import pytest

from mercury.trial.judging import UNKNOWN, WRONG, ArrivedRow, Finding, Sent, Verdict, gaps, judge

SENT = [Sent(number, f"sum {number}") for number in (1, 2, 3, 4)]


def arrived(*numbers: int) -> list[ArrivedRow]:
    return [ArrivedRow(number, f"sum {number}") for number in numbers]


@pytest.mark.parametrize(
    ("rows", "verdict", "said"),
    [
        (arrived(1, 2, 3, 4), Verdict.RIGHT, ""),
        (arrived(1, 2, 4), Verdict.LOST, "lost: 3"),
        ([], Verdict.LOST, "lost: 1, 2, 3, 4"),
        (arrived(1, 2, 2, 3, 4), Verdict.REPEATED, "repeated: 2"),
        # What is repeated after others is not out of order too.
        (arrived(1, 2, 3, 4, 2), Verdict.REPEATED, "repeated: 2"),
        (arrived(1, 3, 2, 4), Verdict.DISORDERED, "out of order: 2"),
        (arrived(4, 1, 2, 3), Verdict.DISORDERED, "out of order: 1, 2, 3"),
        ([*arrived(1, 2, 3), ArrivedRow(4, "other")], Verdict.ALTERED, "altered: 4"),
        (arrived(1, 2, 3, 4, 9), Verdict.UNEXPECTED, "unexpected: 9"),
        # The worst is the verdict; the text has all.
        (arrived(1, 4, 3, 3), Verdict.LOST, "lost: 2; repeated: 3; out of order: 3"),
    ],
)
def test_each_defect_has_its_verdict(rows: list[ArrivedRow], verdict: Verdict, said: str) -> None:
    found = judge(SENT, rows)
    assert (found.verdict, str(found)) == (verdict, said)


def test_only_a_message_that_may_expire_may_be_missing() -> None:
    sent = [Sent(1, "sum 1", expires=True), Sent(2, "sum 2")]
    found = judge(sent, arrived(2))
    assert (found.verdict, found.expired, str(found)) == (Verdict.RIGHT, (1,), "expired, as permitted: 1")
    assert judge(sent, arrived(1)).lost == (2,)


def test_long_lists_of_numbers_are_cut() -> None:
    assert str(Finding(lost=tuple(range(1, 13)))) == "lost: 1, 2, 3, 4, 5, 6, 7, 8 and 4 more"


def test_each_verdict_is_right_wrong_or_unknown_and_explained() -> None:
    assert {Verdict.RIGHT} == set(Verdict) - WRONG - UNKNOWN
    assert set() == WRONG & UNKNOWN
    assert all(verdict.sentence for verdict in Verdict)


def test_time_to_fail_over_is_the_longest_gap_after_the_fault() -> None:
    times = [0.0, 3.0, 3.1, 3.2, 3.3, 4.8, 5.0]  # the gap from 0 to 3 was before the fault
    found = gaps(times, fault_at=3.25)
    assert found.longest == pytest.approx(1.5)
    assert found.p50 == pytest.approx(0.2)


def test_time_to_fail_over_counts_from_the_fault() -> None:
    assert gaps([0.0, 5.0, 5.1], fault_at=4.0).longest == pytest.approx(1.0)  # a large message held the stream back
    assert gaps([5.0, 5.1], fault_at=2.0).longest == pytest.approx(3.0)


def test_without_arrivals_there_is_no_gap() -> None:
    assert gaps([], fault_at=1.0).count == 0
    assert gaps([1.5], fault_at=1.0).count == 0
