"""The results of several trials as one table, and whether they keep what Mercury promises. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mercury.trial.judging import UNKNOWN, Finding, Verdict
from mercury.trial.result import TrialResult, median

HEAD = (
    *("kind", "branches", "right", "slow", "two serve", "not run", "messages", "lost", "repeated", "altered"),
    *("not sent", "out of order", "left", "p50", "max", "minutes"),
)


def table(results: Sequence[TrialResult]) -> list[str]:
    """A head, a line for each trial, and their sums: branches, then messages, then the times to fail over in seconds.

    *not run* are branches in which the fault could not be set, or that were not reached. The messages are those of the
    branches with a verdict, their answers, and those of the streams.
    """
    rows = [HEAD, *(_row(each.scenario, [each]) for each in results)]
    if len(results) > 1:
        rows.append(_row("all", results))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return [
        "  ".join(cell.ljust(width) if not number else cell.rjust(width)
                  for number, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]  # fmt: skip


def is_right(results: Sequence[TrialResult]) -> bool:
    """Every planned branch was run to its end and is right, and so are the streams, and nothing was left."""
    return bool(results) and all(each.is_complete and not each.is_wrong for each in results)


def _row(name: str, results: Sequence[TrialResult]) -> tuple[str, ...]:
    branches = [branch for each in results for branch in each.branches]
    ran = [branch for branch in branches if branch.verdict not in UNKNOWN]
    findings = [finding for branch in branches for finding in (branch.finding, branch.answers)]
    findings += [each.stream for each in results]
    gaps = sorted(gap for each in results for gap in each.gaps)

    def verdicts(verdict: Verdict) -> int:
        return sum(branch.verdict is verdict for branch in branches)

    def messages(defect: Callable[[Finding], Sequence[int]]) -> int:
        return sum(len(defect(each)) for each in findings)

    numbers = (
        *(len(branches), verdicts(Verdict.RIGHT), verdicts(Verdict.SLOW), verdicts(Verdict.SPLIT)),
        sum(each.planned for each in results) - len(ran),
        sum(branch.sent for branch in ran) + sum(each.streamed for each in results),
        *(messages(lambda each: each.lost), messages(lambda each: each.repeated)),
        *(messages(lambda each: each.altered), messages(lambda each: each.unexpected)),
        *(messages(lambda each: each.disordered), sum(each.left for each in results)),
    )
    times = (
        f"{median(gaps):.2f}",
        f"{max(gaps, default=0.0):.2f}",
        f"{sum(each.seconds for each in results) / 60:.1f}",
    )
    return (name, *(f"{number:,}" for number in numbers), *times)
