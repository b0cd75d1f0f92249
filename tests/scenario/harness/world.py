"""The wire of the stories, which looks for broken rules as it goes."""

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
        """What is on its way."""
        return self.flights

    @wire.setter
    def wire(self, flights: list[Flight]) -> None:
        self.flights = flights

    @property
    def nodes(self) -> Mapping[str, Node]:
        return cast("Mapping[str, Node]", self.processes)

    # --- looking ---------------------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        return [text for node in self.nodes.values() for text in node.checks.violations]

    def unfinished(self) -> list[str]:
        """What a story that has come to its end may not leave behind."""
        probe = Checks()
        for node in self.nodes.values():
            probe.everything_ended(node.looked)
        return probe.violations

    def assert_ended(self) -> None:
        """Every sequence has ended well on both sides, nothing is left, and no rule was broken on the way."""
        assert self.unfinished() == []
        self.assert_sound()

    def assert_sound(self) -> None:
        """No rule was broken: nothing said before it was committed, no machine or lock misused."""
        assert self.violations() == []
