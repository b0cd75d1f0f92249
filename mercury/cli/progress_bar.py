"""The progress bar of commands that take long."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def progress_bar(err: Console, *, shown: bool) -> Progress:
    """A bar that leaves nothing behind; it is never shown where no terminal is.

    :param err: where it is drawn.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True, disable=not (shown and err.is_terminal))
