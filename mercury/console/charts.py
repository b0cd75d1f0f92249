"""Small charts as SVG: one bar for each minute."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from markupsafe import Markup

#: The width of a minute, and the height of a chart, in pixels.
STEP, HEIGHT = 4, 36


def bars(values: Sequence[tuple[int, float]], unit: str, zone: datetime.tzinfo) -> Markup:
    """Values over time. The highest one fills the height; each says its time and value when it is pointed at.

    :param values: each with its time in seconds since the epoch.
    :param unit: what is counted, for example ``delivered``.
    """
    most = max((value for _, value in values), default=0.0)
    width = STEP * len(values)
    parts = [
        Markup(
            '<svg class="bars" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{} in each of {}'
            ' minutes, at most {}">'
        ).format(width, HEIGHT, width, HEIGHT, unit, len(values), _number(most))
    ]
    for place, (at, value) in enumerate(values):
        if value <= 0:
            continue
        height = max(1.0, value / most * HEIGHT)
        clock = datetime.datetime.fromtimestamp(at, zone).strftime("%H:%M %Z")
        parts.append(
            Markup('<rect x="{}" y="{:.1f}" width="{}" height="{:.1f}"><title>{}: {} {}</title></rect>').format(
                place * STEP, HEIGHT - height, STEP - 1, height, clock, _number(value), unit
            )
        )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _number(value: float) -> str:
    return f"{value:,.0f}"
