"""Processes that share the tests begin the long ones first; nothing else changes their order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import KINDS, ROOT, pytest_collection_modifyitems, rank

SHORT, LONG = ROOT / "unit/wire/test_fuzz.py", ROOT / "mutation/test_mutants.py"


def item(path: Path, name: str) -> Any:
    return SimpleNamespace(path=path, name=name)


def test_every_kind_of_tests_has_a_place() -> None:
    kinds = {file.relative_to(ROOT).parts[0] for file in ROOT.glob("*/**/test_*.py")}
    assert sorted(KINDS) == sorted(kinds)


def test_long_files_are_first_and_the_tests_of_a_file_keep_their_order() -> None:
    items = [item(SHORT, "a"), item(SHORT, "b"), item(LONG, "d"), item(LONG, "c")]
    shared: Any = SimpleNamespace(workerinput={})
    pytest_collection_modifyitems(shared, items)
    assert [each.name for each in items] == ["d", "c", "a", "b"]


def test_process_that_runs_all_tests_alone_keeps_their_order() -> None:
    items = [item(SHORT, "a"), item(LONG, "b")]
    alone: Any = SimpleNamespace()
    pytest_collection_modifyitems(alone, items)
    assert [each.name for each in items] == ["a", "b"]


def test_kind_that_is_new_is_begun_first() -> None:
    assert rank(ROOT / "brand_new/test_it.py") == rank(LONG) == 0
