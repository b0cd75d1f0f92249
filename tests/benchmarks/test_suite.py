"""The benchmarks run with few rows, and their tables, plots and lines of JSON are complete; nothing is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import plots, report, ways
from benchmarks.__main__ import run
from benchmarks.steps import Wanted, chosen_kinds
from benchmarks.targets import TARGETS, Results
from mercury.postgres.embedded import EmbeddedPostgres


def way(name: str, phase: str, speed: float, **more: Any) -> dict[str, Any]:
    return {
        "part": "ways",
        "way": name,
        "phase": phase,
        "round": 0,
        "rows_per_second": speed,
        "cpu": {"client": 1.0, "server": 2.0, "PostgreSQL": 0.5},
        "cpu_per_1000": 3.5,
        "peak_mb": {"client": 60.0, "server": 70.0},
        "disturbed": False,
        "lines": 18,
        **more,
    }


@pytest.mark.slow
def test_ways_with_few_rows_fill_every_cell(tmp_path: Path) -> None:
    chosen = [ways.SINGLE_LISTS, "Mercury, memory, in-out"]
    records = run(Wanted(parts=("ways",), rounds=1, only=tuple(chosen), quick=True), tmp_path, rows=50)
    assert [record for record in records if record["part"] == "skipped"] == []
    found = [(record["way"], record["phase"]) for record in records]
    for name in chosen:
        phases = ["stream", "drain"] if "memory" in name else ["stream", "drain", "latency"]
        assert [phase for each, phase in found if each == name] == phases
    page = (tmp_path / report.PAGE).read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {chosen[0]} ")]
    assert "| - " not in row
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == len(records) + len(chosen)
    assert (tmp_path / "drain.svg").read_text().startswith("<svg")


def test_a_whole_name_chooses_one_way_and_a_part_of_names_all_that_have_it() -> None:
    assert [kind.name for kind in chosen_kinds([ways.SAME, ways.METRICS])] == [ways.SAME, ways.METRICS]
    assert {ways.IN_OUT, "Mercury, memory, in-out"} <= {kind.name for kind in chosen_kinds(["In-Out"])}


def test_processes_of_the_way_with_metrics_count_and_those_of_the_other_do_not(tmp_path: Path) -> None:
    unused = EmbeddedPostgres(tmp_path / "unused")
    made = [ways.mercury_way(unused, tmp_path, "run", store="memory", metrics=metrics) for metrics in (True, False)]
    assert [way.environment for way in made] == [{"MERCURY_METRICS_ENABLED": "true"}, {}]


def test_targets_compare_the_medians_of_the_named_ways() -> None:
    records = [
        *(way(ways.SAME, "drain", speed) for speed in (900.0, 4000.0, 3000.0)),
        *(way(ways.SINGLE, "drain", speed) for speed in (900.0, 4000.0, 3000.0)),
        way(ways.RABBIT, "drain", 1000.0),
        way(ways.RABBIT_TUNED, "drain", 5000.0),
        way(ways.HTTP, "drain", 300.0),
    ]
    records.append(way(ways.SINGLE_LISTS, "drain", 5000.0))
    verdicts = {target.name: target.verdict(Results(records)) for target in TARGETS}
    drain = "drain, one message a row, against outbox + "
    assert verdicts[f"{drain}RabbitMQ plain, handler for one row"] == (3.0, "met")
    tuned = f"{drain}RabbitMQ tuned, whose consumer inserts 50 rows at once"
    assert verdicts[f"{tuned}, handler for one row"] == (0.6, "**not met**")
    assert verdicts[f"{tuned}, handler for lists"] == (1.0, "aim met")
    assert verdicts[f"{drain}HTTP, one row a request, handler for one row"] == (10.0, "aim met")
    assert verdicts["stream, against outbox + RabbitMQ plain, handler for one row"] == (None, "not measured")


def test_upper_bounds_are_met_from_below() -> None:
    records = [{"part": "large", "side": side, "peak_mb": peak} for side, peak in (("client", 90.0), ("server", 150.0))]
    verdicts = {target.name: target.verdict(Results(records)) for target in TARGETS}
    assert verdicts["memory for 8 messages of 7.9 MB in flight, each side"] == (150.0, "met")


def test_sequences_are_compared_with_one_sequence_of_as_many_messages() -> None:
    records = [
        {"part": "sequences", "sequences": sequences, "messages": messages, "cpu_per_1000": cpu}
        for sequences, messages, cpu in ((100, 300, 5.0), (1, 300, 4.0), (1000, 3000, 6.0), (1, 3000, 2.0))
    ]
    verdicts = {target.name: target.verdict(Results(records)) for target in TARGETS}
    assert verdicts["1,000 sequences of 3 messages, CPU a message against one sequence"] == (3.0, "**not met**")


def test_every_target_has_a_line_even_if_nothing_was_measured() -> None:
    lines = report.target_table([]).splitlines()
    assert len(lines) == 2 + len(TARGETS)
    assert all("not measured" in line for line in lines[2:])


def test_generated_part_of_a_page_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / report.PAGE
    page.write_text(f"# Results\n\nabove\n\n{report.BEGIN}\nold\n{report.END}\n\nbelow\n")
    report.fill(page, report.document([], ["a machine"], []))
    text = page.read_text()
    assert text.startswith("# Results\n\nabove\n")
    assert text.endswith("below\n")
    assert "old" not in text
    assert "- a machine" in text


def test_lines_of_user_code_are_counted_between_the_marks() -> None:
    source = "import os\n# --- user code begin\nx = 1\n\n# a comment\ny = 2\n# --- user code end\nz = 3  # user code\n"
    assert ways.count_lines(source) == 3


def test_lines_of_another_handler_are_not_counted() -> None:
    mark = "# --- user code"
    source = f"{mark} begin\na\n{mark} end\n{mark} begin: one\nb\n{mark} end\n{mark} begin: lists\nc\nd\n{mark} end\n"
    assert (ways.count_lines(source), ways.count_lines(source, "one"), ways.count_lines(source, "lists")) == (1, 2, 3)


def test_every_way_has_user_code() -> None:
    assert [kind.name for kind in ways.kinds() if not kind.lines] == []


def test_way_that_had_fewer_rows_says_how_many() -> None:
    text = report.table([way(ways.SAME, "drain", 3000.0, rows=10_000), way(ways.TWO_PHASE, "drain", 300.0, rows=5000)])
    assert f"| {ways.SAME} |" in text
    assert f"| {ways.TWO_PHASE} (5,000 rows) |" in text


def test_side_without_processes_has_no_memory_to_show() -> None:
    text = report.table([way("procrastinate", "drain", 120.0, peak_mb={"client": 37.0})])
    assert "| 37 |" in text


def test_single_value_has_no_spread() -> None:
    assert report.spread([1234.0]) == "1,234"
    assert report.spread([1.0, 3.0, 2.0], 1) == "2.0 (1.0 to 3.0)"
    assert report.spread([]) == "-"


def test_curve_with_one_point_is_drawn() -> None:
    drawn = plots.curves("title & more", "across", "up", {"name": [(1000.0, 0.0)]})
    assert "title &amp; more" in drawn
    assert drawn.count("<circle") == 1
