"""`mercury simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mercury.cli.output import FAILED, Format, Output, console, notes, show
from mercury.texts import counted

if TYPE_CHECKING:
    from mercury.simulation.run import SeedReport, Summary


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds to run.")] = 100,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    messages: Annotated[int, typer.Option(min=1, help="The smallest number of messages of each seed.")] = 100,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes; default: one for each processor.")
    ] = None,
    sqlite: Annotated[bool, typer.Option(help="Use SQLite files, with crashes at any statement.")] = False,
    trace: Annotated[bool, typer.Option(help="Print every event of one seed.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Run the protocol with a virtual clock, a faulty network and crashes, all by a seed, and check for violations.

    Each seed is a simulation of two to five nodes with the real engine, state machines, codecs and stores. The same
    seed replays the same trace.
    """
    from mercury.simulation.run import Summary, run_seed

    if trace:
        out = console() if output is Format.TEXT else notes()
        report = run_seed(seed, messages=messages, on_line=lambda line: out.print(line, markup=False), sqlite=sqlite)
        found = [report] if report.violations else []
        summary = Summary.begin()
        summary.add(report)
    else:
        summary, found = _run(
            range(seed, seed + seeds), messages, processes, sqlite=sqlite, progress=output is Format.TEXT
        )
    value = {
        "seeds": summary.seeds,
        "messages": summary.messages,
        "requests": summary.requests,
        "crashes": summary.crashes,
        "virtual_seconds": round(summary.virtual_seconds, 3),
        "seconds": round(summary.seconds, 3),
        "cpu_seconds": round(summary.cpu_seconds, 3),
        "violations": summary.violations,
        "found": [
            {"seed": report.seed, "violations": list(report.violations)} for report in found if report.violations
        ],
    }
    show(output, value, lambda: _print_summary(summary, found, messages, sqlite=sqlite))
    if summary.violations:
        raise typer.Exit(FAILED)


def _run(
    seeds: range, messages: int, processes: int | None, *, sqlite: bool, progress: bool
) -> tuple[Summary, list[SeedReport]]:
    from mercury.simulation.run import Summary, run_seeds

    summary, found = Summary.begin(), []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    err = notes()
    with Progress(*columns, console=err, transient=True, disable=not (progress and err.is_terminal)) as bar:
        task = bar.add_task("seeds", total=len(seeds))
        for report in run_seeds(seeds, messages=messages, processes=processes, sqlite=sqlite):
            summary.add(report)
            if report.violations:
                found.append(report)
            bar.advance(task)
    return summary, found


def _print_summary(summary: Summary, found: list[SeedReport], messages: int, *, sqlite: bool) -> None:
    from mercury.simulation.scenario import scenario_of

    out = console()
    for report in found:
        for option in scenario_of(report.seed, messages=messages, statements=sqlite).describe():
            out.print(option, markup=False)
        for violation in report.violations:
            out.print(f"seed {report.seed}: {violation}", markup=False)
    seeds = counted(summary.seeds, "seed", "seeds")
    messages_sent = counted(summary.messages, "message", "messages")
    out.print(f"{seeds}, {messages_sent}, {counted(summary.requests, 'request', 'requests')} on the wire")
    took = f"{summary.seconds:.1f} s, {summary.cpu_seconds:.1f} s of CPU"
    crashes = counted(summary.crashes, "crash", "crashes")
    out.print(f"{crashes}, {summary.virtual_seconds:.0f} virtual seconds in {took}")
    out.print(counted(summary.violations, "violation", "violations"))
    if found:
        out.print(f"replay one with: mercury simulate --seed {found[0].seed} --trace")
