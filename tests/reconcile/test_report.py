"""The report: it is complete, its numbers add up, and a value cannot break out of its cell."""

from __future__ import annotations

import csv
import datetime
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from mercury.errors import ConfigurationError
from mercury.reconcile import Difference, Result, Verdict, Where
from mercury.reconcile.charts import delivery, duration, latency
from mercury.reconcile.differences import writer
from mercury.reconcile.report import contrast, environment, page, visible, write_report
from mercury.reconcile.result import Latency, Side, Timeline
from mercury.reconcile.source import Consistency

EVIL = "<script>alert(1)</script>\"'&\x00\u202e<img src=x onerror=y>"


def result(**more: Any) -> Result:
    side = Side("client", "orders", "postgresql://db/shop", 100, Consistency.SNAPSHOT)
    values: dict[str, Any] = {
        "title": "Requests",
        "client": side,
        "server": Side("server", "received", "sqlite:///x", 100, Consistency.SNAPSHOT),
        "columns": ("name", "note"),
        "started_at": datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC),
        "delivered": 100,
        "ordered": True,
    }
    return Result(**{**values, **more})


def add(to: Result, verdict: Verdict, key: str = "1", where: Where | None = None, **more: Any) -> None:
    values: dict[str, Any] = {"client_count": 1, "server_count": 1, "client": {"name": "a", "note": None}, **more}
    to.counts[verdict] += 1
    to.delivered -= 1
    if where is not None:
        to.missing[where] += 1
    to.listed.setdefault(verdict, []).append(Difference(key=key, verdict=verdict, where=where, **values))


class Reader(HTMLParser):
    """Elements and texts; complains about what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += attrs
        if tag not in ("meta", "line", "rect", "polyline", "polygon"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "polyline"):
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(found: Result) -> Reader:
    reader = Reader()
    reader.feed(page(found))
    assert reader.open == []
    return reader


def every_verdict() -> Result:
    found = result()
    for number, where in enumerate(Where):
        add(found, Verdict.MISSING, f"m{number}", where, server_count=0, reason="why")
    add(found, Verdict.DUPLICATED, "d1", server_count=3)
    add(found, Verdict.ALTERED, "a1", altered=("name", "note"), server={"name": "b", "note": "x"})
    add(found, Verdict.UNEXPECTED, "u1", client_count=0, client=None, server={"name": "z", "note": None})
    add(found, Verdict.OUT_OF_ORDER, "o1", expected_position=5, position=9)
    add(found, Verdict.OUT_OF_ORDER, "o2", expected_position=9, position=8)
    add(found, Verdict.OUT_OF_ORDER, "o3")
    return found


def test_every_difference_has_a_row() -> None:
    found = every_verdict()
    text = "".join(read(found).texts)
    for listed in found.listed.values():
        for each in listed:
            assert each.key in text
    for words in ("4 places late", "1 place early", "in the InvokerBuffer", "in doubt", "dead letter", "lost"):
        assert words in text
    assert "Not reconciled" in text


def test_the_counts_are_those_of_the_result() -> None:
    found = every_verdict()
    tiles = re.findall(r'<div class="tile \w+"><b>([\d,]+)</b><span>([\w ]+)</span>', page(found))
    counts = {name: int(count.replace(",", "")) for count, name in tiles}
    assert counts == {
        "delivered": found.delivered,
        "on their way": 5,
        "missing": 3,
        "duplicated": 1,
        "altered": 1,
        "unexpected": 1,
        "out of order": 3,
    }
    assert sum(counts.values()) == 100
    assert found.under_way == 5


def test_a_list_that_is_cut_has_the_number_of_the_rest() -> None:
    found = result(differences=Path("out/differences.parquet"))
    add(found, Verdict.ALTERED, altered=("name",), server={"name": "b", "note": None})
    found.counts[Verdict.ALTERED] += 1499
    assert "1 of 1,500 are shown; the other 1,499 are in differences.parquet." in page(found)


def test_nothing_in_a_row_gets_out_of_its_cell() -> None:
    values = {"name": EVIL, EVIL: EVIL}
    found = result(notes=[EVIL], computed_here=EVIL, columns=("name", EVIL))
    found.client.table = found.client.url = EVIL
    for verdict in Verdict:
        if verdict is not Verdict.DELIVERED:
            where = Where.DEAD_LETTER if verdict is Verdict.MISSING else None
            altered = ("name", EVIL) if verdict in (Verdict.ALTERED, Verdict.DUPLICATED) else ()
            server = {"name": "x" + EVIL, EVIL: None}
            add(found, verdict, EVIL, where, client=values, server=server, altered=altered, reason=EVIL)
    reader = read(found)
    assert reader.elements["script"] == reader.elements["img"] == 0
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "\x00" not in page(found)
    assert "\u202e" not in "".join(reader.texts)


def test_an_unknown_name_in_the_template_is_an_error_and_not_an_empty_place() -> None:
    # A column that is renamed and forgotten in the template would else vanish from the page unseen.
    with pytest.raises(UndefinedError):
        environment().from_string("{{ result.nothing }}").render(result=result())


def test_the_page_needs_nothing_else() -> None:
    text = page(every_verdict())
    assert not re.findall(r"(?i)(?:src|href)\s*=|url\(|@import", text)
    assert "default-src 'none'" in text


def test_values_are_contrasted_where_they_differ() -> None:
    assert contrast("100.10", "100.20") == (
        "<bdi>100.<mark>1</mark>0</bdi>",
        '<bdi>100.<mark class="now">2</mark>0</bdi>',
    )
    assert contrast("aa", "a")[1] == "<bdi>a</bdi>"
    assert contrast("ab", "aXb")[0] == "<bdi>ab</bdi>"
    assert contrast(None, "<")[0] == '<span class="null">null</span>'
    long = "x" * 5000
    before, after = contrast(f"{long}1{long}", f"{long}2{long}")
    assert "<mark>1</mark>" in before
    assert len(before) + len(after) < 1000


def test_invisible_characters_are_shown_by_number() -> None:
    assert visible("a\u200bb\x07\ufeff") == "a\\u200bb\\u0007\\ufeff"
    assert visible("Grüße 漢字\n") == "Grüße 漢字\n"


def test_all_that_is_on_its_way_is_no_fault() -> None:
    found = result()
    add(found, Verdict.MISSING, "1", Where.IN_FLIGHT, server_count=0)
    assert found.reconciled
    assert "Nothing is wrong with 100 rows; 1 is still on the way." in page(found)
    found.complete = True
    assert not found.reconciled


def test_an_order_that_is_broken_everywhere_is_a_fault_though_no_row_is_named() -> None:
    found = result(disordered=70_000)
    assert not found.reconciled
    assert found.as_json()["out_of_order"] == 70_000
    assert "<b>70,000</b><span>out of order</span>" in page(found)


def test_a_direction_back_is_part_of_the_page() -> None:
    back = result(title="Responses")
    add(back, Verdict.MISSING, "77", Where.LOST, server_count=0)
    text = page(result(response=back))
    assert "Not reconciled" in text
    assert text.index("Responses") < text.index("77")


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_report(result(), tmp_path / "nowhere" / "report.html")


# --- plots -----------------------------------------------------------------------------------------------------------


def numbers(attribute: str, svg: str) -> list[float]:
    return [float(each) for each in re.findall(rf' {attribute}="([-\d.]+)"', svg)]


def test_the_curve_of_arrivals_ends_at_their_count() -> None:
    sent, arrived = Counter({0: 10, 5: 10}), Counter({1: 10, 9: 5})
    svg = delivery(Timeline(60, sent, arrived))
    ends = [line.rpartition(" ")[2] for line in re.findall(r'polyline class="line \w+" points="([^"]+)"', svg)]
    heights = [float(end.partition(",")[2]) for end in ends]
    # Fifteen of twenty arrived: lower on the page is less.
    assert heights[0] > heights[1]
    assert ">20</text>" in svg
    assert delivery(Timeline(60)) == ""


@pytest.mark.parametrize("width", [1, 30, 3600, 86_400 * 30])
def test_the_axis_of_time_has_a_few_ticks_whatever_the_span(width: int) -> None:
    begin = 1_772_000_000 // width
    svg = delivery(Timeline(width, Counter({begin: 1, begin + 59: 1}), Counter({begin + 59: 2})))
    ticks = re.findall(r'text-anchor="middle">([^<]+)<', svg)
    assert 2 <= len(ticks) <= 9
    assert len(set(ticks)) == len(ticks)
    assert all(0 <= x <= 520 for x in numbers("x1", svg))


@pytest.mark.parametrize("seconds", [[0.01], [-3.0, 0.0], [1e-6, 5e5], [0.001 * n for n in range(1, 1000)]])
def test_every_latency_is_in_a_bar(seconds: list[float]) -> None:
    svg = latency(Latency(sorted(seconds), all_rows=True))
    counts = [int(each.replace(",", "")) for each in re.findall(r": ([\d,]+) rows</title>", svg)]
    assert sum(counts) == len(seconds)
    assert min(numbers("height", svg)) > 0
    assert max(numbers("height", svg)) <= 210


def test_times_are_printed_with_a_suitable_unit() -> None:
    assert [duration(each) for each in (0.0000042, 0.0042, 0.31, 4.2, 42, 600, 90_000)] == [
        *("4.2 µs", "4.2 ms", "310 ms", "4.2 s", "42 s", "10 min", "25 h"),
    ]


def test_numbers_stand_below_their_headings() -> None:
    found = result()
    add(found, Verdict.DUPLICATED, server_count=2)
    html = page(found)
    assert '<th class="number">on the client</th><th class="number">on the server</th>' in html
    assert "<th>key</th>" in html


def test_events_of_the_run_are_marked_on_the_chart() -> None:
    found = result(moments=((1_000.0, "client killed <now>"), (9_999_999.0, "long after")))
    found.timeline = Timeline(10, Counter({98: 3, 101: 4}), Counter({99: 3, 102: 4}))
    html = page(found)
    assert html.count('<line class="moment"') == 1
    assert "client killed &lt;now&gt;" in html
    assert "long after" not in html


def test_the_differences_are_a_csv_file_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    found = result()
    values = {"name": 'a, "b"\nc', "note": None}
    missing = Difference(
        key="7", verdict=Verdict.MISSING, where=Where.LOST, client_count=1, server_count=0, client=values
    )
    with writer(found, 10, tmp_path / "differences.parquet") as taken:
        taken.take(missing)
    with (tmp_path / "differences.csv").open(encoding="utf-8", newline="") as text:
        (line,) = csv.DictReader(text)
    assert (line["key"], line["verdict"], line["place"]) == ("7", Verdict.MISSING.value, Where.LOST.value)
    assert (line["client.name"], line["client.note"], line["server.name"]) == ('a, "b"\nc', "", "")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+49 30 1234", "'+49 30 1234"),
        ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
        ("\t=1", "'\t=1"),
        ("\uff1d1", "'\uff1d1"),
        ("-12.50", "-12.50"),
        ("+1E-7", "+1E-7"),
        ("a=b", "a=b"),
    ],
)
def test_no_value_of_the_csv_file_is_a_formula_and_numbers_stay_what_they_are(
    tmp_path: Path, value: str, written: str
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    values = {"name": value, "note": None}
    missing = Difference(
        key=value, verdict=Verdict.MISSING, where=Where.LOST, client_count=1, server_count=0, client=values,
        correlation=value,
    )  # fmt: skip
    with writer(result(), 10, tmp_path / "differences.parquet") as taken:
        taken.take(missing)
    with (tmp_path / "differences.csv").open(encoding="utf-8", newline="") as text:
        (line,) = csv.DictReader(text)
    assert (line["key"], line["correlation"], line["client.name"]) == (written, written, written)
    (row,) = parquet.read_table(tmp_path / "differences.parquet").to_pylist()
    assert (row["key"], row["client"]["name"]) == (value, value)
