"""Measure Mercury beside what a user would pick instead: ``python -m benchmarks [PART ...] [options]``.

Parts: ``ways`` (or ``rivals``), ``costs``, ``growth``, ``reconcile``, ``stage``, ``console``, ``metrics``,
``processes``, ``dev``; all by default. Each figure is printed as it is found, and appended to ``results.jsonl`` as a
line of JSON; the tables and plots of the results are written after each step. What the targets compare is measured
first. A run that was cut short, by hand or by ``--minutes``, is continued by the same command with ``--resume``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from benchmarks import console_pages, rival_packages
from benchmarks.child import ROOT, end_in_order
from benchmarks.ledger import NAME, Ledger, measured_commit, seconds_of
from benchmarks.machine import description
from benchmarks.report import PAGE, document, fill, other_tables, table, target_table, write_plots
from benchmarks.rounds import Bench, Record, progress
from benchmarks.steps import Course, Wanted, all_steps, left_out
from benchmarks.ways import connect
from mercury.postgres.embedded import EmbeddedPostgres

PARTS = ("ways", "costs", "growth", "reconcile", "stage", "console", "metrics", "processes", "dev")
#: Settings of the one PostgreSQL server: durable, and with the times of commits.
SETTINGS = {"track_commit_timestamp": "on", "max_connections": "200", "shared_buffers": "256MB"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--rows", type=int, help="rows of each stream and each drain (10,000)")
    parser.add_argument("--rounds", type=int, help="rounds, in which the ways take turns (3)")
    parser.add_argument(
        "--only", action="append", default=[], help="ways with this name, or whose names contain this text (repeatable)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep what the folder's results.jsonl has of the same commit and rows"
    )
    parser.add_argument("--minutes", type=float, help="begin no step that would end later; --resume measures the rest")
    parser.add_argument("--repeats", type=int, default=1, help="how often a disturbed round is repeated (1)")
    parser.add_argument("--quick", action="store_true", help="200 rows, one round, small growth, nothing is repeated")
    parser.add_argument("--largest", type=int, help="growth: the largest number of messages, sequences and bytes")
    parser.add_argument("--messages", type=int, help="console: messages in the store (1,000,000)")
    parser.add_argument("--sequences", type=int, help="console: sequences in the store (10,000)")
    parser.add_argument(
        "--store",
        action="append",
        choices=console_pages.STORES,
        help="console: only the store in this database (repeatable)",
    )
    parser.add_argument(
        "--folder", type=Path, help="for the results (benchmarks; build/benchmarks if not everything runs)"
    )
    options = parser.parse_args()
    parts = ["ways" if part == "rivals" else part for part in options.parts] or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"unknown: {', '.join(unknown)}")
    small = options.quick or options.largest or options.messages or options.sequences
    whole = not (small or options.only or options.parts or options.store)
    folder = options.folder or (ROOT / "benchmarks" if whole else ROOT / "build" / "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(
        parts=tuple(parts),
        rounds=options.rounds or (1 if options.quick else 3),
        only=tuple(options.only),
        quick=options.quick,
        largest=options.largest,
        console=console_pages.Asked(
            messages=options.messages or (2000 if options.quick else console_pages.MESSAGES),
            sequences=options.sequences or (40 if options.quick else console_pages.SEQUENCES),
            stores=tuple(options.store or console_pages.STORES),
            requests=3 if options.quick else console_pages.REQUESTS,
        ),
    )
    records = run(
        wanted,
        folder,
        rows=options.rows or (200 if options.quick else 10_000),
        resume=options.resume,
        minutes=options.minutes,
        repeats=options.repeats,
    )
    print(table(records))
    print(other_tables(records))
    print(target_table(records))


def run(
    wanted: Wanted, folder: Path, *, rows: int, resume: bool = False, minutes: float | None = None, repeats: int = 1
) -> list[Record]:
    """Measure what is wanted, and write the results into the folder after each step.

    :param rows: of each stream and each drain.
    :param resume: keep the steps that the folder's file has of the same commit.
    :param minutes: no step is begun that would end later.
    :param repeats: how often a disturbed round is repeated.
    """
    commit = measured_commit()
    if resume and commit is None:
        raise SystemExit("--resume needs a repository without changes: what was measured before cannot be compared")
    known = seconds_of([ROOT / "benchmarks" / NAME, folder / NAME])
    ledger = Ledger(folder / NAME, {"commit": commit, "rows": rows, "quick": wanted.quick}, resume=resume)
    with ExitStack() as stack:
        stack.enter_context(ledger)
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-bench-")))
        temporary.chmod(0o755)  # if this process is root, the servers run as other users
        postgres = EmbeddedPostgres(temporary / "pg", SETTINGS).start()
        stack.callback(postgres.stop)
        bench = Bench(postgres=postgres, folder=temporary, rows=rows, repeats=repeats)
        if wanted.quick:
            bench.lone, bench.pause, bench.repeats, bench.patience = 20, 0.02, 0, 120.0
            bench.settle = 0.1
        about = conditions(postgres, rows, wanted.rounds)
        about.append(f"a disturbed round is repeated {bench.repeats} times at most, and {bench.spare} in all")

        def fill_page(left: Iterable[Record] = ()) -> None:
            records = [*ledger.records, *left]
            fill(folder / PAGE, document(records, about, write_plots(records, folder)))

        course = Course(ledger=ledger, known=known, minutes=minutes, after=fill_page)
        left = course.run(all_steps(bench, wanted, postgres.create_database))
        fill_page(left_out(left, minutes))
    progress(f"results: {folder}")
    return ledger.records


def conditions(postgres: EmbeddedPostgres, rows: int, rounds: int) -> list[str]:
    """The machine, the versions, the commit and the command, a line each."""
    with connect(postgres.url()) as connection:
        row = connection.execute("show server_version").fetchone()
    server = row[0] if row is not None else "?"
    packages = ", ".join(f"{name} {version(name)}" for name in ("sqlalchemy", "psycopg", "uvicorn", "fastapi"))
    try:
        rivals = ", ".join(f"{name} {number}" for name, number in rival_packages.versions().items())
    except rival_packages.NotInstalled as error:
        rivals = str(error)
    return [
        f"`python -m benchmarks {' '.join(sys.argv[1:])}`".replace(" `", "`"),
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, commit {_commit()}, {rows:,} rows, {rounds} rounds",
        f"{description()}; load at the start {os.getloadavg()[0]:.1f}",
        f"Python {platform.python_version()}, PostgreSQL {server} (all settings durable), {packages}",
        f"rivals: {rivals}; {_programs()}",
    ]


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _programs() -> str:
    """The versions of the brokers, where dpkg knows them."""
    found = []
    for name in ("rabbitmq-server", "nats-server"):
        try:
            command = ["dpkg-query", "-W", "-f", "${Version}", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found.append(f"{name} {done.stdout or 'not installed'}")
        except FileNotFoundError:
            found.append(f"{name}: version unknown")
    return ", ".join(found)


if __name__ == "__main__":
    end_in_order()
    main()
