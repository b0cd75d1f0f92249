"""Simulate seeds until one shows a violation: exit code 1 when one does, 0 when none does."""

from __future__ import annotations

import sys

from mercury.simulation.run import run_seed


def main(seeds: int) -> int:
    for seed in range(seeds):
        try:
            report = run_seed(seed, messages=60)
        except Exception as error:
            # A defect may also show itself by an error that nothing was prepared for.
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            return 1
        if report.violations:
            sys.stdout.write(f"seed {seed}: {report.violations[0]}\n")
            return 1
    sys.stdout.write(f"{seeds} seeds, nothing found\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
