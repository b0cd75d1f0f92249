"""The arguments that select dead letters."""

from __future__ import annotations

from mercury.operations.calls.arguments import Arguments
from mercury.statemachine.effects import Certainty
from mercury.storage.letters import Direction, LetterFilter

#: Their names; those that select by what letters have in common.
CONDITIONS = ("direction", "certainty", "endpoint", "key", "correlation", "reason", "dead_before")
SELECTION = ("ids", *CONDITIONS)
#: The most letters that one call changes.
MOST_AT_ONCE = 100


def selection(given: Arguments) -> LetterFilter:
    """The filter."""
    return LetterFilter(
        ids=given.texts("ids"),
        direction=given.choice("direction", Direction),
        certainty=given.choice("certainty", Certainty),
        endpoint=given.text("endpoint"),
        key=given.text("key"),
        correlation=given.text("correlation"),
        reason=given.text("reason"),
        dead_before=given.seconds("dead_before"),
    )


def chosen(given: Arguments) -> frozenset[str]:
    """Identifiers of letters, for a call that changes them: a bounded number."""
    ids = given.texts("ids")
    if not ids or len(ids) > MOST_AT_ONCE:
        raise ValueError(f"ids is not a list of 1 to {MOST_AT_ONCE} identifiers")
    return ids
