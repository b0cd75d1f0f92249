"""The order in which several processes begin the files of tests, and which files one process takes together.

Each process takes the next file when it has finished one. A file that takes minutes and is begun last would keep one
process busy while the others have nothing to do, so files are begun by their kind: the longest first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parent

#: Folders whose files one process takes together, because they share what takes long to start and much memory: Spark.
TOGETHER = ("tests/reconcile",)

#: The folders of tests by the duration of their longest file.
KINDS = (
    *("mutation", "acceptance", "interop", "reconcile", "chaos", "console", "docs", "storage", "trial", "benchmarks"),
    *("xa", "conformance", "simulation", "deploy", "property", "unit", "scenario", "architecture"),
)


def rank(file: Path) -> int:
    """The place of a file's kind; 0 for a kind that has none."""
    kind = file.relative_to(ROOT).parts[0]
    return KINDS.index(kind) if kind in KINDS else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests of a process that shares them with others. The tests of one file keep their order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.path))


def share_of(test: str) -> str:
    """What one process takes: the file of a test, or its folder."""
    file = test.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Give processes files as ``--dist loadfile`` does, and folders."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  only the process that shares the tests needs it

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
