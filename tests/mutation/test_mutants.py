"""Each guard is removed in a copy of the tree, and its test must fail. These are some of the guards, others with each
change of the code; `make mutants` removes all of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from tests.mutation.mutant import Change, Mutant
from tests.mutation.mutants import MUTANTS
from tests.mutation.part import PARTS, mutants_in, part_of
from tests.mutation.run import ROOT, Trees, caught, copy_tree, environment, passing, take_out
from tests.mutation.symbols import MovedGuardError, replaced
from tests.postgres import PostgresServer
from tests.prepared import PreparedProcess, prepared_process

#: Those whose turn it is.
CHOSEN = tuple(mutants_in(part_of(ROOT), MUTANTS))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all guards."""
    folder = tmp_path_factory.mktemp("mutants") / "whole"
    folder.mkdir()
    copy_tree(folder)
    return folder


@pytest.fixture(scope="module")
def trees(whole: Path) -> Trees:
    return Trees(whole)


@pytest.fixture(scope="module")
def process(whole: Path) -> Iterator[PreparedProcess]:
    """It runs the checks."""
    with prepared_process(tree=whole) as started:
        yield started


@pytest.fixture(scope="module")
def postgres(postgres_server: PostgresServer) -> str:
    """The URL of the PostgreSQL that the checks share: to start one takes longer than most of their tests."""
    return postgres_server.create()


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, trees: Trees, process: PreparedProcess, postgres: str
) -> Iterator[dict[str, Future[tuple[bool, str]]]]:
    """What became of the mutants that are asked for: each is a process of its own, so they run side by side."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    of_mutants = [item for item in items if hasattr(item, "callspec") and "mutant" in item.callspec.params]
    chosen = {item.callspec.params["mutant"].name for item in of_mutants}
    every = any(
        item.originalname == test_every_test_that_has_caught_a_mutant_passes_with_all_guards.__name__ for item in items
    )
    asked = [mutant for mutant in CHOSEN if every or mutant.name in chosen]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {mutant.name: pool.submit(caught, mutant, trees, process, postgres) for mutant in asked}


@pytest.mark.parametrize("mutant", CHOSEN, ids=lambda mutant: mutant.name)
def test_without_its_guard_mercury_fails_a_check(mutant: Mutant, verdicts: dict[str, Future[tuple[bool, str]]]) -> None:
    was_caught, how = verdicts[mutant.name].result()
    assert was_caught, f"nothing failed without it: {how}"


def test_a_tree_with_all_its_guards_passes_the_hunt(trees: Trees, process: PreparedProcess) -> None:
    """Otherwise "caught" would mean nothing."""
    was_caught, how = caught(Mutant("none", (), seeds=range(12)), trees, process)
    assert not was_caught, how
    assert "nothing found" in how


def test_a_check_that_cannot_run_has_not_caught_anything(trees: Trees, process: PreparedProcess) -> None:
    missing = Mutant("none", (), test="tests/unit/test_errors.py::test_that_is_not_there")
    was_caught, how = caught(missing, trees, process)
    assert not was_caught, how


def test_a_check_that_hangs_is_killed_and_has_not_caught_anything(
    trees: Trees, whole: Path, process: PreparedProcess
) -> None:
    assert process.run(["http.server", "--bind", "127.0.0.1", "0"], whole, environment(whole), seconds=1).returncode < 0
    was_caught, how = caught(Mutant("none", (), seeds=range(12)), trees, process, limit=0.1)
    assert not was_caught
    assert how == "its check hung, and was killed after 0.1 s"


def test_a_check_imports_the_tree_that_it_is_run_in(tmp_path: Path, process: PreparedProcess) -> None:
    """Otherwise it would pass, or fail, for what is in another."""
    (tmp_path / "mercury.py").write_text("import sys; sys.exit(7)\n")
    assert process.run(["mercury"], tmp_path, environment(tmp_path), seconds=60).returncode == 7


def test_every_test_that_has_caught_a_mutant_passes_with_all_guards(
    verdicts: dict[str, Future[tuple[bool, str]]], whole: Path, postgres: str
) -> None:
    """Otherwise "caught" would mean nothing here too."""
    of_tests = [verdicts[mutant.name].result() for mutant in CHOSEN if mutant.test]
    failed = sorted({how for was_caught, how in of_tests if was_caught})
    assert failed
    passed, output = passing(failed, whole, postgres)
    assert passed, output


def test_one_of_many_tests_that_fails_is_noticed(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"test_{number}.py").write_text(f"def test_number():\n    assert {number} != 3\n")
    tests = [f"test_{number}.py::test_number" for number in range(5)]
    passed, output = passing(tests, tmp_path, "")
    assert not passed
    assert "test_3.py" in output
    assert passing([*tests[:3], tests[4]], tmp_path, "")[0]


def test_a_tree_is_whole_again_when_the_next_mutant_gets_it(tmp_path: Path) -> None:
    """Otherwise a mutant would be caught by what the one before has changed or left."""
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "file.py").write_text("guarded = True\n")
    trees = Trees(whole)
    with trees.without(Mutant("first", (Change("file", "True", "False"),))) as first:
        (first / ".hypothesis").mkdir()
    with trees.without(Mutant("none", ())) as second:
        assert second == first
        assert [(path.name, path.read_text()) for path in second.iterdir()] == [("file.py", "guarded = True\n")]
    assert (whole / "file.py").read_text() == "guarded = True\n"


def test_every_mutant_finds_its_guard_and_its_test() -> None:
    """Also those that are not run now."""
    for change in [change for mutant in MUTANTS for change in mutant.changes]:
        replaced(change.symbol, change.before, change.after, ROOT)
    tests = [mutant.test for mutant in MUTANTS if mutant.test]
    assert [test for test in tests if not (ROOT / test.partition("::")[0]).is_file()] == []
    files = chain((ROOT / "tests").rglob("*.py"), (ROOT / "mercury" / "testing").rglob("*.py"))
    defined = {
        name for file in files for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert {test.partition("[")[0].rpartition("::")[2] for test in tests} <= defined


def test_one_change_of_the_code_after_another_runs_all_mutants(tmp_path: Path) -> None:
    code = tmp_path / "mercury" / "package" / "module.py"
    code.parent.mkdir(parents=True)
    seen = set()
    for change in range(20):
        code.write_text(f"{change}\n")
        part = part_of(tmp_path)
        assert part == part_of(tmp_path)
        seen.add(part)
    assert seen == set(range(PARTS))
    assert sorted(mutant.name for part in seen for mutant in mutants_in(part, MUTANTS)) == sorted(
        mutant.name for mutant in MUTANTS
    )


def test_every_mutant_has_a_name_of_its_own_and_one_check() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert all(bool(mutant.seeds) != bool(mutant.test) for mutant in MUTANTS)


def test_a_guard_that_has_moved_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("nothing of the kind\n")
    with pytest.raises(MovedGuardError):
        take_out(Mutant("moved", (Change("file", "if guarded:", "if True:"),)), tmp_path)
