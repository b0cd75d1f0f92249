"""The options by which commands select dead letters, and the confirmation for more than one."""

from __future__ import annotations

import enum
import re
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.output import FAILED, UNUSABLE, fail
from mercury.statemachine.effects import Certainty

if TYPE_CHECKING:
    from mercury.client.dead_letters import DeadLetters
    from mercury.storage.letters import LetterFilter

#: Seconds of the units that a time span may have.
UNITS = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800})


class Side(enum.Enum):
    """Whether a dead letter was to be sent or was received."""

    OUTBOUND = "outbound"
    INBOUND = "inbound"


Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Complete identifiers, as `list` prints them.")
]
OfDirection = Annotated[Side | None, typer.Option("--direction", help="outbound: sent here; inbound: received here.")]
OfCertainty = Annotated[
    Certainty | None,
    typer.Option("--certainty", help="Whether it is certain that the message was not delivered."),
]
OfEndpoint = Annotated[
    str | None, typer.Option("--endpoint", help="The complete URL it was sent to, or service it was received for.")
]
OfKey = Annotated[str | None, typer.Option("--key", help="The complete key it was sent under.")]
OfCorrelation = Annotated[
    str | None, typer.Option("--correlation", help="The complete correlation that the application gave.")
]
OfReason = Annotated[str | None, typer.Option("--reason", help="A part of the reason, in upper or lower case.")]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Dead letters older than this: 90s, 30m, 12h, 7d, 4w."),
]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]
EvenIfUnknown = Annotated[
    bool,
    typer.Option(
        "--even-if-unknown", "--allow-duplicate", help="Also messages that may arrive twice by it; see above."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation when more than one is selected.")]


def letter_filter(
    ids: list[str] | None,
    direction: Side | None,
    certainty: Certainty | None,
    endpoint: str | None,
    key: str | None,
    correlation: str | None,
    reason: str | None,
    older_than: str | None,
) -> LetterFilter:
    """The filter that the options of a command describe."""
    from mercury.storage.letters import Direction, LetterFilter

    return LetterFilter(
        ids=frozenset(ids) if ids else None,
        direction=Direction(direction.value) if direction is not None else None,
        certainty=certainty,
        endpoint=endpoint,
        key=key,
        correlation=correlation,
        reason=reason,
        dead_before=time.time() - seconds(older_than, "--older-than") if older_than is not None else None,
    )


def seconds(span: str, option: str) -> float:
    """The seconds of a time span such as ``90s``; another text ends the command."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", span.strip())
    if found is None:
        fail(UNUSABLE, f"{option}: {span!r} is not a time span such as 90s, 30m, 12h, 7d or 4w")
    return float(found[1]) * UNITS[found[2]]


def confirm(letters: DeadLetters, which: LetterFilter, everything: bool, yes: bool, what: str) -> None:
    """Check the selection, and ask for confirmation if it has more than one letter.

    :raises typer.Exit: nothing is selected, an identifier is unknown, or the confirmation was refused or is not
        possible because the input is not a terminal.
    """
    from mercury.storage.letters import EVERY_LETTER

    if which == EVERY_LETTER and not everything:
        fail(UNUSABLE, f"nothing chosen: give identifiers, a filter, or --all to {what} every dead letter")
    number = sum(each.count for each in letters.count(which))
    if which.ids is not None and number < len(which.ids):
        found = {letter.id for letter in letters.find(which)}
        missing = min(which.ids - found)
        fail(
            FAILED, f"{len(which.ids) - number} of these are not dead letters, for example {missing}; nothing was done"
        )
    if not number:
        fail(FAILED, "no dead letter matches")
    if number == 1 or yes:
        return
    if not sys.stdin.isatty():
        fail(UNUSABLE, f"{number} dead letters are selected: give --yes to {what} them all")
    if not typer.confirm(f"{what} {number} dead letters?", err=True):
        fail(FAILED, "nothing was done")
