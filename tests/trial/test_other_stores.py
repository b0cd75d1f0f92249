"""Without its guards, a client goes on at a member with another store: what a trial has to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from mercury import Mercury
from tests.acceptance.app import Note
from tests.acceptance.processes import eventually
from tests.acceptance.test_stores import POLICY, Desk

from .other_stores import accept_other_stores


def test_members_with_different_stores_are_accepted_without_the_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept_other_stores(monkeypatch.setattr)
    first, second = Desk(f"sqlite:///{tmp_path}/first.db"), Desk(f"sqlite:///{tmp_path}/second.db")
    one, two = first.start(), second.start()
    try:
        with Mercury("memory:") as client:
            sender = client.to(f"failover:({one},{two})?randomize=false", policy=POLICY)
            sender.send(Note("1"))
            eventually(lambda: first.handled == ["1"] and sender.pending == 0, "the first member handles a message")
            first.stop()
            sender.send(Note("2"))
            eventually(lambda: client.dead_letters(), "the other store does not know the sequence, and is believed")
            sender.send(Note("3"))
            eventually(lambda: second.handled == ["3"], "the key goes on at the other store")
    finally:
        first.stop()
        second.stop()
