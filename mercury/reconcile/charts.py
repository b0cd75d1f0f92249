"""The report's plots, as inline SVG. Colours come from the page's style sheet."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from html import escape

from mercury.reconcile.result import Latency, Timeline

WIDTH, HEIGHT = 520, 210
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 30
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

#: The number of the latency's bins in a decade, of equal width on the logarithmic scale.
PER_DECADE = 8
#: Possible steps between ticks of the time axis, in seconds.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def delivery(timeline: Timeline, moments: Sequence[tuple[float, str]] = ()) -> str:
    """The plot of the rows sent and of the rows arrived up to each moment. The distance between the
    lines is the number of rows on their way.

    :param moments: events that get a vertical line, each a time in seconds since the epoch and a label.
    """
    bins = sorted(timeline.sent.keys() | timeline.arrived.keys())
    if not bins:
        return ""
    first, last = bins[0], bins[-1] + 1
    curves = [
        ("arrived", _cumulated(timeline.arrived.items(), first)),
        ("sent", _cumulated(timeline.sent.items(), first)),
    ]
    highest = max(curve[-1][1] for _, curve in curves)
    top, parts = _count_axis(highest)

    def place(number: int, count: int) -> tuple[float, float]:
        return LEFT + INNER_WIDTH * (number - first) / (last - first), TOP + INNER_HEIGHT * (1 - count / top)

    for label, at in _time_ticks(first * timeline.width, last * timeline.width):
        x = LEFT + INNER_WIDTH * (at / timeline.width - first) / (last - first)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(label)}</text>')
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + INNER_HEIGHT}"/>')
    for name, curve in curves:
        points = [place(*point) for point in [*curve, (last, curve[-1][1])]]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if name == "arrived":
            floor = TOP + INNER_HEIGHT
            parts.append(f'<polygon class="area" points="{LEFT:.1f},{floor} {line} {points[-1][0]:.1f},{floor}"/>')
        parts.append(f'<polyline class="line {name}" points="{line}"><title>{name}</title></polyline>')
    for when, what in moments:
        if first <= when / timeline.width <= last:
            x = LEFT + INNER_WIDTH * (when / timeline.width - first) / (last - first)
            line = f'<line class="moment" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + INNER_HEIGHT}">'
            parts.append(f"{line}<title>{escape(what)}</title></line>")
    return _svg("Rows sent and arrived over time", parts)


def latency(found: Latency) -> str:
    """The histogram of the time from sent to arrived, on a logarithmic scale."""
    # The clocks of two machines differ: rows that arrived before they were sent count in the first bin.
    counts: dict[int, int] = {}
    for seconds in found.seconds:
        number = math.floor(math.log10(max(seconds, 1e-4)) * PER_DECADE)
        counts[number] = counts.get(number, 0) + 1
    first, last = min(counts) - 1, max(counts) + 1
    top, parts = _count_axis(max(counts.values()))
    step = INNER_WIDTH / (last - first + 1)
    for number, count in sorted(counts.items()):
        height = INNER_HEIGHT * count / top
        low, high = (duration(10 ** (each / PER_DECADE)) for each in (number, number + 1))
        parts.append(
            f'<rect class="bar" x="{LEFT + (number - first) * step + 1:.1f}" y="{TOP + INNER_HEIGHT - height:.1f}" '
            f'width="{max(1.0, step - 2):.1f}" height="{height:.1f}" rx="1.5">'
            f"<title>{low} to {high}: {count:,} rows</title></rect>"
        )
    for at in _decades(first, last + 1):
        x = LEFT + (math.log10(at) * PER_DECADE - first) * step
        label = duration(at)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{label}</text>')
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        at = math.log10(max(found.quantile(share), 1e-4)) * PER_DECADE
        x = LEFT + (at - first) * step
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + INNER_HEIGHT}"/>')
        # p50 is left of its line and p95 right of its own, so that they do not overlap when the lines are close.
        left = x > WIDTH * 0.85 or (name == "p50" and x > LEFT + 30)
        offset, anchor = (-4, "end") if left else (4, "start")
        text = f'<text class="marked" x="{x + offset:.1f}" y="{TOP + 10}" text-anchor="{anchor}">{name}</text>'
        parts.append(text)
    return _svg("Distribution of the time from sent to arrived", parts)


def _decades(first: int, last: int) -> list[float]:
    """Round seconds between two bins: powers of ten, and more between them when there are few."""
    powers = range(first // PER_DECADE - 1, last // PER_DECADE + 2)
    factors = (1, 2, 5) if last - first <= 2 * PER_DECADE else (1,)
    found = (factor * 10.0**power for power in powers for factor in factors)
    return [at for at in found if first <= math.log10(at) * PER_DECADE <= last]


def duration(seconds: float) -> str:
    """A duration as text, with a unit and two significant digits."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7200.0, 1 / 60, "min")):
        if abs(seconds) < limit:
            return f"{_short(seconds * factor)} {unit}"
    return f"{_short(seconds / 3600)} h"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.1f}"


def _cumulated(bins: Iterable[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    total, curve = 0, [(first, 0)]
    for number, count in sorted(bins):
        # The curve is level up to the bin's beginning and rises up to its end.
        curve.append((number, total))
        total += count
        curve.append((number + 1, total))
    return curve


def _count_axis(highest: int) -> tuple[float, list[str]]:
    """The value at the top of the axis, and the axis."""
    step = _round_step(highest / 4)
    top = step * max(1, math.ceil(highest / step))
    parts = []
    for index in range(round(top / step) + 1):
        y = TOP + INNER_HEIGHT * (1 - index * step / top)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{index * step:,.0f}</text>')
    return top, parts


def _round_step(wanted: float) -> float:
    magnitude = 10 ** math.floor(math.log10(max(wanted, 1)))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= wanted) if wanted > 1 else 1


def _time_ticks(first: int, last: int) -> list[tuple[str, int]]:
    days = 86_400
    step = next((each for each in _STEPS if (last - first) / each <= 7), None)
    if step is None:
        step = days * math.ceil((last - first) / days / 7)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < days and last - first <= days else "%m-%d %H:%M"
    form = "%Y-%m-%d" if step >= days else form
    found = range(-(-first // step) * step, last + 1, step)
    return [(datetime.datetime.fromtimestamp(at, datetime.UTC).strftime(form), at) for at in found]


def _svg(title: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
