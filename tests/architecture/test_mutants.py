"""Each mutant names the symbol whose guard it removes, and the guard is in the source of that symbol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.mutant import Mutant
from tests.mutation.mutants import MUTANTS
from tests.mutation.symbols import MovedGuardError, place_of, replaced

ROOT = Path(__file__).resolve().parents[2]
MODULE = """\
GUARD = 1

def outside():
    if guarded:
        pass

class House:
    def inside(self):
        if guarded:
            pass
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one module."""
    (tmp_path / "house.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_guard_of_each_mutant_is_once_in_the_source_of_its_symbol(mutant: Mutant) -> None:
    for change in mutant.changes:
        _, text = replaced(change.symbol, change.before, change.after, ROOT)
        compile(text, change.symbol, "exec")


def test_text_is_replaced_in_the_symbol_that_is_named_only(tree: Path) -> None:
    _, text = replaced("house:House.inside", "if guarded:", "if True:", tree)
    assert text == "if guarded:".join(MODULE.split("if guarded:")[:2]) + "if True:" + MODULE.split("if guarded:")[2]
    place = place_of("house:GUARD", tree)
    assert MODULE[place.begin : place.end] == "GUARD = 1\n"


@pytest.mark.parametrize(
    "symbol", ["attic", "house:cellar", "house:House.outside", "house:outside.guarded", "house:House.inside.guarded"]
)
def test_symbol_that_is_not_there_is_refused(symbol: str, tree: Path) -> None:
    with pytest.raises(MovedGuardError):
        replaced(symbol, "if guarded:", "if True:", tree)


def test_guard_that_is_in_another_symbol_or_twice_is_refused(tree: Path) -> None:
    with pytest.raises(MovedGuardError, match="0 times"):
        replaced("house:GUARD", "if guarded:", "if True:", tree)
    with pytest.raises(MovedGuardError, match="2 times"):
        replaced("house", "if guarded:", "if True:", tree)
