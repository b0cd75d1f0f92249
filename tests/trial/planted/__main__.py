"""Runs the planted defects, or those that are named: ``python -m tests.trial.planted``."""

from __future__ import annotations

import sys

from tests.trial.planted import planted, results, without_defect


def main(names: list[str]) -> int:
    """Exit code 1 = a defect was not found, or a right deployment was called wrong."""
    wrong = 0
    runs = [("found", "MISSED", *each) for each in planted().items()]
    runs += [("right", "WRONG", *each) for each in without_defect().items()]
    for good, bad, name, defect in runs:
        if names and name not in names:
            continue
        found = results(defect)
        is_good = any(each.verdict in defect.verdicts for each in found)
        wrong += not is_good
        shown = ", ".join(f"{each.branch.name}: {each.verdict.value} {each.detail}" for each in found)
        print(f"{good if is_good else bad:6}  {name}  ({shown})", flush=True)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
