"""How commands speak: text for people, JSON for programs, errors on stderr, exit codes that mean something."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mercury.cli.texts import printable

#: It was done.
OK = 0
#: It was tried and did not come out as it should: not acknowledged, violations found, not ready.
FAILED = 1
#: It could not be tried: wrong options, settings, files or URLs.
UNUSABLE = 2


class Format(enum.Enum):
    """What a command prints."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="Text for people, or JSON for programs.")]


class _Terminal(Console):
    """A console on which texts from elsewhere are harmless: they are escaped before anything is made of them."""

    def print(self, *objects: Any, **options: Any) -> None:
        safe = (printable(each, lines=True) if isinstance(each, str) else each for each in objects)
        super().print(*safe, **options)


def console() -> Console:
    """Where text for people goes."""
    return _Terminal(soft_wrap=True, highlight=False)


def notes() -> Console:
    """Where progress and errors go."""
    return _Terminal(stderr=True, soft_wrap=True, highlight=False)


def show_json(value: Any) -> None:
    """Print one JSON value. What a terminal would obey is escaped as JSON has it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if printable(text, lines=True) != text:
        text = json.dumps(value, indent=2)
    sys.stdout.write(text + "\n")


def show_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, nothing: str) -> None:
    """Print rows under headings, or what to say when there are none. Cells may come from elsewhere: see `printable`."""
    found = list(rows)
    if not found:
        console().print(nothing)
        return
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in found:
        table.add_row(*(escape(printable(cell)) for cell in row))
    # A row stays a row, however narrow the terminal is: for grep, and so that what is copied is whole.
    Console(highlight=False, width=10_000).print(table)


def fail(code: int, text: str) -> NoReturn:
    """Say what is wrong and end.

    :raises typer.Exit: always.
    """
    notes().print(f"[red]error:[/red] {escape(printable(text))}")
    raise typer.Exit(code)


def show(output: Format, value: Any, text: Callable[[], None]) -> None:
    """Print ``value`` as JSON, or call what prints it as text."""
    if output is Format.JSON:
        show_json(value)
    else:
        text()
