"""`mercury check`: one line and an exit code for monitoring."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Annotated, NoReturn

import typer

from mercury.cli.acting import Call, Target, calling
from mercury.cli.letter_selection import seconds
from mercury.cli.option_groups import grouped
from mercury.cli.output import Format, console, show
from mercury.errors import ConfigurationError, StorageError
from mercury.texts import counted, printable

app = typer.Typer(
    help="Checks for monitoring. Exit codes as monitoring plugins have them: 0 ok, 1 warning, 2 critical, 3 unknown.",
    no_args_is_help=True,
)


class State(enum.IntEnum):
    """The result of a check; its value is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


#: The share of the largest age from which on a check warns.
WARNS_FROM = 0.5


@app.command()
@grouped
def node(target: Target) -> None:
    """Check that a process works on the store.

    Critical: none says that it runs. Warning: one has become silent, until its claims have expired and another one
    hosts its services; its sequences wait until then.
    """
    with _asking(target, State.UNKNOWN, "the store cannot be read: ") as call:
        lines = call("nodes.list")
    alive = sum(each["alive"] for each in lines)
    silent = [each for each in lines if not each["alive"] and not each["replaced"]]
    noticed = [each for each in lines if each["holds"] is not None or each in silent]
    replaced = sum(each["replaced"] for each in lines)
    parts = [counted(alive, "process runs", "processes run"), counted(len(silent), "is silent", "are silent")]
    if replaced:
        parts.append(counted(replaced, "was killed and is replaced", "were killed and are replaced"))
    warnings = [f"{each['host']}:{each['pid']} {each['state']}" for each in noticed]
    state = State.CRITICAL if not alive else State.WARNING if noticed else State.OK
    _end(target.output, state, "; ".join([", ".join(parts), *warnings]), nodes=alive)


@app.command("store")
@grouped
def check_store(target: Target) -> None:
    """Check that the store answers, and that nothing in it is wrong: see the settings `watch`.

    Critical: the store does not answer, or something needs an operator now. Warning: dead letters, failing handlers,
    stuck sequences. `mercury status` and `mercury sequences list --stuck` have the details.
    """
    with _asking(target, State.CRITICAL) as call:
        problems = call("store.problems")
    found = {each["severity"] for each in problems}
    text = "; ".join(each["text"] for each in problems if each["severity"] != "note") or "nothing is wrong"
    if "critical" in found:
        _end(target.output, State.CRITICAL, text)
    _end(target.output, State.WARNING if "warning" in found else State.OK, text)


@app.command()
@grouped
def queue(
    target: Target,
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="TIME", help="Critical from this age on: 60s, 5m, 2h.")
    ] = "60s",
) -> None:
    """Check the age of the oldest message that is not acknowledged, and of the oldest that is not handled.

    Critical from --max-age on, a warning from half of it on.
    """
    try:
        limit = seconds(max_age, "--max-age")
    except typer.Exit:  # why is on stderr already
        raise typer.Exit(State.UNKNOWN) from None
    with _asking(target, State.CRITICAL) as call:
        ages: dict[str, float] = call("store.ages")
    what, oldest = max(ages.items(), key=lambda each: each[1])
    text = f"the oldest message that is {what} waits for {oldest:.0f} s" if oldest > 0 else "nothing waits"
    state = State.CRITICAL if oldest >= limit else State.WARNING if oldest >= limit * WARNS_FROM else State.OK
    _end(target.output, state, text, age=round(oldest, 3))


@contextlib.contextmanager
def _asking(target: Target, fails: State, before: str = "") -> Iterator[Call]:
    """`calling`, with the exit codes of checks.

    :param fails: the result if the store fails, or the process does not answer.
    """
    try:
        with calling(target) as call:
            yield call
    except ConfigurationError as error:
        _end(target.output, State.UNKNOWN, f"{before}{error}")
    except StorageError as error:
        _end(target.output, fails, f"{before}{error}")
    except typer.Exit:  # why is on stderr already
        raise typer.Exit(State.UNKNOWN) from None


def _end(output: Format, state: State, text: str, **figures: float) -> NoReturn:
    """Print the result, with figures as monitoring plugins print them, and end with its code."""
    value = {"state": state.name.lower(), "text": text, **figures}
    behind = "".join(f" | {name}={figure:g}" for name, figure in figures.items())
    line = printable(text).replace("|", "/")  # a peer's text neither ends the line nor begins the figures
    show(output, value, lambda: console().print(f"{state.name} - {line}{behind}", markup=False))
    raise typer.Exit(state)
