"""The process of `mercury console`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from mercury import Mercury
from mercury.cli import console as command
from mercury.cli.output import Format
from mercury.console import opening
from mercury.console.console import Console
from mercury.storage.opening import open_sql_store


def test_collections_of_garbage_leave_out_all_that_the_console_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    open_sql_store(url).close()
    counts: list[int] = []
    monkeypatch.setattr(command, "run_until_signal", lambda *_: counts.append(gc.get_freeze_count()))
    command.console(store=url, port=0, output=Format.JSON)
    assert counts[0] > 50_000
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("within", ["the command", "a process"])
def test_the_console_gets_the_decision_log_of_the_settings_when_no_database_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str
) -> None:
    url, log, given = f"sqlite:///{tmp_path / 'shop.db'}", "postgresql://x@127.0.0.1:9/x", []
    open_sql_store(url).close()
    made = opening.console_of

    def console_of(*words: Any, **options: Any) -> Console:
        given.append(options["decision_log"])
        return made(*words, **options)

    monkeypatch.setattr(opening, "console_of", console_of)
    monkeypatch.setenv("MERCURY_XA_DECISION_LOG", log)
    monkeypatch.setenv("MERCURY_CONSOLE_TOKEN", "the-token-of-operators")
    if within == "the command":
        monkeypatch.setattr(command, "run_until_signal", lambda *_: None)
        command.console(store=url, port=0, output=Format.JSON)
    else:
        with Mercury(url) as mercury:
            mercury.console_router()
    assert given == [log]
