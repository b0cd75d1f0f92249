"""``python -m tests.chaos``: kills real processes at every crash point, and compares both sides' tables at the end.

``python -m tests.chaos experiment``: the dissertation's experiment with each kind of store. ``python -m tests.chaos
soak``: an hour of orders with random faults. Exit code 1 = a guarantee is violated, 2 = the command could not start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from tests.chaos import cells, experiment, report
from tests.chaos.cells import Cell
from tests.chaos.driver import Driver, Result
from tests.chaos.lanes import Lane, run_all
from tests.chaos.soak import command as soak

LANES = max(1, len(os.sched_getaffinity(0)))
ORDERS = 16


def say(text: str) -> None:
    """Print progress to stderr; stdout has only the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def run_matrix(options: argparse.Namespace) -> int:
    """Run all selected cells of the matrix."""
    every = list(cells.matrix())
    chosen = [cell for cell in every if not cell.never and all(word in cell.name for word in options.only)]
    if not chosen:
        say(f"error: no combination has {' and '.join(map(repr, options.only))} in its name; --list has them all")
        return 2
    if options.list:
        for cell in chosen:
            sys.stdout.write(f"{cell.name}\n")
        return 0
    chosen = cells.in_turn(chosen, options.seed)[options.skip :]
    results: list[Result] = []
    begun = time.monotonic()

    def tell(result: Result) -> None:
        results.append(result)
        say(report.line(len(results), len(chosen), result))
        if not result.good:
            say(f"  {report.errors_of(result)}\n{result.output if options.verbose else ''}")

    def do(lane: Lane, cell: Cell) -> Result:
        return Driver(lane.site, lane.forks, options.seed).run(cell)

    run_all(chosen, do, lanes=options.lanes, orders=options.orders, tell=tell)
    figures = report.totals(every, results)
    if options.output == "json":
        sys.stdout.write(json.dumps(report.as_json(options.seed, every, results), indent=2) + "\n")
    else:
        sys.stdout.write(report.matrix(every, results) + "\n\n")
        sys.stdout.write("\n".join(f"{name}: {count}" for name, count in figures.items()) + "\n")
        sys.stdout.write(f"seed {options.seed}, {time.monotonic() - begun:.0f} s\n")
    return 0 if all(result.good for result in results) else 1


def run_experiment(options: argparse.Namespace) -> int:
    """Run the experiment with every form and seed."""
    outcomes: list[experiment.Outcome] = []
    plans = experiment.plans(range(options.seed, options.seed + options.seeds))

    def tell(outcome: experiment.Outcome) -> None:
        outcomes.append(outcome)
        found = str(outcome.difference) or "nothing lost or repeated"
        say(f"{len(outcomes):4}/{len(plans)}  {outcome.plan.name}: {outcome.kills} kills, {found}")

    run_all(plans, experiment.run, lanes=options.lanes, orders=experiment.ORDERS, tell=tell)
    wrong = experiment.wrong(outcomes)
    if options.output == "json":
        sys.stdout.write(json.dumps(experiment.as_json(outcomes), indent=2) + "\n")
    else:
        sys.stdout.write(experiment.table(outcomes, f"{experiment.COMMAND} --seeds {options.seeds}") + "\n")
    for what in wrong:
        say(f"wrong: {what}")
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    _add_common(parser)
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="only cells whose name contains it; repeatable"
    )
    text = "skip so many cells, to continue an interrupted run with this seed"
    parser.add_argument("--skip", type=int, default=0, metavar="N", help=text)
    parser.add_argument("--orders", type=int, default=ORDERS, help="messages in each run; default: %(default)s")
    parser.add_argument("--list", action="store_true", help="print the combinations and do nothing")
    parser.add_argument("--verbose", action="store_true", help="print the processes' output for cells that fail")
    parser.set_defaults(run=run_matrix)
    kinds = parser.add_subparsers()
    other = kinds.add_parser("experiment", description="The dissertation's experiment.")
    _add_common(other)
    other.add_argument("--seeds", type=int, default=50, help="how many; default: %(default)s")
    other.set_defaults(run=run_experiment)
    soaking = kinds.add_parser("soak", description="Orders for an hour, with random faults.")
    soak.add_to(soaking, say, sys.stdout.write)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=int, default=0, help="selects the visits to the points at which processes are stopped"
    )
    parser.add_argument("--lanes", type=int, default=LANES, help="how many run at once; default: %(default)s")
    parser.add_argument("--output", choices=("text", "json"), default="text")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
