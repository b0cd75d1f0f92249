"""Runs trials of Mercury's own deployments, one after the other, and prints one table: ``python -m tests.trial``.

``make trial`` runs a selection of each tree, even over steps and faults; ``make trial-all`` runs the whole trees.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from mercury.errors import MercuryError
from mercury.trial.reading import read
from mercury.trial.report import write_report
from mercury.trial.result import BranchResult, TrialResult
from mercury.trial.run import Trial
from mercury.trial.tree import branches, selected
from tests.trial.summary import is_right, table

HERE = Path(__file__).parent
#: How many branches of each tree are run: 544.
BRANCHES = {"pair": 126, "fleet": 126, "standby": 126, "relay": 126, "stage": 40}


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 = all planned branches ran and are right; 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.trial", description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(BRANCHES), help=f"of {', '.join(BRANCHES)}; default: all")
    parser.add_argument("--all", action="store_true", help="run the whole trees")
    parser.add_argument("--branches", type=int, help="of each tree, in place of those of make trial")
    parser.add_argument("--seed", type=int, default=13, help="chooses the branches")
    parser.add_argument("--lanes", type=int, default=2, help="deployments of a kind that run side by side")
    parser.add_argument("--reports", type=Path, default=Path(), help="the folder for trial-KIND.html")
    chosen = parser.parse_args(arguments)
    results: list[TrialResult] = []
    for kind in chosen.kinds:
        most = None if chosen.all else chosen.branches or BRANCHES[kind]
        try:
            results.append(_run(kind, most, chosen.seed, chosen.lanes))
        except MercuryError as error:
            print(f"{kind}: {error}")  # noqa: T201
            break
        except KeyboardInterrupt:
            break
        write_report(results[-1], chosen.reports / f"trial-{kind}.html")
    for line in table(results):
        print(line)  # noqa: T201
    if not is_right(results) or len(results) < len(chosen.kinds):
        print("NOT all right")  # noqa: T201
        return 1
    print("all right: nothing lost, repeated, altered or out of order; each time to fail over is permitted")  # noqa: T201
    return 0


def _run(kind: str, most: int | None, seed: int, lanes: int) -> TrialResult:
    scenario = read(HERE / f"{kind}.toml")
    chosen = selected(branches(scenario), None, most, seed)
    began, done = time.monotonic(), 0

    def on_branch(result: BranchResult, planned: int) -> None:
        nonlocal done
        done += 1
        said = (
            f"{time.monotonic() - began:5.0f} s  {kind} {done}/{planned}  {result.verdict.value:12} "
            f"{result.gaps.longest:5.2f} s  {result.branch.name} {result.detail}"
        )
        print(said.rstrip(), flush=True)  # noqa: T201

    return asyncio.run(Trial(scenario, chosen, seed=seed, lanes=lanes, on_branch=on_branch).run())


if __name__ == "__main__":
    sys.exit(main())
