"""`mercury check`: one line and an exit code for monitoring."""

from __future__ import annotations

import enum
import time
from typing import Annotated, NoReturn

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.letter_selection import seconds
from mercury.cli.output import Format, Output, console, show
from mercury.cli.stores import StoreUrl, used_store
from mercury.errors import ConfigurationError, StorageError

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
def node(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Check that a process works on the store: critical if none says so, a warning if one has become silent."""
    from mercury.operations.nodes import Nodes

    try:
        with used_store(store, config) as opened:
            lines = Nodes(opened, time.time).all()
    except (ConfigurationError, StorageError) as error:
        _end(output, State.UNKNOWN, f"the store cannot be read: {error}")
    alive = sum(each.alive for each in lines)
    silent = len(lines) - alive
    text = f"{alive} processes run, {silent} are silent"
    _end(output, State.CRITICAL if not alive else State.WARNING if silent else State.OK, text, nodes=alive)


@app.command("store")
def check_store(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Check that the store answers, and that nothing in it is wrong: see the settings `watch`.

    Critical: the store does not answer, or something needs an operator now. Warning: dead letters, failing handlers,
    stuck sequences. `mercury status` and `mercury sequences list --stuck` have the details.
    """
    from mercury.operations.operator import Operations
    from mercury.operations.overview import Severity
    from mercury.settings import load

    try:
        watch = load(config).watch
        with used_store(store, config) as opened:
            problems = Operations(opened, time.time, watch).overview().problems
    except ConfigurationError as error:
        _end(output, State.UNKNOWN, str(error))
    except StorageError as error:
        _end(output, State.CRITICAL, str(error))
    found = {each.severity for each in problems}
    text = "; ".join(each.text for each in problems if each.severity is not Severity.NOTE) or "nothing is wrong"
    if Severity.CRITICAL in found:
        _end(output, State.CRITICAL, text)
    _end(output, State.WARNING if Severity.WARNING in found else State.OK, text)


@app.command()
def queue(
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="TIME", help="Critical from this age on: 60s, 5m, 2h.")
    ] = "60s",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Check the age of the oldest message that is not acknowledged, and of the oldest that is not handled.

    Critical from --max-age on, a warning from half of it on.
    """
    from mercury.storage.sql.reads.depth import depth

    limit = seconds(max_age, "--max-age")
    try:
        with used_store(store, config) as opened, opened.transaction() as tx:
            found = depth(tx, 1)
    except ConfigurationError as error:
        _end(output, State.UNKNOWN, str(error))
    except StorageError as error:
        _end(output, State.CRITICAL, str(error))
    now = time.time()
    ages = {
        "not acknowledged": now - (found.oldest_unacknowledged or now),
        "not handled": now - (found.oldest_unhandled or now),
    }
    what, oldest = max(ages.items(), key=lambda each: each[1])
    text = f"the oldest message that is {what} waits for {oldest:.0f} s" if oldest > 0 else "nothing waits"
    state = State.CRITICAL if oldest >= limit else State.WARNING if oldest >= limit * WARNS_FROM else State.OK
    _end(output, state, text, age=round(oldest, 3))


def _end(output: Format, state: State, text: str, **figures: float) -> NoReturn:
    """Print the result, with figures as monitoring plugins print them, and end with its code."""
    value = {"state": state.name.lower(), "text": text, **figures}
    behind = "".join(f" | {name}={figure:g}" for name, figure in figures.items())
    show(output, value, lambda: console().print(f"{state.name} - {text}{behind}", markup=False))
    raise typer.Exit(state)
