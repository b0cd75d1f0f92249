"""Simulates seeds until one has a violation. Exit code 1 = a violation was found, 0 = none was.

``python -m tests.mutation.hunt FIRST END STEP`` runs every STEPth seed from FIRST up to END, without END.
"""

from __future__ import annotations

import sys

from mercury.simulation.run import run_seed


def main(seeds: range) -> int:
    for seed in seeds:
        try:
            report = run_seed(seed, messages=60, stop_early=True)
        except Exception as error:
            # A defect may also show itself by an error that nothing was prepared for.
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            return 1
        if report.violations:
            sys.stdout.write(f"seed {seed}: {report.violations[0]}\n")
            return 1
    sys.stdout.write(f"{len(seeds)} seeds, nothing found\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(range(*map(int, sys.argv[1:]))))
