"""The report: one HTML file that loads no other file.

`report.html.j2` is the template of the page; this module computes its variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from mercury.reconcile import charts
from mercury.reconcile.places import Where
from mercury.reconcile.result import Difference, Result
from mercury.reconcile.verdicts import Verdict, common_start
from mercury.reports import page as report_page

#: The most characters of a value that a cell shows.
SHOWN = 90
#: The most columns whose values a missing, repeated or unexpected row shows.
COLUMNS = 8

#: The places in the order in which a message passes them, with their names on the page.
_STAGES = (
    (Where.NOT_HANDED_OVER, "not yet handed over"),
    (Where.WAITING_IN_RMS, "waiting in the RMS"),
    (Where.IN_FLIGHT, "in flight"),
    (Where.IN_INVOKER_BUFFER, "in the InvokerBuffer"),
    (Where.IN_DOUBT, "in doubt"),
)
_FAILED = ((Where.DEAD_LETTER, "given up: dead letters"), (Where.LOST, "lost"), (Where.UNKNOWN, "at an unknown place"))
_PLACE = dict((*_STAGES, (Where.DEAD_LETTER, "dead letter"), *_FAILED[1:]))

#: The sentence for each verdict, in the order of the page.
_EXPLAINED = {
    Verdict.MISSING: "On the client, and not (or not as often) on the server.",
    Verdict.DUPLICATED: "More often on the server than on the client.",
    Verdict.ALTERED: "Delivered, with another value in a compared column.",
    Verdict.UNEXPECTED: "On the server, and not on the client.",
    Verdict.OUT_OF_ORDER: "Delivered unaltered, but not in order. Without these rows the others are in order.",
}

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def write_report(result: Result, file: Path) -> None:
    """Write the report.

    :raises ConfigurationError: the file cannot be written.
    """
    report_page.write(page(result), file)


def page(result: Result) -> str:
    """The whole HTML."""
    directions = _directions(result)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            result=result,
            verdict="Reconciled" if result.reconciled else "Not reconciled",
            sentence=_sentence(result),
            directions=[_Direction(each) for each in directions],
            method=_method(directions),
        )
    )


def environment() -> Environment:
    """The template's environment."""
    environment = report_page.environment("mercury.reconcile", _finalize)
    environment.filters |= {
        "changes": changes,
        "duration": charts.duration,
        "shortened": _shortened,
        "thousands": "{:,}".format,
    }
    environment.globals |= {
        "failed_places": dict(_FAILED),
        "failed_of": lambda result: [(result.missing[where], name) for where, name in _FAILED if result.missing[where]],
        "columns": COLUMNS,
        "explained": _EXPLAINED,
        "places": _PLACE,
        "unknown": Where.UNKNOWN,
        "stages": _STAGES,
    }
    return environment


def _finalize(value: object) -> object:
    """Leave markup as it is; pass every other text through `visible`, to be escaped after that."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _directions(result: Result) -> list[Result]:
    return [result] + ([result.response] if result.response is not None else [])


def _sentence(result: Result) -> str:
    """The result in one or two sentences."""
    directions = _directions(result)
    rows, waiting = f"{result.client.rows:,} rows", sum(each.under_way for each in directions)
    wrong = sum(each.differing + each.disordered for each in directions) - waiting
    if wrong:
        return f"{wrong:,} {'key' if wrong == 1 else 'keys'} of {rows} did not arrive as they should."
    if waiting:
        return f"Nothing is wrong with {rows}; {waiting:,} {'is' if waiting == 1 else 'are'} still on the way."
    whole = "unaltered and in order" if result.ordered else "and unaltered"
    back = f" All {result.response.client.rows:,} answers came back." if result.response is not None else ""
    return f"All {rows} are on the server, exactly once, {whole}.{back}"


@dataclass(frozen=True, slots=True)
class _Direction:
    """The page's data for one direction."""

    result: Result

    @property
    def tiles(self) -> list[tuple[str, int, str]]:
        """The style, count and name of each figure at the top."""
        result = self.result
        tiles = [
            ("good", result.delivered, "delivered"),
            ("wait", result.under_way, "on their way"),
            ("bad", result.counts[Verdict.MISSING] - result.under_way, "missing"),
            ("bad", result.counts[Verdict.DUPLICATED], "duplicated"),
            ("bad", result.counts[Verdict.ALTERED], "altered"),
            ("bad", result.counts[Verdict.UNEXPECTED], "unexpected"),
        ]
        if result.ordered:
            tiles.append(("bad", result.counts[Verdict.OUT_OF_ORDER] or result.disordered, "out of order"))
        return tiles

    @property
    def delivery(self) -> Markup:
        """The plot of rows over time; empty = the config names no times."""
        timeline = self.result.timeline
        return _plot(charts.delivery(timeline, self.result.moments) if timeline is not None else "")

    @property
    def latency(self) -> Markup:
        """The histogram of the times from sent to arrived; empty = the config names no times."""
        return _plot(charts.latency(self.result.latency) if self.result.latency is not None else "")

    def listed(self, verdict: Verdict) -> list[Difference]:
        """The rows of a verdict that the page shows, sorted by key."""
        return sorted(self.result.listed.get(verdict, []), key=lambda each: (len(each.key), each.key))

    @property
    def elsewhere(self) -> str:
        """Where to find the rows that the page does not show."""
        differences = self.result.differences
        return f"in {differences.name}" if differences is not None else "not listed"


def _plot(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - `charts` writes numbers, and escapes what is text


# --- values ----------------------------------------------------------------------------------------------------------


def changes(each: Difference) -> list[tuple[str, Markup, Markup]]:
    """The name and both values of each column that differs."""
    ours, theirs = each.client or {}, each.server or {}
    return [(name, *contrast(ours.get(name), theirs.get(name))) for name in each.altered]


def contrast(ours: str | None, theirs: str | None) -> tuple[Markup, Markup]:
    """Two values as HTML, with the differing part marked; long values are cut to the text around it."""
    if ours is None or theirs is None or ours == theirs:
        return _value(ours), _value(theirs)
    prefix = common_start(ours, theirs)
    suffix = common_start(ours[prefix:][::-1], theirs[prefix:][::-1])
    return (
        _marked(ours, prefix, suffix, Markup("<mark>{}</mark>")),
        _marked(theirs, prefix, suffix, Markup('<mark class="now">{}</mark>')),
    )


def _value(text: str | None) -> Markup:
    if text is None:
        return Markup('<span class="null">null</span>')
    return Markup("<bdi>{}</bdi>").format(visible(_shortened(text)))


def _marked(text: str, prefix: int, suffix: int, mark: Markup) -> Markup:
    margin = SHOWN // 4
    start, middle, end = text[:prefix], text[prefix : len(text) - suffix], text[len(text) - suffix :] if suffix else ""
    start = start if len(start) <= margin else f"…{start[-margin:]}"
    end = end if len(end) <= margin else f"{end[:margin]}…"
    marked = mark.format(visible(_shortened(middle))) if middle else ""
    return Markup("<bdi>{}{}{}</bdi>").format(visible(start), marked, visible(end))


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


def visible(text: str) -> str:
    """A text whose invisible characters and direction marks are replaced by their code points."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --- how it was done -------------------------------------------------------------------------------------------------


def _method(directions: Sequence[Result]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for each in directions:
        for side in (each.client, each.server):
            lines.append((side.name, f"{side.table} in {side.url}: {side.rows:,} rows, {side.consistency.value}"))
        how = f"computed by Spark's tasks ({each.computed_here})" if each.computed_here else "computed by the databases"
        lines.append(
            (
                "key ranges",
                f"{each.ranges:,} with a checksum each, {how}; {each.ranges_read:,} of them read row by row",
            )
        )
        lines.append(("compared", ", ".join(each.columns) or "the key only"))
        if each.newer:
            lines.append(("newer", f"{each.newer:,} rows that were added after the client's snapshot are not counted"))
    names = [
        each.differences.with_suffix(end).name
        for each in directions
        if each.differences is not None
        for end in (".parquet", ".csv")
    ]
    return [*lines, ("differences", ", ".join(names))] if names else lines
