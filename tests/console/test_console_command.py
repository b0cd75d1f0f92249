"""The process of `mercury console`."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mercury.cli import console as command
from mercury.cli.output import Format
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
