"""A check prints one line, whatever peers have written into its text."""

from __future__ import annotations

import json

import pytest
import typer

from mercury.cli.check import State, _end
from mercury.cli.output import Format

#: The error of a handler, or the reason in a fault of a peer.
TEXT = "orders: refused\r\nOK - nothing is wrong\u2028| nodes=99;;; 'a'=1\x85"


@pytest.mark.parametrize(
    ("figures", "behind"), [({}, ""), ({"age": 1.5}, " | age=1.5")], ids=["without figures", "with a figure"]
)
def test_a_line_break_or_bar_in_the_text_ends_no_line_and_begins_no_figures(
    capsys: pytest.CaptureFixture[str], figures: dict[str, float], behind: str
) -> None:
    with pytest.raises(typer.Exit) as ended:
        _end(Format.TEXT, State.WARNING, TEXT, **figures)
    assert ended.value.exit_code == 1
    said = capsys.readouterr().out
    assert said == (rf"WARNING - orders: refused\r\nOK - nothing is wrong\u2028/ nodes=99;;; 'a'=1\x85{behind}" + "\n")
    assert len(said.splitlines()) == 1


def test_a_program_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        _end(Format.JSON, State.WARNING, TEXT)
    assert json.loads(capsys.readouterr().out)["text"] == TEXT
