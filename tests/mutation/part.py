"""The part of the mutants that `make test` runs.

To run all of them takes a third of the CPU time of all tests. Which part it is follows from Mercury's own code: it is
the same for the same code, and mostly another one after a change. `make mutants` runs all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutant import Mutant

PARTS = 3


def part_of(root: Path) -> int:
    """Which part it is the turn of, for the code in a tree."""
    digest = hashlib.sha256()
    for path in sorted(root.joinpath("mercury").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()[0] % PARTS


def mutants_in(part: int, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Every third mutant, from the one at place ``part`` on: mutants of the same code stand side by side, so that each
    part has some of all code."""
    return list(mutants[part::PARTS])
