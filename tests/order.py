"""The order in which several processes begin the files of tests.

Each process takes the next file when it has finished one. A file that takes minutes and is begun last would keep one
process busy while the others have nothing to do, so files are begun by their kind: the longest first.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent

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
