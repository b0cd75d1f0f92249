"""The wire of the tests, which checks invariants all the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from mercury.simulation.checks import Checks
from mercury.testing import FakeClock, Flight, Wire

from .words import EPOCH

if TYPE_CHECKING:
    from .node import Node


class World(Wire):
    """Nodes, a clock and a wire."""

    def __init__(self) -> None:
        super().__init__(FakeClock(EPOCH))

    @property
    def now(self) -> float:
        return self.clock.now

    @now.setter
    def now(self, now: float) -> None:
        self.clock.now = now

    @property
    def wire(self) -> list[Flight]:
        """The messages in transit."""
        return self.flights

    @wire.setter
    def wire(self, flights: list[Flight]) -> None:
        self.flights = flights

    @property
    def nodes(self) -> Mapping[str, Node]:
        return cast("Mapping[str, Node]", self.processes)

    # --- queries ---------------------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        return [text for node in self.nodes.values() for text in node.checks.violations]

    def unfinished(self) -> list[str]:
        """Sequences and messages that must not be left at the end of a test."""
        probe = Checks()
        for node in self.nodes.values():
            probe.everything_ended(node.looked)
        return probe.violations

    def assert_ended(self) -> None:
        """Check that every sequence has ended on both sides, no message is left, and no invariant was violated."""
        assert self.unfinished() == []
        self.assert_sound()

    def assert_sound(self) -> None:
        """Check that no invariant was violated: nothing sent before its commit, no machine or lock misused."""
        assert self.violations() == []
