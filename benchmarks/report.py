"""The tables of a run in Markdown, and its plots."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import plots
from benchmarks.rounds import QUANTILES
from benchmarks.targets import TARGETS, Record, Results, Target

#: The name of the page.
PAGE = Path("benchmarks/RESULTS.md").name
BEGIN, END = "<!-- begin: make bench -->", "<!-- end: make bench -->"
GROUPS = ("client", "server", "PostgreSQL", "broker")
HEAD = (
    "| way | drain rows/s | stream rows/s | CPU s a 1,000 rows, drain | by process | stream | peak MB, client + server "
    "| p50 / p99 / max ms | lines |\n|---|---|---|---|---|---|---|---|---|"
)


def spread(values: list[float], digits: int = 0) -> str:
    """The median, with the least and the most."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:,.{digits}f}"
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def table(records: list[Record]) -> str:
    """A line for each way; one that had fewer rows than others says how many."""
    results, rows = Results(records), [HEAD]
    most = max((record.get("rows", 0) for record in records if record["part"] == "ways"), default=0)
    for name in dict.fromkeys(record["way"] for record in records if record["part"] == "ways"):
        mine = [record for record in records if record["part"] == "ways" and record["way"] == name]
        drains = [record for record in mine if record["phase"] == "drain"]
        waits = [results.way(name, "latency", each) for each in QUANTILES]
        lines = mine[0]["lines"]
        counted = sorted({record.get("rows", 0) for record in mine if record["phase"] != "latency"})
        notes = [f"{count:,} rows" for count in counted if 0 < count < most]
        notes += ["disturbed"] if any(record["disturbed"] for record in mine) else []
        cells = [
            name + (f" ({', '.join(notes)})" if notes else ""),
            spread(results.all_of("rows_per_second", part="ways", way=name, phase="drain")),
            spread(results.all_of("rows_per_second", part="ways", way=name, phase="stream")),
            spread(results.all_of("cpu_per_1000", part="ways", way=name, phase="drain"), 2),
            _groups([record["cpu"] for record in drains], 2),
            spread(results.all_of("cpu_per_1000", part="ways", way=name, phase="stream"), 2),
            _groups([record["peak_mb"] for record in drains], 0, names=False),
            " / ".join(f"{each:.1f}" for each in waits if each is not None) or "-",
            "-" if lines is None else str(lines),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _groups(found: list[dict[str, float]], digits: int, *, names: bool = True) -> str:
    groups = [group for group in GROUPS if any(group in each for each in found)]
    medians = {group: median(each.get(group, 0.0) for each in found) for group in groups}
    text = (f"{group} {value:.{digits}f}" if names else f"{value:.{digits}f}" for group, value in medians.items())
    return (", " if names else " + ").join(text) or "-"


def target_table(records: list[Record]) -> str:
    """Each target with its figure and whether it is met."""
    results = Results(records)
    rows = ["| target | at least | aim | measured | |", "|---|---|---|---|---|"]
    for target in TARGETS:
        figure, verdict = target.verdict(results)
        measured = "-" if figure is None else _figure(figure, target)
        rows.append(
            f"| {target.name} | {_figure(target.at_least, target)} | {_figure(target.aim, target)} "
            f"| {measured} | {verdict} |"
        )
    return "\n".join(rows)


def _figure(value: float, target: Target) -> str:
    return f"{value:.3g}{target.unit}"


def other_tables(records: list[Record]) -> str:
    """The costs and the growth, a table each."""
    shown: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("commit", "An application's commit, CPU microseconds", ("what", "cpu_us", "postgres_us")),
        ("prepared", "PREPARE TRANSACTION and COMMIT PREPARED on one connection", ("round", "rows_per_second")),
        ("posts", "Bare posts of one envelope to the endpoint of a store in memory", ("round", "rows_per_second")),
        ("idle", "Idle processes", ("side", "statements_per_second", "cpu_percent")),
        ("lone", "A lone message, without and with the polls meanwhile", ("statements", "with_polls")),
        ("large", "Large messages in flight", ("side", "messages", "body_bytes", "peak_mb", "more_mb")),
        ("simulation", "Simulation", ("seeds", "cpu_per_seed")),
        ("reconcile", "Comparison of two tables", ("rows", "seconds", "join_seconds")),
        ("outstanding", "Messages outstanding", ("messages", "cpu_per_1000", "rows_per_second", "start_seconds")),
        ("acknowledged", "Messages acknowledged before", ("messages", "cpu_per_1000", "rows_per_second")),
        ("sequences", "Sequences", ("sequences", "messages", "cpu_per_1000", "keys_per_second")),
        ("bodies", "Bodies", ("bytes", "cpu_per_1000", "rows_per_second", "mb_per_second")),
        (
            "console",
            "Pages of the console over a large store",
            (
                "store",
                "messages",
                "sequences",
                "page",
                "first_ms",
                "median_ms",
                "max_ms",
                "statements",
                "rows_read",
            ),
        ),
        (
            "pairs",
            "Drains in turns, two ways beside each other",
            (
                "what",
                "against",
                "turns",
                "rows",
                "cpu_ratio",
                "cpu_ratio_quarter",
                "cpu_ratio_three_quarters",
                "rows_ratio",
                "rows_ratio_quarter",
                "rows_ratio_three_quarters",
            ),
        ),
        ("dev", "A start of mercury dev", ("start", "start_seconds", "message_seconds")),
        ("skipped", "Skipped", ("way", "reason")),
    )
    parts = []
    for part, title, columns in shown:
        mine = [record for record in records if record["part"] == part]
        if mine:
            rows = [f"| {' | '.join(_cell(record.get(column)) for column in columns)} |" for record in mine]
            head = f"| {' | '.join(column.replace('_', ' ') for column in columns)} |\n|{'---|' * len(columns)}"
            parts.append(f"### {title}\n\n{head}\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def write_plots(records: list[Record], folder: Path) -> list[str]:
    """Write the plots; their names."""
    results, made = Results(records), {}
    names = list(dict.fromkeys(record["way"] for record in records if record["part"] == "ways"))
    for phase in ("drain", "stream"):
        rows = []
        for name in names:
            speeds = results.all_of("rows_per_second", part="ways", way=name, phase=phase)
            if speeds:
                rows.append((name, median(speeds), min(speeds), max(speeds)))
        if rows:
            made[f"{phase}.svg"] = plots.bars(f"{phase.capitalize()}, rows a second", rows, "rows/s")
    cost = "CPU s a 1,000 messages"
    shown: Iterable[tuple[str, str, dict[str, str], str]] = (
        ("backlog.svg", "messages", {"outstanding": "outstanding", "acknowledged": "acknowledged before"}, cost),
        ("sequences.svg", "sequences", {"sequences": "three messages each"}, cost),
        ("bodies.svg", "bytes", {"bodies": "size of the body"}, cost),
    )
    for file, across, parts, up in shown:
        lines = {
            label: [(record[across], record["cpu_per_1000"]) for record in records if record["part"] == part]
            for part, label in parts.items()
        }
        if any(lines.values()):
            made[file] = plots.curves(f"{cost} by {across}", across, up, lines)
    most = max((record["messages"] for record in records if record["part"] == "memory"), default=0)
    memory = [record for record in records if record["part"] == "memory" and record["messages"] == most]
    if memory:
        lines = {
            side: [(most - record["left"], record[f"{side}_mb"]) for record in memory] for side in ("client", "server")
        }
        made["memory.svg"] = plots.curves(f"Memory while {most:,} messages drain", "arrived", "MB", lines)
    for file, content in made.items():
        (folder / file).write_text(content)
    return list(made)


def document(records: list[Record], about: list[str], drawn: list[str]) -> str:
    """The generated part of the results."""
    parts = [BEGIN, "\n".join(f"- {line}" for line in about)]
    if any(record["part"] == "ways" for record in records):
        parts += ["### Ways to move rows", table(records)]
    parts += ["### Targets", target_table(records), other_tables(records), _left_out(records)]
    parts += [f"![{name.removesuffix('.svg')}]({name})" for name in drawn]
    return "\n\n".join(part for part in parts if part) + f"\n\n{END}\n"


def _left_out(records: list[Record]) -> str:
    """What the time of the run was not enough for."""
    names = [str(record["way"]) for record in records if record["part"] == "left out"]
    if not names:
        return ""
    return f"Left out, because the time was not enough (`--resume` measures it): {'; '.join(names)}."


def fill(page: Path, generated: str) -> None:
    """Replace the generated part of a page, or append it; what is written by hand stays."""
    text = page.read_text() if page.exists() else "# Results\n\n"
    if BEGIN in text and END in text:
        before, rest = text.split(BEGIN, 1)
        text = before + generated.rstrip("\n") + rest.split(END, 1)[1]
    else:
        text = text.rstrip("\n") + "\n\n" + generated
    page.write_text(text)
