"""The program: reads the options, runs one store or four, prints the results, and cleans up."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.status import Status

from mercury.errors import ConfigurationError, StorageError
from samples.queued_transaction.demo.databases import cleaned_up, databases, servers
from samples.queued_transaction.demo.figures import Figures
from samples.queued_transaction.demo.network import Network
from samples.queued_transaction.demo.options import Mode, Options, Store
from samples.queued_transaction.demo.play import play
from samples.queued_transaction.demo.processes import Broken
from samples.queued_transaction.demo.show import Progress, comparison, verdict_table
from samples.queued_transaction.demo.verdict import Outcome, judge

T = TypeVar("T")

#: Exit codes, those of `mercury`.
AS_GUARANTEED, NOT_AS_GUARANTEED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
#: Signals that end the program, with everything that it has started.
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

parser = argparse.ArgumentParser(prog="python -m samples.queued_transaction", description=__doc__)
parser.add_argument("--store", type=Store, default=Store.XA, help="memory, sql, same-db or xa")
parser.add_argument("--mode", type=Mode, default=Mode.IN_ONLY, help="in-only or in-out")
parser.add_argument("--orders", type=int, default=500)
parser.add_argument("--kills", type=int, default=6)
parser.add_argument("--loss", type=float, default=0.1)
parser.add_argument("--duplicate", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--client-postgres", metavar="URL")
parser.add_argument("--server-postgres", metavar="URL")
parser.add_argument("--out", type=Path, metavar="FOLDER")
parser.add_argument("--keep", action="store_true")
parser.add_argument("--compare", action="store_true")
parser.add_argument("--output", choices=("text", "json"), default="text")


def main() -> None:
    """Run the demonstration and exit."""
    given = vars(parser.parse_args())
    compare, output = given.pop("compare"), given.pop("output")
    options = Options(**given)
    catch_interrupts()
    console = Console(quiet=output == "json", highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        outcomes = run(options, list(Store) if compare else [options.store], console)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ConfigurationError, StorageError, Broken) as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(NOT_AS_GUARANTEED if isinstance(error, Broken) else UNUSABLE)
    if output == "json":
        values = [outcome.as_value() for outcome in outcomes]
        sys.stdout.write(json.dumps(values if compare else values[0], indent=2, ensure_ascii=False) + "\n")
    if compare:
        console.print(comparison(outcomes))
    sys.exit(AS_GUARANTEED if all(outcome.as_guaranteed for outcome in outcomes) else NOT_AS_GUARANTEED)


def end_signals() -> list[signal.Signals]:
    """The signals of `END_SIGNALS` that the parent process has not set to be ignored, as `nohup` does."""
    return [number for number in END_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def catch_interrupts() -> None:
    """Outside of an event loop, turn the signals into `KeyboardInterrupt`."""
    for number in end_signals():
        signal.signal(number, interrupt)


def interrupt(*_: object) -> None:
    """Raise `KeyboardInterrupt`, and ignore further signals, so that the clean-up is not interrupted."""
    for number in end_signals():
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run work in an event loop. A signal cancels the work, which then ends what it has started.

    :raises KeyboardInterrupt: the work was cancelled by a signal, and has ended.
    """
    task, loop = asyncio.create_task(work), asyncio.get_running_loop()

    def cancel() -> None:
        if not task.cancelling():
            task.cancel()

    for number in end_signals():
        loop.add_signal_handler(number, cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def run(options: Options, stores: list[Store], console: Console) -> list[Outcome]:
    """One run for each store."""
    outcomes = []
    with (
        folder(options) as (work, out),
        Status("PostgreSQL is being started", console=console) as status,
        servers(options, work / "pg") as (client, server),
    ):
        for store in stores:
            chosen = replace(options, store=store)
            logs = work / store.value
            logs.mkdir()
            status.update("databases are being created")
            with databases(chosen, client, server) as pair:
                status.stop()
                figures = Figures(chosen, Network.of(chosen))
                with Live(Progress(figures), console=console):
                    stopped = asyncio.run(interruptible(play(figures, pair, logs)))
                catch_interrupts()
                status.update("Spark: starting")
                status.start()

                def on_progress(what: str, _done: int, _total: int) -> None:
                    status.update(f"Spark: {what}")

                report = out / store.value if len(stores) > 1 else out
                outcomes.append(judge(figures, pair, work, report, stopped, on_progress))
                status.stop()
            tell_outcome(outcomes[-1], console)
            status.start()
    return outcomes


def tell_outcome(outcome: Outcome, console: Console) -> None:
    console.print()
    console.print(verdict_table(outcome))
    if outcome.stopped is not None:
        console.print(f"[red]the run was given up:[/red] {escape(outcome.stopped)}")
    if not outcome.as_guaranteed:
        console.print(f"[red]this store promises: {outcome.guarantee.value}[/red]")
    console.print(f"report: {outcome.report}", markup=False)
    if outcome.databases is not None:
        for name, url in outcome.as_value()["databases"].items():
            console.print(f"{name}: {url}", markup=False)
        console.print(f"logs: {outcome.folder}/{outcome.options.store.value}", markup=False)
        if None in (outcome.options.client_postgres, outcome.options.server_postgres):
            console.print(f"the embedded server runs until: mercury pg stop --folder {outcome.folder}/pg", markup=False)
    console.print()


@contextmanager
def folder(options: Options) -> Iterator[tuple[Path, Path]]:
    """A folder for files that are removed at the end, and one for the report, which remains."""
    made = Path(tempfile.mkdtemp(prefix="mercury-demo-"))
    made.chmod(0o755)  # if this process is root, the server's other user must be able to pass through
    out = made / "report" if options.out is None else options.out.resolve()
    work = made / "work"
    work.mkdir()
    try:
        with cleaned_up(options, lambda: shutil.rmtree(work, ignore_errors=True)):
            yield work, out
    except BaseException:
        if not work.exists() and not any(made.rglob("report.html")):
            shutil.rmtree(made)  # an incomplete report is useless; those of earlier stores were printed, and remain
        raise
    if not work.exists() and options.out is not None:
        made.rmdir()
