"""The processes of other stacks for each file of these tests, which are skipped without Java and Maven."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .peers import why_not
from .stage import Stage

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.interop)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"other stacks need Java and Maven: {reason}"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("interop")) as made:
        yield made
        assert made.later() == [], "more arrived after a cell was judged"
