"""What people read is what there is: no text of a command's output is replaced, cut or taken for markup."""

from __future__ import annotations

import io
import sys

import pytest
import typer

from mercury.cli.output import UNUSABLE, console, fail, notes, show_body, show_table

#: Rich has a picture of a bank, of an order... for what stands between two colons.
KEY = "till:bank:5 a:100:b"


def test_names_between_colons_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(f"{KEY} waits", markup=False)
    notes().print(f"{KEY} waits", markup=False)
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{KEY} waits\n", f"{KEY} waits\n")


def test_an_error_names_a_key_with_colons(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(UNUSABLE, f"there is no {KEY}")
    assert capsys.readouterr().err == f"error: there is no {KEY}\n"


def test_a_table_has_keys_with_colons_and_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("key", "state"), [(KEY, "[bold]open"), ("urn:key:17", "[/] \x1b[31m")], nothing="")
    assert capsys.readouterr().out.splitlines() == [
        "key                  state",
        f"{KEY}  [bold]open",
        r"urn:key:17           [/] \x1b[31m",
    ]


def test_a_long_cell_is_whole_and_widens_no_other_row(capsys: pytest.CaptureFixture[str]) -> None:
    body = f"<a>{'x' * 20_000}</a>"
    show_table(("property", "value"), [("id", "7"), ("payload", body)], nothing="")
    assert capsys.readouterr().out.splitlines() == ["property  value", "id        7", f"payload   {body}"]


def test_wide_characters_take_two_columns_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("key", "state"), [("受注", "open"), ("a", "open")], nothing="")
    assert capsys.readouterr().out.splitlines() == ["key   state", "受注  open", "a     open"]


def test_a_table_without_rows_is_a_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("key",), [], nothing="nothing is prepared in [a:100:b]")
    assert capsys.readouterr().out == "nothing is prepared in [a:100:b]\n"


# --- bodies ----------------------------------------------------------------------------------------------------------

BODY = "<a>\ttill:bank:5 [bold] \u200e\x85ü  </a>".encode()


def test_a_program_that_reads_a_body_gets_its_bytes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    show_body(BODY)
    assert capfdbinary.readouterr().out == BODY + b"\n"


def test_a_terminal_gets_a_body_without_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    show_body(BODY)
    assert shown.getvalue() == "<a>\ttill:bank:5 [bold] \\u200e\\x85ü  </a>\n"
