"""Runs the planted defects, or those that are named: ``python -m tests.trial.planted``."""

from __future__ import annotations

import sys

from tests.trial.planted import planted, results


def main(names: list[str]) -> int:
    missed = 0
    for name, defect in planted().items():
        if names and name not in names:
            continue
        found = results(defect)
        right = any(each.verdict in defect.verdicts for each in found)
        missed += not right
        shown = ", ".join(f"{each.branch.name}: {each.verdict.value} {each.detail}" for each in found)
        print(f"{'found ' if right else 'MISSED'}  {name}  ({shown})", flush=True)  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
