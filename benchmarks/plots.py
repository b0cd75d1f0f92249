"""Plots as SVG files: bars of the ways, and curves of the growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH = 760
LEFT, RIGHT, TOP, ROW = 330, 90, 40, 24
PLOT_LEFT, PLOT_HEIGHT = 80, 300
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")


def bars(title: str, rows: Sequence[tuple[str, float, float, float]], unit: str) -> str:
    """A horizontal bar for each row: name, median, least and most."""
    height = TOP + ROW * len(rows) + 10
    top = max((row[3] for row in rows), default=1.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / top
    parts = [_text(10, 22, title, size=15)]
    for number, (name, middle, low, high) in enumerate(rows):
        y = TOP + ROW * number
        colour = COLOURS[0] if name.startswith("Mercury") else COLOURS[1]
        parts.append(_text(LEFT - 8, y + 15, name, anchor="end"))
        parts.append(f'<rect x="{LEFT}" y="{y + 3}" width="{middle * scale:.1f}" height="{ROW - 8}" fill="{colour}"/>')
        line = f'x1="{LEFT + low * scale:.1f}" x2="{LEFT + high * scale:.1f}" y1="{y + 11}" y2="{y + 11}"'
        parts.append(f'<line {line} stroke="#111" stroke-width="1.5"/>')
        parts.append(_text(LEFT + high * scale + 6, y + 15, f"{middle:,.4g} {unit}"))
    return _svg(title, WIDTH, height, parts)


def curves(title: str, across: str, up: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """Lines over a logarithmic horizontal axis and a vertical one that begins at 0."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return _svg(title, WIDTH, TOP, [_text(10, 22, title, size=15)])
    low, high = (math.log10(max(1.0, pick(x for x, _ in points))) for pick in (min, max))
    most = max(y for _, y in points) or 1.0
    span, width = max(0.1, high - low), WIDTH - PLOT_LEFT - RIGHT
    parts = [_text(10, 22, title, size=15), _text(PLOT_LEFT, TOP + PLOT_HEIGHT + 40, across)]
    parts.append(_text(10, TOP + 8, up))

    def place(x: float, y: float) -> tuple[float, float]:
        return PLOT_LEFT + width * (math.log10(max(1.0, x)) - low) / span, TOP + 20 + (PLOT_HEIGHT - 20) * (
            1 - y / most
        )

    for power in range(math.floor(low), math.ceil(high) + 1):
        if low <= power <= high:
            x, y = place(10.0**power, 0.0)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP + 20}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(_text(x, y + 18, f"{10**power:,}", anchor="middle"))
    for step in range(5):
        x, y = place(10.0**low, most * step / 4)
        parts.append(f'<line x1="{x:.1f}" x2="{x + width:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(x - 6, y + 4, f"{most * step / 4:,.3g}", anchor="end"))
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [place(*point) for point in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(_text(WIDTH - RIGHT - 150, TOP + 14 + 16 * number, name, colour=colour))
    return _svg(title, WIDTH, TOP + PLOT_HEIGHT + 50, parts)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#111") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return f'{head} role="img" aria-label="{escape(title)}">{back}{"".join(parts)}</svg>\n'
