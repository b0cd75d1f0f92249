"""The arguments that select sequences."""

from __future__ import annotations

from types import MappingProxyType

from mercury.choices import chosen
from mercury.operations.calls.arguments import Arguments
from mercury.statemachine.tables import RmdState, RmsState
from mercury.storage.searching import SequenceFilter

#: Their names.
SELECTION = ("side", "states", "endpoint", "key_prefix", "active", "stuck")
SIDES = MappingProxyType({"source": True, "destination": False})
#: The names of all states, of sources and of destinations.
STATES = MappingProxyType({each.name: each.name for kind in (RmsState, RmdState) for each in kind})


def selection(given: Arguments) -> SequenceFilter:
    """The filter. The name of a state that there is not is an error: nothing would be found by it."""
    side = given.text("side")
    return SequenceFilter(
        source=None if side is None else chosen(SIDES, side, "side"),
        states=frozenset(chosen(STATES, each, "states") for each in sorted(given.texts("states") or ())),
        endpoint=given.text("endpoint"),
        key_prefix=given.text("key_prefix"),
        active=given.flag("active"),
        stuck=given.flag("stuck"),
    )
