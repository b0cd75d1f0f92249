"""Writes the table of metrics in docs/monitoring.md from `mercury.telemetry.instruments`.

python -m tests.docs.monitoring
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mercury.telemetry.instruments import INSTRUMENTS, Instrument, Kind

from .pages import ROOT

PAGE = ROOT / "docs/monitoring.md"
RULES = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = ROOT / "deploy/grafana/mercury.json"
_BEGIN, _END = "<!-- metrics: python -m tests.docs.monitoring -->", "<!-- end of metrics -->"
#: The name of a series of Mercury in an expression.
SERIES = re.compile(r"\b(?:mercury|messaging)_\w+")
_RULE = re.compile(r"- alert: (\w+)\n\s+expr: (.+)\n\s+for: (\w+)\n")


@dataclass(frozen=True)
class Rule:
    """An alert rule."""

    name: str
    expression: str
    #: How long the condition has to last.
    lasts: str


def rules(path: Path = RULES) -> list[Rule]:
    """The rules of a file whose rules are written in this form and order."""
    text = path.read_text(encoding="utf-8")
    found = [Rule(*each) for each in _RULE.findall(text)]
    assert len(found) == text.count("- alert:")
    return found


def written(instruments: tuple[Instrument, ...] = INSTRUMENTS) -> str:
    """The tables: what a process counts and measures, its gauges, and those of the store."""
    gauges = [each for each in instruments if each.kind is Kind.GAUGE]
    parts = (
        ("Counters and histograms of a process", [each for each in instruments if each.kind is not Kind.GAUGE]),
        ("Gauges of a process", [each for each in gauges if not each.of_store]),
        ("Gauges of the store", [each for each in gauges if each.of_store]),
    )
    return "\n".join(f"### {title}\n\n{_table(some)}" for title, some in parts)


def filled(text: str) -> str:
    """The page with the tables as they should be."""
    before, begin, rest = text.partition(_BEGIN)
    assert begin, f"{PAGE.name} has no {_BEGIN}"
    return f"{before}{begin}\n\n{written()}\n{_END}{rest.partition(_END)[2]}"


def _table(instruments: list[Instrument]) -> str:
    lines = ["| metric | kind, unit | attributes | meaning | alert |", "|---|---|---|---|---|"]
    for each in instruments:
        attributes = ", ".join(f"`{attribute.value}`" for attribute in each.attributes)
        alert = f"`{each.alert}`" if each.alert else ""
        cells = (f"`{each.name}`", f"{each.kind.value}, `{each.unit}`", attributes, each.description, alert)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
