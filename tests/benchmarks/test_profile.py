"""The profile of a short run names both sides, their functions and statements."""

from __future__ import annotations

import sys

import pytest

from benchmarks import profile

pytestmark = pytest.mark.slow


def test_profile_of_a_short_drain_has_every_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["profile", "--rows", "50", "--top", "200", "--only", "functions", "--only", "commit"]
    )
    profile.main()
    text = capsys.readouterr().out
    for part in ("Totals", "Functions of the server", "Functions of the client", "Functions of the application"):
        assert part in text
    for side in ("client", "server"):
        assert f"Statements in the database of the {side}" in text
    assert "mercury/engine/delivery/handler_call.py" in text
    assert "INSERT received" in text
