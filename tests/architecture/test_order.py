"""Processes that share the tests begin the long ones first, and one takes the files that share Spark; nothing else
changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer

from tests.order import KINDS, ROOT, TOGETHER, pytest_collection_modifyitems, pytest_xdist_make_scheduler, rank

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


def sharing(how: str) -> Any:
    """What shares the tests between two processes."""
    options = {"dist": how, "tx": ["2*popen"]}
    config: Any = SimpleNamespace(getvalue=options.__getitem__)
    return pytest_xdist_make_scheduler(config, log=Producer("tests", enabled=False))


def test_files_that_share_spark_go_to_one_process_and_every_other_file_by_itself() -> None:
    scope_of = sharing("loadfile")._split_scope
    assert scope_of("tests/reconcile/test_session.py::test_a") == scope_of("tests/reconcile/test_command.py::test_b")
    assert scope_of("tests/xa/test_order.py::test_a[x::y]") == scope_of("tests/xa/test_order.py::test_b")
    assert scope_of("tests/xa/test_order.py::test_a") != scope_of("tests/xa/test_places.py::test_a")
    assert all((ROOT.parent / folder).is_dir() for folder in TOGETHER)


def test_another_way_of_sharing_tests_is_left_as_it_is() -> None:
    assert sharing("load") is None
