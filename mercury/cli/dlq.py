"""`mercury dlq`."""

from __future__ import annotations

import contextlib
import datetime
import enum
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show, show_table
from mercury.cli.stores import StoreUrl, used_store
from mercury.statemachine.effects import Certainty

if TYPE_CHECKING:
    from mercury.client.dead_letters import DeadLetters
    from mercury.storage.letters import DeadLetter, LetterCount, LetterFilter

app = typer.Typer(help="Dead letters: messages of a store that could not be delivered.", no_args_is_help=True)

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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation when more than one is selected.")]


@app.command("list")
def list_letters(
    direction: OfDirection = None,
    certainty: OfCertainty = None,
    endpoint: OfEndpoint = None,
    key: OfKey = None,
    correlation: OfCorrelation = None,
    reason: OfReason = None,
    older_than: OlderThan = None,
    count: Annotated[
        bool, typer.Option("--count", help="Print counts, grouped by endpoint, key, certainty and reason.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The largest number to show, the oldest first.")] = 100,
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """List the dead letters of a store, the oldest first.

    Certainty "not delivered": the other side does not have the message. "unknown": it may have it.
    """
    which = _filter(None, direction, certainty, endpoint, key, correlation, reason, older_than)
    with _letters(store, config) as letters:
        counts = letters.count(which)
        found = [] if count else letters.find(which, limit)
    if count:
        show(output, [_count_value(each) for each in counts], lambda: _show_counts(counts))
        return
    show(output, [_summary(each) for each in found], lambda: _show_list(found))
    more = sum(each.count for each in counts) - len(found)
    if more > 0:
        notes().print(f"{more} more: see them with a higher --limit, or count them with --count", markup=False)


@app.command("show")
def show_letter(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The complete identifier, as `list` prints it.")],
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Show all data of one dead letter, with its body."""
    which = _filter([identifier], None, None, None, None, None, None, None)
    with _letters(store, config) as letters:
        found = letters.find(which)
    if not found:
        fail(FAILED, f"there is no dead letter {identifier}")
    value = _details(found[0])
    rows = [(name.replace("_", " "), _text(name, each)) for name, each in value.items() if each not in (None, "", [])]
    show(output, value, lambda: show_table(("property", "value"), rows, nothing=""))


@app.command()
def redrive(
    ids: Ids = None,
    direction: OfDirection = None,
    certainty: OfCertainty = None,
    endpoint: OfEndpoint = None,
    key: OfKey = None,
    correlation: OfCorrelation = None,
    reason: OfReason = None,
    older_than: OlderThan = None,
    everything: All = False,
    allow_duplicate: Annotated[
        bool,
        typer.Option("--allow-duplicate", help="Also redrive messages that may arrive twice; see above."),
    ] = False,
    yes: Yes = False,
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Redrive dead letters: by identifier, by filter, or --all of them.

    An outbound message is sent again with its MessageID, after the messages that wait under its key. An inbound request
    is delivered to its service again; no response to it is sent. A process that runs on the store does both.

    A message that may arrive twice is refused unless --allow-duplicate is given: one with certainty "unknown", because
    the other side may have the message; and an inbound request whose sender received a fault for it.
    Exit code 1: a dead letter was refused, or none was found.
    """
    from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED

    which = _filter(ids, direction, certainty, endpoint, key, correlation, reason, older_than)
    with _letters(store, config) as letters:
        _confirm(letters, which, everything, yes, "redrive")
        result = letters.redrive(which, allow_duplicate=allow_duplicate)
    value = {
        "redriven": [letter.id for letter in result.done],
        "refused": [{"id": letter.id, "reason": why} for letter, why in result.refused],
    }
    show(
        output,
        value,
        lambda: console().print(
            f"{len(result.done)} redriven: a process that runs on this store sends or delivers them", markup=False
        ),
    )
    for letter, why in result.refused if output is Format.TEXT else ():
        hint = " (--allow-duplicate)" if why in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN) else ""
        notes().print(f"{letter.id} not redriven: {why}{hint}", markup=False)
    if result.refused or not result.done:
        raise typer.Exit(FAILED)


@app.command()
def discard(
    ids: Ids = None,
    direction: OfDirection = None,
    certainty: OfCertainty = None,
    endpoint: OfEndpoint = None,
    key: OfKey = None,
    correlation: OfCorrelation = None,
    reason: OfReason = None,
    older_than: OlderThan = None,
    everything: All = False,
    yes: Yes = False,
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Delete dead letters for good: by identifier, by filter, or --all of them."""
    which = _filter(ids, direction, certainty, endpoint, key, correlation, reason, older_than)
    with _letters(store, config) as letters:
        _confirm(letters, which, everything, yes, "discard")
        count = letters.discard(which)
    show(output, {"discarded": count}, lambda: console().print(f"{count} discarded", markup=False))


# --- selection -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _letters(store: str | None, config: Path | None) -> Iterator[DeadLetters]:
    from mercury.client.dead_letters import DeadLetters

    with used_store(store, config) as opened:
        yield DeadLetters(opened, time.time)


def _filter(
    ids: list[str] | None,
    direction: Side | None,
    certainty: Certainty | None,
    endpoint: str | None,
    key: str | None,
    correlation: str | None,
    reason: str | None,
    older_than: str | None,
) -> LetterFilter:
    from mercury.storage.letters import Direction, LetterFilter

    return LetterFilter(
        ids=frozenset(ids) if ids else None,
        direction=Direction(direction.value) if direction is not None else None,
        certainty=certainty,
        endpoint=endpoint,
        key=key,
        correlation=correlation,
        reason=reason,
        dead_before=time.time() - _seconds(older_than) if older_than is not None else None,
    )


def _seconds(span: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", span.strip())
    if found is None:
        fail(UNUSABLE, f"--older-than: {span!r} is not a time span such as 90s, 30m, 12h, 7d or 4w")
    return float(found[1]) * UNITS[found[2]]


def _confirm(letters: DeadLetters, which: LetterFilter, everything: bool, yes: bool, what: str) -> None:
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


# --- output ----------------------------------------------------------------------------------------------------------


def _summary(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "direction": letter.direction.value,
        "certainty": letter.certainty.value,
        "reason": letter.reason,
        "dead_at": letter.dead_at,
        "message_id": letter.message_id,
        "endpoint": letter.endpoint,
        "key": letter.key,
        "sequence": letter.sequence,
        "number": letter.number,
        "action": letter.action,
        "correlation": letter.correlation,
        "damaged": letter.damaged,
    }


def _details(letter: DeadLetter) -> dict[str, Any]:
    return _summary(letter) | {
        "created_at": letter.created_at,
        "relates_to": letter.relates_to,
        "expects_response": letter.expects_response,
        "callback": letter.callback,
        "is_fault": letter.is_fault,
        "disowned": letter.disowned,
        "headers": [header.decode(errors="backslashreplace") for header in letter.headers],
        "payload": letter.payload.decode(errors="backslashreplace"),
    }


def _text(name: str, value: object) -> str:
    if name in ("dead_at", "created_at") and isinstance(value, float):
        return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat(" ", "seconds")
    return " ".join(value) if isinstance(value, list) else str(value)


def _show_list(found: list[DeadLetter]) -> None:
    headings = ("id", "dead since", "direction", "endpoint or service", "key", "number", "certainty", "reason")
    rows = [
        (
            letter.id,
            _text("dead_at", letter.dead_at),
            letter.direction.value,
            letter.endpoint or "(responses)",
            letter.key,
            "" if letter.number is None else str(letter.number),
            letter.certainty.value,
            letter.reason,
        )
        for letter in found
    ]
    show_table(headings, rows, nothing="there are no dead letters")


def _count_value(count: LetterCount) -> dict[str, Any]:
    return {
        "count": count.count,
        "direction": count.direction.value,
        "endpoint": count.endpoint,
        "key": count.key,
        "certainty": count.certainty.value,
        "reason": count.reason,
    }


def _show_counts(counts: list[LetterCount]) -> None:
    headings = ("dead letters", "direction", "endpoint or service", "key", "certainty", "reason")
    rows = [
        (
            str(each.count),
            each.direction.value,
            each.endpoint or "(responses)",
            each.key,
            each.certainty.value,
            each.reason,
        )
        for each in counts
    ]
    show_table(headings, rows, nothing="there are no dead letters")
