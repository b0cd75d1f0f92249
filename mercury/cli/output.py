"""Output of commands: text for people, JSON for programs, errors on stderr, exit codes."""

from __future__ import annotations

import contextlib
import enum
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from mercury.errors import ConfigurationError, PayloadError, StorageError
from mercury.texts import printable

#: The command succeeded.
OK = 0
#: The command ran, and its result is a failure: not acknowledged, violations found, not ready.
FAILED = 1
#: The command could not run: invalid options, settings, files or URLs.
UNUSABLE = 2


class Format(enum.Enum):
    """The format of a command's output."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="Text for people, or JSON for programs.")]


class _Terminal(Console):
    """A console that escapes control characters in all texts, because texts may come from peers."""

    def print(self, *objects: Any, **options: Any) -> None:
        safe = (printable(each, lines=True) if isinstance(each, str) else each for each in objects)
        super().print(*safe, **options)


def console() -> Console:
    """The console of stdout, for text output."""
    return _Terminal(soft_wrap=True, highlight=False, emoji=False)  # a key may be till:bank:5


def notes() -> Console:
    """The console of stderr, for progress and errors."""
    return _Terminal(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def show_json(value: Any) -> None:
    """Print one JSON value, with control characters escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if printable(text, lines=True) != text:
        text = json.dumps(value, indent=2)
    sys.stdout.write(text + "\n")


def show_body(body: bytes) -> None:
    """Print a body to stdout: its bytes for a file or a program, and for a terminal without control characters."""
    if sys.stdout.isatty():
        sys.stdout.write(printable(body.decode(), lines=True) + "\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(body + b"\n")
    sys.stdout.buffer.flush()


def show_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, nothing: str) -> None:
    """Print rows under headings, or the text ``nothing`` if there are no rows. Cells are escaped; see `printable`.

    Each row is one line, however narrow the terminal is, so that grep and copying get complete rows.
    """
    found = [[printable(cell) for cell in row] for row in rows]
    if not found:
        console().print(nothing, markup=False)
        return
    widths = [max(map(cell_len, column)) for column in zip(headings, *found, strict=True)]
    first, *others = (_line(row, widths) for row in (headings, *found))
    console().print(first, style="bold", markup=False)
    console().print("\n".join(others), markup=False)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Not padded behind its last cell: a body may be long, and would make every other row as long."""
    padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
    return "  ".join(padded).rstrip(" ")


def fail(code: int, text: str) -> NoReturn:
    """Print an error and end the command.

    :raises typer.Exit: always.
    """
    notes().print(f"[red]error:[/red] {escape(printable(text))}")
    raise typer.Exit(code)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """An error of the block becomes one line: exit code 2 for an invalid input, 1 for a store that fails."""
    try:
        yield
    except (ConfigurationError, PayloadError, StorageError) as error:
        notes().print(f"[red]error:[/red] {escape(printable(str(error)))}")
        sys.exit(FAILED if isinstance(error, StorageError) else UNUSABLE)


def show(output: Format, value: Any, text: Callable[[], None]) -> None:
    """Print ``value`` as JSON, or call ``text``, which prints it as text."""
    if output is Format.JSON:
        show_json(value)
    else:
        text()
