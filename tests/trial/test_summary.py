"""The table over several trials: what it counts, and when all is right."""

from __future__ import annotations

import pytest

from mercury.trial.built_in import Deployment, scenario
from mercury.trial.judging import Finding, Gaps, Verdict
from mercury.trial.result import BranchResult, TrialResult
from mercury.trial.tree import branches
from tests.trial.summary import HEAD, is_right, table

NOTHING = Finding()
TREE = branches(scenario(Deployment.PAIR))


def result(*verdicts: Verdict, planned: int | None = None, stream: Finding = NOTHING, left: int = 0) -> TrialResult:
    """A trial with branches of four messages, each with a time to fail over of its number in seconds."""
    found = [
        BranchResult(branch, verdict, gaps=Gaps(0.2, float(number), 3), sent=4)
        for number, (branch, verdict) in enumerate(zip(TREE, verdicts, strict=False), 1)
    ]
    made = TrialResult("pair", found, len(found) if planned is None else planned, 1, 60.0, 1.0, 3.0)
    made.stream, made.streamed, made.left = stream, 10, left
    return made


def cells(line: str) -> dict[str, str]:
    return dict(zip((each.replace(" ", "-") for each in HEAD), line.split(), strict=True))


def test_each_trial_has_a_line_and_all_together_have_one() -> None:
    one, other = result(Verdict.RIGHT, Verdict.SLOW), result(Verdict.RIGHT, Verdict.RIGHT, Verdict.RIGHT)
    first, second, both = map(cells, table([one, other])[1:])
    assert (first["branches"], first["right"], first["slow"], first["max"]) == ("2", "1", "1", "2.00")
    assert second["right"] == "3"
    assert (both["kind"], both["branches"], both["right"], both["messages"]) == ("all", "5", "4", "40")
    assert (both["p50"], both["max"], both["minutes"]) == ("2.00", "3.00", "2.0")


def test_messages_are_counted_by_their_defects_in_branches_answers_and_streams() -> None:
    made = result(Verdict.LOST, Verdict.RIGHT, stream=Finding(lost=(7,), repeated=(8, 9)), left=3)
    made.branches[0].finding, made.branches[0].answers = Finding(lost=(1, 2)), Finding(altered=(1,))
    counted = cells(table([made])[1])
    assert [counted[name] for name in ("lost", "repeated", "altered", "left")] == ["3", "2", "1", "3"]


def test_a_branch_that_did_not_run_is_not_right() -> None:
    made = result(Verdict.RIGHT, Verdict.NOT_REACHED, planned=3)
    assert cells(table([made])[1])["not-run"] == "2"
    assert not is_right([made])
    assert not is_right([result(Verdict.RIGHT, planned=2)])
    assert not is_right([])


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.RIGHT])
def test_all_is_right_only_if_every_branch_is(verdict: Verdict) -> None:
    assert is_right([result(Verdict.RIGHT), result(Verdict.RIGHT)])
    assert not is_right([result(Verdict.RIGHT), result(Verdict.RIGHT, verdict)])


def test_a_defect_of_the_stream_and_messages_that_are_left_are_not_right() -> None:
    assert not is_right([result(Verdict.RIGHT, stream=Finding(repeated=(1,)))])
    assert not is_right([result(Verdict.RIGHT, left=1)])
