"""Which sequences arrive at this process, as far as it remembers."""

from __future__ import annotations

from mercury.engine.delivery import received
from mercury.engine.delivery.received import LATELY, Received

NOW = 1000.0


def test_a_sequence_arrives_here_for_some_seconds_after_its_last_message() -> None:
    known = Received()
    assert not known.lately("a", NOW)
    known.note(["a", "b"], NOW)
    known.note(["a"], NOW + 1)
    assert known.lately("a", NOW + LATELY)
    assert not known.lately("b", NOW + LATELY)
    assert not known.lately("a", NOW + LATELY + 1)


def test_the_oldest_are_forgotten_because_peers_choose_how_many_there_are() -> None:
    known = Received()
    known.note([f"a{number}" for number in range(received.MOST)], NOW)
    known.note(["a0", "b"], NOW)
    assert known.lately("a0", NOW), "it was noted again"
    assert known.lately("b", NOW)
    assert not known.lately("a1", NOW)
    assert known.lately("a2", NOW)
