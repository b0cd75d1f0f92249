"""Several changes of one transaction as one statement, for databases whose queries may contain changes.

A round trip costs more than a small change. Changes without a result wait, and are sent with the next
statement as its ``with`` list. All parts of such a statement see the rows as they were before it, and their order is
not defined: no two may change the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """A change without a result."""

    #: The name of the table that it changes.
    table: str
    text: str
    #: By name; no placeholder in the text is without a name.
    parameters: dict[str, Any]


def together(changes: Sequence[Change], text: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A statement with changes before it: its text and its parameters.

    :param text: the statement, whose result is that of the whole.
    """
    every = dict(parameters)
    for place, change in enumerate(changes):
        every |= {f"{_prefix(place)}{name}": value for name, value in change.parameters.items()}
    return _joined(tuple(change.text for change in changes), text), every


def _prefix(place: int) -> str:
    return f"change_{place}_"


# The texts are those of prepared statements and of tables of the schema: few.


@lru_cache(maxsize=128)
def _joined(changes: tuple[str, ...], last: str) -> str:
    if not changes:
        return last
    parts = (f"change_{place} as ({text.replace('%(', f'%({_prefix(place)}')})" for place, text in enumerate(changes))
    more = f", {last[5:]}" if last[:5].lower() == "with " else f" {last}"
    return f"with {', '.join(parts)}{more}"
