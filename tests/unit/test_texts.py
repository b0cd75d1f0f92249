"""Texts from peers are printed with control characters escaped, so that they cannot control the terminal."""

from __future__ import annotations

import logging
import re

import pytest

from mercury.cli.logs import TextFormatter
from mercury.cli.output import console, notes, show_json, show_table
from mercury.texts import counted, printable, shortened, span, times

ESC, C1, TURN, LINE = "\x1b[2J", "\x9b31m", "\u202e", "\u2028"
HOSTILE = f"a\nERROR b\r{ESC}{C1}{TURN}{LINE}\x07\ud800"


def record(text: str, *values: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("mercury.engine", logging.WARNING, "x.py", 1, text, values, None)
    made.__dict__.update(fields)
    return made


def harmless(text: str) -> bool:
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text)


def test_controls_are_escaped_and_other_letters_stay() -> None:
    assert printable("plain") == "plain"
    assert printable("Grüße 你好") == "Grüße 你好"
    assert printable(HOSTILE) == r"a\nERROR b\r\x1b[2J\x9b31m\u202e\u2028\x07\ud800"
    assert printable("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"


def test_an_entry_of_the_text_log_is_one_line_with_its_time_zone() -> None:
    line = TextFormatter().format(record("the peer says %s", HOSTILE, message_id=f"urn:{HOSTILE}"))
    assert "\n" not in line
    assert harmless(line)
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4} WARNING mercury\.engine: the peer says a\\n", line)


def test_a_trace_in_the_text_log_keeps_its_lines_and_nothing_else() -> None:
    entry = record("it failed")
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        entry.exc_info = (type(error), error, error.__traceback__)
    text = TextFormatter().format(entry)
    assert "Traceback" in text
    assert harmless(text)


def test_tables_and_messages_of_commands_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("id", "reason"), [("1", HOSTILE), ("2", "[bold]fine[/bold]")], nothing="")
    console().print(HOSTILE, markup=False)
    notes().print(HOSTILE, markup=False)
    show_json({"reason": HOSTILE})
    said = capsys.readouterr()
    assert harmless(said.out + said.err)
    assert len([line for line in said.out.splitlines() if line.startswith(("1", "2"))]) == 2
    assert "[bold]fine[/bold]" in said.out


def test_a_long_text_loses_its_middle() -> None:
    assert shortened("x" * 60) == "x" * 60
    text = shortened("failover:(http://a/services/shop,http://b/services/shop)", 21)
    assert text == "failover:(…ices/shop)"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7320, "2 h 2 min"), (90000, "1 d 1 h")]
)
def test_spans_are_printed_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "more", "text"),
    [(0, False, "0 rows"), (1, False, "1 row"), (1, True, "more than 1 rows"), (12000, False, "12,000 rows")],
)
def test_numbers_come_with_the_right_words(count: int, more: bool, text: str) -> None:
    assert counted(count, "row", "rows", more=more) == text


def test_how_often_is_said_in_words() -> None:
    assert [times(1), times(2)] == ["once", "2 times"]
