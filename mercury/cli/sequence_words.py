"""Words and numbers of sequences, for lists and for one sequence."""

from __future__ import annotations

from typing import Any


def listed(ranges: Any) -> str:
    """Ranges of message numbers."""
    from mercury.statemachine.ranges import as_text

    return as_text(ranges) or "none"


def state_in_words(status: dict[str, Any]) -> str:
    """A state in words, with the number of messages that wait although the state alone does not show it."""
    from mercury.statemachine.words import BY_NAME

    words: str = BY_NAME.get(status["state"].partition(" ")[0], status["state"])
    waiting = status["waiting"]
    if not waiting:
        return words
    if status["side"] == "destination":
        return f"{words}, {waiting} not handled yet"
    # IDLE counts numbered messages only: others wait for a number, or are acknowledged and not answered.
    return f"open, {waiting} not sent or not answered yet" if words == BY_NAME["IDLE"] else words
