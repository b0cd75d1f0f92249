"""The options by which commands select dead letters, and the confirmation for more than one."""

from __future__ import annotations

import enum
import re
import sys
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import typer

from mercury.cli.acting import Call
from mercury.cli.output import FAILED, UNUSABLE, fail
from mercury.statemachine.effects import Certainty

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The options that select dead letters by what they have in common, except their direction."""

    certainty: OfCertainty = None
    endpoint: OfEndpoint = None
    key: OfKey = None
    correlation: OfCorrelation = None
    reason: OfReason = None
    older_than: OlderThan = None

    def arguments(self, ids: list[str] | None, direction: Side | None) -> dict[str, Any]:
        """The arguments of a call that selects these letters; only those that are given."""
        before = time.time() - seconds(self.older_than, "--older-than") if self.older_than is not None else None
        every = {
            "ids": sorted(set(ids)) if ids else None,
            "direction": direction.value if direction is not None else None,
            "certainty": self.certainty.value if self.certainty is not None else None,
            "endpoint": self.endpoint,
            "key": self.key,
            "correlation": self.correlation,
            "reason": self.reason,
            "dead_before": before,
        }
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """The options of commands that may change many dead letters."""

    everything: All = False
    yes: Yes = False


def seconds(span: str, option: str) -> float:
    """The seconds of a time span such as ``90s``; another text ends the command."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", span.strip())
    if found is None:
        fail(UNUSABLE, f"{option}: {span!r} is not a time span such as 90s, 30m, 12h, 7d or 4w")
    return float(found[1]) * UNITS[found[2]]


def confirm(call: Call, which: dict[str, Any], many: Many, what: str) -> dict[str, Any]:
    """Check the selection, and ask for confirmation if it has more than one letter.

    :param which: the arguments that select them.
    :returns: the arguments that select those that were counted, and none that dies while the question waits.
    :raises typer.Exit: nothing is selected, an identifier is unknown, or the confirmation was refused or is not
        possible because the input is not a terminal.
    """
    if not which and not many.everything:
        fail(UNUSABLE, f"nothing chosen: give identifiers, a filter, or --all to {what} every dead letter")
    ids = which.get("ids")
    if ids is None:
        which = {"dead_before": time.time()} | which
    number = sum(each["count"] for each in call("dlq.count", **which))
    if ids is not None and number < len(ids):
        missing = min(set(ids) - set(identifiers(call, which)))
        text = f"{len(ids) - number} of these are not dead letters, for example {missing}; nothing was done"
        fail(FAILED, text)
    if not number:
        fail(FAILED, "no dead letter matches")
    if number == 1 or many.yes:
        return which
    if not sys.stdin.isatty():
        fail(UNUSABLE, f"{number} dead letters are selected: give --yes to {what} them all")
    if not typer.confirm(f"{what} {number} dead letters?", err=True):
        fail(FAILED, "nothing was done")
    return which


def identifiers(call: Call, which: dict[str, Any]) -> list[str]:
    """The identifiers of letters that are selected by identifier, and by more conditions."""
    return [each["id"] for each in call("dlq.list", limit=len(which["ids"]), **which)]
