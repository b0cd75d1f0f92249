"""Only `mercury.statemachine` changes the counters of a machine; see `counters` for the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from .counters import written_counters

ROOT = Path(__file__).resolve().parents[2]


def test_no_counter_of_a_machine_is_written_outside_the_state_machines() -> None:
    assert written_counters(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "record.machine.ack_due = 1.0",
        "record.machine.unanswered -= 1",
        "record.machine.expires_at: float = 1.0",
        "del record.machine.failure",
        "machine = record.machine\nmachine.closed = True",
        "own = record.machine\nown.closed = True",
        "own, other = 1, record.machine\nother.closed = True",
        "own = RMSSequence.start(rm, now)\nown.identifier = 'urn:a'",
        "def f(sequence: RMDSequence) -> None:\n    sequence.used = True",
        "if (own := record.machine):\n    own.cut = True",
        "for record.machine.state in states: pass",
        "setattr(record.machine, 'state', state)",
        "record.machine = replace(record.machine, closed=True)",
        "record.machine = dataclasses.replace(record.machine, closed=True)",
        "record.machine.received.add(7)",
        "own = record.machine\nown.passed.discard(1, 2)",
    ],
)
def test_a_counter_that_is_written_from_outside_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "mercury" / "engine").mkdir(parents=True)
    (tmp_path / "mercury" / "engine" / "planted.py").write_text(text, encoding="utf-8")
    (only,) = written_counters(tmp_path)
    assert only.startswith("mercury/engine/planted.py:")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mercury/engine/reads.py", "due = record.machine.ack_due\nrecord.due = record.machine.next_due(policy)"),
        ("mercury/engine/gives.py", "record.machine = machine\nrecord.machine.handle(event, now, policy)"),
        ("mercury/statemachine/own.py", "machine.state = state"),
    ],
)
def test_reading_a_counter_or_giving_a_record_a_machine_is_no_breach(tmp_path: Path, path: str, text: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text, encoding="utf-8")
    assert written_counters(tmp_path) == []
