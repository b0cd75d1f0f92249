"""The report of a trial: one HTML file that loads no other file.

`report.html.j2` is the template of the page; this module computes its variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from markupsafe import Markup, escape

from mercury.reports import page as report_page
from mercury.trial.judging import UNKNOWN, Verdict
from mercury.trial.result import BranchResult, TrialResult, median

#: The drawing of a timeline, in pixels.
WIDTH, HEIGHT = 900, 64
#: The bars of the histogram of times to fail over.
BARS = 24


def write_report(result: TrialResult, file: Path) -> None:
    """Write the report.

    :raises ConfigurationError: the file cannot be written.
    """
    report_page.write(page(result), file)


def page(result: TrialResult) -> str:
    """The whole HTML."""
    return (
        report_page.environment("mercury.trial")
        .get_template("report.html.j2")
        .render(
            result=result,
            sentence=sentence(result),
            tiles=tiles(result),
            steps=[
                _Step(name, list(each)) for name, each in groupby(result.branches, lambda each: each.branch.step.name)
            ],
            histogram=histogram(result),
            median=median(result.gaps),
            longest=max(result.gaps, default=0.0),
            explained=[(verdict, verdict.sentence) for verdict in Verdict],
            style=style,
            timeline=timeline,
        )
    )


def sentence(result: TrialResult) -> str:
    """The result in one or two sentences."""
    ran, slow = len(result.branches), result.counts[Verdict.SLOW]
    wrong = sum(each.verdict.is_wrong for each in result.branches) - slow
    rest = "" if ran == result.planned else f" {result.planned - ran:,} more did not run."
    unknown = sum(each.verdict in UNKNOWN for each in result.branches)
    if unknown:
        rest += f" {unknown:,} could not run to their end."
    if wrong:
        return f"{wrong:,} of {ran:,} branches are wrong.{rest}"
    if result.stream.verdict.is_wrong:
        return f"The steady stream is wrong: {result.stream}.{rest}"
    if result.left:
        return f"{result.left:,} messages were left in a store that should be empty.{rest}"
    late = f" {slow:,} took longer than permitted." if slow else ""
    return f"Nothing was lost, repeated, altered or out of order in {ran - unknown:,} branches.{late}{rest}"


def style(verdict: Verdict) -> str:
    """The style of a verdict."""
    if verdict is Verdict.RIGHT:
        return "good"
    return "wait" if verdict in UNKNOWN or verdict is Verdict.SLOW else "bad"


def tiles(result: TrialResult) -> list[tuple[str, int, str]]:
    """The style, count and name of each figure at the top."""
    return [(style(verdict), count, verdict.value) for verdict, count in reversed(result.counts.items())]


@dataclass(frozen=True, slots=True)
class _Step:
    """The branches of one step."""

    name: str
    branches: list[BranchResult]

    @property
    def moments(self) -> list[tuple[str, list[BranchResult]]]:
        grouped = groupby(self.branches, lambda each: each.branch.moment.value)
        return [(name, list(each)) for name, each in grouped]

    @property
    def wrong(self) -> int:
        return sum(each.verdict.is_wrong for each in self.branches)


# --- drawings --------------------------------------------------------------------------------------------------------


def timeline(result: BranchResult) -> Markup:
    """The time of a branch from left to right: the stream's arrivals, the branch's messages, the fault, the gap."""
    moments = result.moments
    if not moments.seconds:
        return Markup("")
    scale = WIDTH / moments.seconds
    parts = [f'<line class="grid" x1="0" x2="{WIDTH}" y1="40" y2="40"/>']
    gap = _gap(result)
    if gap is not None:
        begin, end = gap
        parts.append(
            f'<rect class="gap" x="{begin * scale:.1f}" y="8" width="{(end - begin) * scale:.1f}" height="32"/>'
        )
    for at in moments.stream:
        if 0 <= at <= moments.seconds:
            parts.append(f'<line class="stream" x1="{at * scale:.1f}" x2="{at * scale:.1f}" y1="26" y2="40"/>')
    for at in moments.arrivals:
        parts.append(f'<circle class="arrival" cx="{at * scale:.1f}" cy="18" r="4"/>')
    for at, what in moments.events:
        parts.append(
            f'<line class="event" x1="{at * scale:.1f}" x2="{at * scale:.1f}" y1="36" y2="46">'
            f"<title>{at:.2f} s: {escape(what)}</title></line>"
        )
    if moments.fault is not None:
        parts.append(
            f'<line class="fault" x1="{moments.fault * scale:.1f}" x2="{moments.fault * scale:.1f}" y1="4" y2="46"/>'
        )
    for second in range(0, int(moments.seconds) + 1, max(1, int(moments.seconds / 8))):
        anchor = "start" if second == 0 else "middle"
        parts.append(f'<text x="{second * scale:.1f}" y="60" text-anchor="{anchor}">{second} s</text>')
    return Markup(  # noqa: S704 - numbers, and what is escaped
        f'<svg class="time" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="timeline">{"".join(parts)}</svg>'
    )


def _gap(result: BranchResult) -> tuple[float, float] | None:
    """The longest gap of the stream from the fault on: from, to."""
    fault = result.moments.fault
    if fault is None or not result.gaps.count:
        return None
    times = [fault, *(at for at in result.moments.stream if at >= fault)]
    pairs = list(pairwise(times))
    begin, end = max(pairs, key=lambda pair: pair[1] - pair[0], default=(0.0, 0.0))
    return (max(begin, 0.0), end) if end > begin else None


def histogram(result: TrialResult) -> Markup:
    """How many branches failed over in which time, with the lease and the limit."""
    found = result.gaps
    if not found:
        return Markup("")
    most = max(found[-1], result.limit or 0.0, result.lease) * 1.05
    counts = [0] * BARS
    for each in found:
        counts[min(int(each / most * BARS), BARS - 1)] += 1
    width, high = WIDTH / BARS, max(counts)
    parts = []
    for index, count in enumerate(counts):
        height = 110 * count / high
        parts.append(
            f'<rect class="bar" x="{index * width + 1:.1f}" y="{124 - height:.1f}" width="{width - 2:.1f}" '
            f'height="{height:.1f}"><title>{count} branches</title></rect>'
        )
    parts.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="124" y2="124"/>')
    parts += _marks(most, [(result.lease, "lease"), *([(result.limit, "limit")] if result.limit is not None else [])])
    for second in range(0, int(most) + 1, max(1, int(most / 12))):
        anchor = "start" if second == 0 else "middle"
        parts.append(f'<text x="{second / most * WIDTH:.1f}" y="140" text-anchor="{anchor}">{second} s</text>')
    return Markup(  # noqa: S704 - numbers only
        f'<svg viewBox="0 0 {WIDTH} 146" role="img" aria-label="times to fail over">{"".join(parts)}</svg>'
    )


def _marks(most: float, marks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for row, (at, name) in enumerate(marks):
        x, y = at / most * WIDTH, 14 + 16 * row
        anchor, shift = ("end", -5) if x > WIDTH / 2 else ("start", 5)
        parts.append(f'<line class="fault" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="124"/>')
        parts.append(f'<text class="marked" x="{x + shift:.1f}" y="{y}" text-anchor="{anchor}">{name} {at:g} s</text>')
    return parts
