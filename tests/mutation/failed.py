"""A plugin of pytest that prints the id of each test that has failed, whole and in a line of its own."""

from __future__ import annotations

import pytest

#: How the line begins.
FAILED = "failed: "


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, ()):
            terminalreporter.write_line(f"{FAILED}{report.nodeid}")
