"""Each guard is taken out in a copy of the tree: what is named must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.mutants import MUTANTS, Change, Mutant
from tests.mutation.run import MovedGuardError, caught, take_out


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_without_its_guard_mercury_fails_a_check(mutant: Mutant) -> None:
    was_caught, how = caught(mutant)
    assert was_caught, f"nothing failed without it: {how}"


def test_a_tree_with_all_its_guards_passes_the_hunt() -> None:
    """Otherwise "caught" would mean nothing."""
    was_caught, how = caught(Mutant("none", (), seeds=12))
    assert not was_caught, how
    assert "nothing found" in how


def test_a_guard_that_has_moved_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("nothing of the kind\n")
    with pytest.raises(MovedGuardError):
        take_out(Mutant("moved", (Change("file.py", "if guarded:", "if True:"),)), tmp_path)
