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
    """Statements that share their parameters: changes, each of another table, or a statement with a result."""

    #: The names of the tables that it changes.
    tables: tuple[str, ...]
    texts: tuple[str, ...]
    #: By name; no placeholder in the texts is without a name.
    parameters: dict[str, Any]


def together(before: Sequence[Change], last: Change) -> tuple[str, dict[str, Any]]:
    """A statement with changes before it: its text and its parameters.

    :param last: its last text is the statement, whose result is that of the whole.
    """
    if not before and len(last.texts) == 1:
        return last.texts[0], last.parameters
    parameters = dict(last.parameters)
    for place, change in enumerate(before):
        parameters |= {f"{_prefix(place)}{name}": value for name, value in change.parameters.items()}
    return _joined(tuple([change.texts for change in before]), last.texts), parameters


def _prefix(place: int) -> str:
    return f"change_{place}_"


# The texts are those of prepared statements and of tables of the schema: few.


@lru_cache(maxsize=128)
def _joined(before: tuple[tuple[str, ...], ...], last: tuple[str, ...]) -> str:
    changes = [text.replace("%(", f"%({_prefix(place)}") for place, texts in enumerate(before) for text in texts]
    parts = [f"part_{number} as ({text})" for number, text in enumerate([*changes, *last[:-1]])]
    end = last[-1]
    more = f", {end[5:]}" if end[:5].lower() == "with " else f" {end}"
    return f"with {', '.join(parts)}{more}"
