"""Measure Mercury beside what a user would pick instead: ``python -m benchmarks [PART ...] [options]``.

Parts: ``ways`` (or ``rivals``), ``costs``, ``growth``, ``reconcile``, ``stage``, ``console``, ``metrics``, ``dev``; all
by default. Each figure is printed as it is found, appended to ``results.jsonl`` as a line of JSON, and at the end put
into the tables and plots of the results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from benchmarks import console_pages, dev_start, growth, pairs, rival_packages, stage
from benchmarks.brokers import Unavailable
from benchmarks.child import ROOT, ChildEnded, end_in_order
from benchmarks.costs import all_costs, reconciled
from benchmarks.machine import description
from benchmarks.report import PAGE, document, fill, other_tables, table, target_table, write_plots
from benchmarks.rounds import Bench, GivenUp, Record, one_round, progress
from benchmarks.ways import Kind, connect, kinds
from mercury.postgres.embedded import EmbeddedPostgres

PARTS = ("ways", "costs", "growth", "reconcile", "stage", "console", "metrics", "dev")
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
    records = run(
        parts,
        folder,
        rows=options.rows or (200 if options.quick else 10_000),
        rounds=options.rounds or (1 if options.quick else 3),
        only=options.only,
        quick=options.quick,
        largest=options.largest,
        console=console_pages.Asked(
            messages=options.messages or (2000 if options.quick else console_pages.MESSAGES),
            sequences=options.sequences or (40 if options.quick else console_pages.SEQUENCES),
            stores=tuple(options.store or console_pages.STORES),
            requests=3 if options.quick else console_pages.REQUESTS,
        ),
    )
    print(table(records))
    print(other_tables(records))
    print(target_table(records))


def run(
    parts: Iterable[str],
    folder: Path,
    *,
    rows: int,
    rounds: int,
    only: list[str],
    quick: bool,
    largest: int | None = None,
    console: console_pages.Asked | None = None,
) -> list[Record]:
    """Run the parts and write the results into the folder."""
    records: list[Record] = []
    with ExitStack() as stack:
        lines = stack.enter_context((folder / "results.jsonl").open("w"))
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-bench-")))
        temporary.chmod(0o755)  # if this process is root, the servers run as other users
        postgres = EmbeddedPostgres(temporary / "pg", SETTINGS).start()
        stack.callback(postgres.stop)
        bench = Bench(postgres=postgres, folder=temporary, rows=rows)
        if quick:
            bench.lone, bench.pause, bench.repeats, bench.patience = 20, 0.02, 0, 120.0
            bench.settle = 0.1
        about = conditions(postgres, rows, rounds)

        def keep(found: Iterable[Record]) -> None:
            for record in found:
                records.append(record)
                lines.write(json.dumps(record) + "\n")
                lines.flush()

        work: dict[str, Callable[[], Iterable[Record]]] = {
            "ways": lambda: all_ways(bench, rounds, only),
            "costs": lambda: all_costs(bench),
            "growth": lambda: growth.all_growth(bench, quick=quick, largest=largest),
            "reconcile": lambda: reconciled(20_000 if quick else 1_000_000),
            "console": lambda: console_pages.all_consoles(
                postgres.create_database, temporary, console or console_pages.Asked()
            ),
            "metrics": lambda: pairs.metrics_in_turns(bench, *((3, 100) if quick else ())),
            "dev": lambda: dev_start.all_starts(temporary),
            "stage": lambda: stage.all_stages(postgres.create_database, temporary, quick=quick),
        }
        for part in parts:
            keep(work[part]())
    fill(folder / PAGE, document(records, about, write_plots(records, folder)))
    progress(f"results: {folder}")
    return records


def chosen_kinds(only: list[str]) -> list[Kind]:
    """The ways whose names contain one of these texts; a text that is a whole name means that way only."""
    every = kinds()
    names = {kind.name.lower() for kind in every}
    texts = [text.lower() for text in only]
    return [
        kind
        for kind in every
        if not only or any(text == kind.name.lower() if text in names else text in kind.name.lower() for text in texts)
    ]


def all_ways(bench: Bench, rounds: int, only: list[str]) -> Iterable[Record]:
    """All ways in each round; one that cannot run is skipped with the reason."""
    skipped: set[str] = set()
    chosen = chosen_kinds(only)
    for number in range(rounds):
        for kind in chosen:
            if kind.name in skipped:
                continue
            try:
                found = one_round(bench, kind, number)
            except (Unavailable, rival_packages.NotInstalled, GivenUp, ChildEnded) as error:
                skipped.add(kind.name)
                progress(f"round {number + 1} of {rounds}: {kind.name}: skipped: {error}")
                yield {"part": "skipped", "way": kind.name, "round": number, "reason": str(error)}
                continue
            speeds = ", ".join(f"{record['phase']} {float(str(record['rows_per_second'])):.0f}/s" for record in found)
            progress(f"round {number + 1} of {rounds}: {kind.name}: {speeds}")
            yield from found


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
