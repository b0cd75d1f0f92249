"""Each guard is removed in a copy of the tree, and its test must fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mutation.mutant import Change, Mutant
from tests.mutation.mutants import MUTANTS, TESTED
from tests.mutation.run import caught, copy_tree, environment, take_out
from tests.mutation.symbols import MovedGuardError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all guards."""
    folder = tmp_path_factory.mktemp("mutants") / "whole"
    folder.mkdir()
    copy_tree(folder)
    return folder


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, whole: Path) -> Iterator[dict[str, Future[tuple[bool, str]]]]:
    """What became of the mutants that are asked for: each is a process of its own, so they run side by side."""
    chosen = {
        item.callspec.params["mutant"].name
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "mutant" in item.callspec.params
    }
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {mutant.name: pool.submit(caught, mutant, whole) for mutant in MUTANTS if mutant.name in chosen}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_without_its_guard_mercury_fails_a_check(mutant: Mutant, verdicts: dict[str, Future[tuple[bool, str]]]) -> None:
    was_caught, how = verdicts[mutant.name].result()
    assert was_caught, f"nothing failed without it: {how}"


def test_a_tree_with_all_its_guards_passes_the_hunt(whole: Path) -> None:
    """Otherwise "caught" would mean nothing."""
    was_caught, how = caught(Mutant("none", (), seeds=range(12)), whole)
    assert not was_caught, how
    assert "nothing found" in how


def test_a_check_that_cannot_run_has_not_caught_anything(whole: Path) -> None:
    was_caught, how = caught(Mutant("none", (), test="tests/unit/test_errors.py::test_that_is_not_there"), whole)
    assert not was_caught, how


def test_every_test_that_is_named_passes_with_all_guards(whole: Path) -> None:
    """Otherwise "caught" would mean nothing here too."""
    named = [mutant.test for mutant in TESTED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *named],
        cwd=whole,
        env=environment(whole),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_mutant_has_a_name_of_its_own_and_one_check() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert all(bool(mutant.seeds) != bool(mutant.test) for mutant in MUTANTS)


def test_a_guard_that_has_moved_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("nothing of the kind\n")
    with pytest.raises(MovedGuardError):
        take_out(Mutant("moved", (Change("file", "if guarded:", "if True:"),)), tmp_path)
