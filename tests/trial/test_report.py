"""The report of a trial: what it says, and that it shows texts of programs as texts."""

from __future__ import annotations

from mercury.trial.built_in import Deployment, scenario
from mercury.trial.judging import Finding, Gaps, Verdict
from mercury.trial.report import page, sentence
from mercury.trial.result import BranchResult, Moments, TrialResult
from mercury.trial.tree import branches

PAIR = branches(scenario(Deployment.PAIR))


def result(*verdicts: Verdict, detail: str = "", planned: int | None = None) -> TrialResult:
    moments = Moments(((0.1, "<b>SIGKILL</b> to server-a"),), (0.2, 1.6), (0.05, 0.15, 1.55, 1.65), 0.3, 2.0)
    found = [
        BranchResult(branch, verdict, gaps=Gaps(0.1, 1.4, 3), moments=moments, detail=detail)
        for branch, verdict in zip(PAIR, verdicts, strict=False)
    ]
    return TrialResult("a <scenario>", found, planned or len(found), 1, 60.0, 1.0, 3.0, streamed=10)


def test_texts_of_programs_are_shown_as_texts() -> None:
    html = page(result(Verdict.LOST, detail="<script>alert(1)</script>"))
    assert "<script" not in html
    assert "&lt;b&gt;SIGKILL&lt;/b&gt; to server-a" in html
    assert "a &lt;scenario&gt;" in html


def test_each_branch_has_its_verdict_and_its_timeline_with_the_fault() -> None:
    html = page(result(Verdict.RIGHT, Verdict.LOST, Verdict.NOT_REACHED))
    assert html.count('<svg class="time"') == 3
    assert html.count('<line class="fault" x1="135.0"') == 3
    assert html.count('class="gap"') == 3
    for verdict in (Verdict.RIGHT, Verdict.LOST, Verdict.NOT_REACHED):
        assert f">{verdict.value}</span>" in html


def test_the_sentence_says_the_worst_first() -> None:
    assert sentence(result(Verdict.RIGHT)) == "Nothing was lost, repeated, altered or out of order in 1 branches."
    assert sentence(result(Verdict.RIGHT, Verdict.LOST)) == "1 of 2 branches are wrong."
    assert sentence(result(Verdict.RIGHT, planned=3)).endswith("2 more did not run.")
    assert sentence(result(Verdict.RIGHT, Verdict.SLOW)).endswith("in 2 branches. 1 took longer than permitted.")
    assert "1 could not run to their end" in sentence(result(Verdict.FAILED))
    streamed = result(Verdict.RIGHT)
    streamed.stream = Finding(repeated=(7,))
    assert sentence(streamed) == "The steady stream is wrong: repeated: 7."
    assert streamed.is_wrong


def test_a_trial_is_complete_when_every_branch_ran_to_its_end() -> None:
    assert result(Verdict.RIGHT, Verdict.LOST).is_complete
    assert not result(Verdict.RIGHT, planned=2).is_complete
    assert not result(Verdict.NOT_REACHED).is_complete
    assert not result(Verdict.FAILED).is_wrong


def test_a_trial_without_branches_has_a_report() -> None:
    assert "0 of 4 branches" in page(result(planned=4))
