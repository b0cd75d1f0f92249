"""`mercury trial`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show
from mercury.cli.progress_bar import progress_bar
from mercury.errors import StorageError

if TYPE_CHECKING:
    from mercury.trial.result import BranchResult, TrialResult
    from mercury.trial.run import Trial

#: What a shell reports for a program that Ctrl-C has ended.
INTERRUPTED = 130


def trial(
    scenario: Annotated[
        Path | None, typer.Argument(metavar="SCENARIO.toml", help="What to start and what to try; see --example.")
    ] = None,
    branches: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Run N branches of the tree, chosen by the seed.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Run branches whose name contains this, or matches it with *.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print the tree, and run nothing.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a scenario with comments.")] = False,
    seed: Annotated[int, typer.Option(help="Chooses the branches of --branches.")] = 1,
    lanes: Annotated[
        int, typer.Option(min=1, max=32, help="Deployments that run side by side, each with its own programs.")
    ] = 1,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a report.")] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the databases and the logs of the programs here.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Break the programs of a deployment at every step of a message's way, and check what arrived.

    The branches of the tree are steps (send, commit, receive, handle, ...), moments (before, during, after), and faults
    (orderly stop, SIGKILL, pause, network, database) on the active and on the standby member. Each has a verdict:
    right, lost, repeated, altered, unexpected, out of order, two serve, or slow.

    Exit code 0: every branch is right. 1: at least one is wrong. 2: a branch could not run, or the trial.
    """
    from mercury.trial.reading import EXAMPLE, read
    from mercury.trial.tree import branches as all_branches
    from mercury.trial.tree import lines, selected

    if example:
        typer.echo(EXAMPLE.read_text(encoding="utf-8"), nl=False)
        return
    if scenario is None:
        fail(UNUSABLE, "name the file of a scenario; --example prints one")
    read_scenario = read(scenario)
    chosen = selected(all_branches(read_scenario), only, branches, seed)
    if not chosen:
        fail(UNUSABLE, f"no branch matches {only!r}; --list prints their tree")
    if list_:
        names = [branch.name for branch in chosen]
        show(output, names, lambda: typer.echo("\n".join(lines(chosen))))
        return
    if report is not None:
        _check_report(report)
    from mercury.trial.run import Trial

    with _progress(shown=output is Format.TEXT, planned=len(chosen)) as on_branch:
        running = Trial(read_scenario, chosen, seed=seed, lanes=lanes, folder=keep, on_branch=on_branch)
        try:
            result = asyncio.run(_run(running))
        except StorageError as error:
            fail(UNUSABLE, str(error))
    if report is not None:
        from mercury.trial.report import write_report

        write_report(result, report)
    show(output, result.as_json(), lambda: _print(result, report))
    if result.is_wrong:
        raise typer.Exit(FAILED)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not result.is_complete:
        raise typer.Exit(UNUSABLE)


async def _run(running: Trial) -> TrialResult:
    """Run it; the first Ctrl-C ends all programs, and what ran is reported."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.interrupt)
    try:
        return await running.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _check_report(file: Path) -> None:
    """Fail before the trial runs, not after it, if its report cannot be written."""
    if importlib.util.find_spec("jinja2") is None:
        fail(UNUSABLE, "--report needs Jinja2: install the extra 'console' of mercury-rm")
    if not file.parent.is_dir():
        fail(UNUSABLE, f"--report: there is no folder {file.parent}")


@contextlib.contextmanager
def _progress(*, shown: bool, planned: int) -> Iterator[Callable[[BranchResult, int], None]]:
    """Shows a bar, and above it a line for each branch that is not right."""
    err = notes()
    with progress_bar(err, shown=shown) as bar:
        task = bar.add_task("", total=planned)

        def on_branch(result: BranchResult, _planned: int) -> None:
            bar.update(task, advance=1, description=result.branch.name[:60])
            if shown and result.verdict.value != "right":
                style = "red" if result.verdict.is_wrong else "yellow"
                err.print(
                    f"[{style}]{result.verdict.value}[/{style}] {escape(result.branch.name)}: {escape(result.detail)}"
                )

        yield on_branch


def _print(result: TrialResult, report: Path | None) -> None:
    from mercury.trial.judging import UNKNOWN, Verdict
    from mercury.trial.result import median

    out = console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for verdict, count in reversed(result.counts.items()):
        style = "green" if verdict is Verdict.RIGHT else "yellow" if verdict in UNKNOWN else "red"
        table.add_row(f"{count:,}", f"[{style if count else 'dim'}]{verdict.value}[/]")
    out.print(
        f"{result.scenario}: {len(result.branches)} of {result.planned} branches in {result.seconds:.0f} s",
        markup=False,
    )
    out.print(table)
    if result.streamed:
        gaps = result.gaps
        said = str(result.stream) or "each arrived once, unaltered and in order"
        out.print(f"stream: {result.streamed:,} messages: {said}", markup=False)
        limit = "" if result.limit is None else f"; permitted {result.limit:.1f} s"
        if gaps:
            out.print(
                f"time to fail over: p50 {median(gaps):.2f} s, max {gaps[-1]:.2f} s (lease {result.lease:g} s{limit})"
            )
    if result.again:
        out.print(f"{result.again:,} of them were run a second time: their step was not reached at the first")
    if result.left:
        out.print(f"[red]left[/red]: {result.left:,} messages in a store that should be empty")
    if report is not None:
        out.print(f"report: {report}", markup=False)
    if result.interrupted:
        out.print("[yellow]interrupted[/yellow]: the other branches did not run")
