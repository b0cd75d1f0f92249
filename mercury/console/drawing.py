"""Pictures of a sequence as SVG: its state machine with the current state, and its message numbers with the gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from mercury.statemachine.table import Kind, Table
from mercury.statemachine.tables import RMD, RMS, RmdState, RmsState
from mercury.statemachine.words import EVENTS, STATES
from mercury.texts import counted

#: The size of a state's box, and the places of the boxes' centers in columns and rows.
WIDTH, HEIGHT = 158, 44
COLUMN, ROW = 204, 84
RMS_PLACES: Mapping[RmsState, tuple[float, float]] = MappingProxyType(
    {
        RmsState.NEW: (0, 0),
        RmsState.CREATING: (1, 0),
        RmsState.CREATING_LAST: (1, 2),
        RmsState.IDLE: (2, 0),
        RmsState.SENDING: (2, 1),
        RmsState.SENDING_LAST: (2, 2),
        RmsState.ENDING: (3, 1),
        RmsState.ENDED: (4, 1),
        RmsState.FAILED: (4, 2),
    }
)
RMD_PLACES: Mapping[RmdState, tuple[float, float]] = MappingProxyType(
    {
        RmdState.CREATED: (0, 1),
        RmdState.RECEIVING: (1, 1),
        RmdState.LAST_KNOWN: (2, 0),
        RmdState.COMPLETE: (2, 1),
        RmdState.ENDED_INCOMPLETE: (3, 0),
        RmdState.ENDED_COMPLETE: (3, 1),
        RmdState.ENDED_OPEN: (3, 2),
    }
)
#: The states that are not as they should be.
WRONG = frozenset({RmsState.FAILED, RmdState.ENDED_INCOMPLETE, RmdState.LAST_KNOWN})

#: The width of the picture of ranges, and the most ranges that it draws.
RANGES_WIDTH, MOST_RANGES = 920, 200


def machine(state: RmsState | RmdState) -> Markup:
    """The machine of a state, drawn from its table, with the state marked."""
    if isinstance(state, RmsState):
        return _drawn(RMS, RMS_PLACES, state)
    return _drawn(RMD, RMD_PLACES, state)


def _drawn(table: Table[Any, Any, Any], places: Mapping[Any, tuple[float, float]], now: RmsState | RmdState) -> Markup:
    columns = max(column for column, _ in places.values()) + 1
    rows = max(row for _, row in places.values()) + 1
    width, height = columns * COLUMN, rows * ROW
    parts = [
        Markup(
            '<svg class="machine" viewBox="0 0 {} {}" width="{}" role="img" aria-label="{}: the state is {}, {}">'
        ).format(width, height, width, table.name, now.name, STATES[now]),
        Markup(
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"'
            ' markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
        ),
    ]
    for (source, target), events in _moves(table).items():
        path, title = _path(places[source], places[target]), ", ".join(EVENTS[each] for each in events)
        css = "arrow out" if source is now else "arrow"
        parts.append(
            Markup('<path class="{}" d="{}" marker-end="url(#head)"><title>{}</title></path>').format(css, path, title)
        )
    for state, place in places.items():
        x, y = _center(place)
        css = "state" + (" now" if state is now else "") + (" wrong" if state in WRONG else "")
        parts.append(
            Markup(
                '<g class="{}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" rx="8"/>'
                '<text x="{}" y="{}" text-anchor="middle">{}</text>'
                '<text class="small" x="{}" y="{}" text-anchor="middle">{}</text></g>'
            ).format(
                css, table.work[state], x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT,
                x, y - 3, state.name.replace("_", " "), x, y + 13, STATES[state],
            )
        )  # fmt: skip
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _moves(table: Table[Any, Any, Any]) -> dict[tuple[Any, Any], list[Any]]:
    """The events that lead from each state to another one."""
    found: dict[tuple[Any, Any], list[Any]] = {}
    for row in table.rows:
        if row.kind is Kind.MOVE and row.next is not row.state:
            events = found.setdefault((row.state, row.next), [])
            if row.event not in events:
                events.append(row.event)
    return found


def _center(place: tuple[float, float]) -> tuple[float, float]:
    return place[0] * COLUMN + COLUMN / 2, place[1] * ROW + ROW / 2


def _path(source: tuple[float, float], target: tuple[float, float]) -> str:
    """A curve from the edge of one box to that of another; there and back do not coincide."""
    (x1, y1), (x2, y2) = _center(source), _center(target)
    start, end = _edge((x1, y1), (x2, y2)), _edge((x2, y2), (x1, y1))
    dx, dy = x2 - x1, y2 - y1
    length = max(1.0, (dx * dx + dy * dy) ** 0.5)
    passes_a_box = dy == 0 and abs(dx) > 1.5 * COLUMN
    bend = 70.0 if passes_a_box else 9 + length / 22
    middle = ((start[0] + end[0]) / 2 - dy / length * bend, (start[1] + end[1]) / 2 + dx / length * bend)
    return f"M{start[0]:.0f} {start[1]:.0f}Q{middle[0]:.0f} {middle[1]:.0f} {end[0]:.0f} {end[1]:.0f}"


def _edge(of: tuple[float, float], to: tuple[float, float]) -> tuple[float, float]:
    """The point where the line between two centers leaves the first one's box."""
    dx, dy = to[0] - of[0], to[1] - of[1]
    scale = min((WIDTH / 2 + 2) / abs(dx) if dx else 9e9, (HEIGHT / 2 + 2) / abs(dy) if dy else 9e9)
    return of[0] + dx * scale, of[1] + dy * scale


def ranges(have: Sequence[tuple[int, int]], highest: int) -> Markup:
    """Message numbers from 1 to the highest one as a bar, with those that are there and the gaps between them.

    :param have: the ranges of numbers that are acknowledged or received.
    """
    if highest < 1:
        return Markup("")
    scale = RANGES_WIDTH / highest

    def bar(css: str, low: int, high: int, title: str) -> Markup:
        x, width = (low - 1) * scale, max(2.0, (high - low + 1) * scale)
        x = min(x, RANGES_WIDTH - width)
        return Markup(
            '<rect class="{}" x="{:.1f}" y="4" width="{:.1f}" height="26" rx="2"><title>{}</title></rect>'
        ).format(css, x, width, title)

    shown = list(have)[:MOST_RANGES]
    missing = gaps(shown)
    parts = [
        Markup('<svg class="ranges" viewBox="-4 0 {} 52" width="{}" role="img" aria-label="{}">').format(
            RANGES_WIDTH + 8, RANGES_WIDTH + 8, in_words(have, highest)
        ),
        bar("all", 1, highest, counted(highest, "number", "numbers")),
    ]
    parts += [bar("have", low, high, _numbers(low, high)) for low, high in shown]
    parts += [bar("gap", low, high, f"missing: {_numbers(low, high)}") for low, high in missing]
    ends = dict.fromkeys((1, *(low for low, _ in missing[:6]), highest))
    taken: list[float] = []
    for number in sorted(ends, key=lambda each: (each not in (1, highest), each)):
        x = min(RANGES_WIDTH, (number - 0.5) * scale)
        if all(abs(x - other) > 46 for other in taken):
            taken.append(x)
            anchor = "start" if number == 1 else "end" if number == highest else "middle"
            parts.append(
                Markup('<text class="small" x="{:.1f}" y="46" text-anchor="{}">{:,}</text>').format(x, anchor, number)
            )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def gaps(have: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The numbers between ranges, and before the first one."""
    found, following = [], 1
    for low, high in have:
        if low > following:
            found.append((following, low - 1))
        following = high + 1
    return found


def listed(numbers: Sequence[tuple[int, int]], most: int = 8) -> str:
    """Ranges of numbers as text."""
    more = f" and {counted(len(numbers) - most, 'more range', 'more ranges')}" if len(numbers) > most else ""
    return (", ".join(_numbers(low, high) for low, high in numbers[:most]) or "none") + more


def in_words(have: Sequence[tuple[int, int]], highest: int) -> str:
    """Which numbers are there."""
    return f"{listed(have)} of {highest:,}"


def _numbers(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
