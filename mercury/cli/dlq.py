"""`mercury dlq`."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mercury.cli.acting import By, Note, actor
from mercury.cli.config import ConfigFile
from mercury.cli.letter_selection import (
    All,
    EvenIfUnknown,
    Ids,
    OfCertainty,
    OfCorrelation,
    OfDirection,
    OfEndpoint,
    OfKey,
    OfReason,
    OlderThan,
    Side,
    Yes,
    confirm,
    letter_filter,
)
from mercury.cli.output import FAILED, Format, Output, console, fail, notes, show, show_table
from mercury.cli.stores import StoreUrl, used_store

if TYPE_CHECKING:
    from mercury.client.dead_letters import DeadLetters
    from mercury.operations.letter_actions import LetterActions, Progress
    from mercury.storage.letters import DeadLetter, LetterCount

Result = TypeVar("Result")

app = typer.Typer(help="Dead letters: messages of a store that could not be delivered.", no_args_is_help=True)


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
    which = letter_filter(None, direction, certainty, endpoint, key, correlation, reason, older_than)
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
    which = letter_filter([identifier], None, None, None, None, None, None, None)
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
    allow_duplicate: EvenIfUnknown = False,
    yes: Yes = False,
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Redrive dead letters: by identifier, by filter, or --all of them.

    An outbound message is sent again with its MessageID, after the messages that wait under its key. An inbound request
    is delivered to its service again; no response to it is sent. A process that runs on the store does both.

    A message that may arrive twice is refused unless --even-if-unknown is given: one with certainty "unknown", because
    the other side may have the message; and an inbound request whose sender received a fault for it.
    Exit code 1: a dead letter was refused, or none was found.
    """
    which = letter_filter(ids, direction, certainty, endpoint, key, correlation, reason, older_than)
    with _acting(store, config) as (letters, actions):
        confirm(letters, which, everything, yes, "redrive")
        done = actions.redrive(
            which, actor(by), allow_duplicate=allow_duplicate, progress=_progress(output), reason=note
        )
    _show_done(output, done, "redriven", "a process that runs on this store sends or delivers them")


@app.command()
def redirect(
    to: Annotated[str, typer.Argument(metavar="URL", help="The endpoint that they are sent to.")],
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this one; repeatable.")] = None,
    certainty: OfCertainty = None,
    endpoint: OfEndpoint = None,
    key: OfKey = None,
    correlation: OfCorrelation = None,
    reason: OfReason = None,
    older_than: OlderThan = None,
    everything: All = False,
    allow_duplicate: EvenIfUnknown = False,
    yes: Yes = False,
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Send outbound dead letters to another endpoint, each under its key and with its MessageID.

    A message that the old endpoint may have is refused unless --even-if-unknown is given. Exit code 1: a dead letter
    was refused, or none was found.
    """
    which = letter_filter(ids, Side.OUTBOUND, certainty, endpoint, key, correlation, reason, older_than)
    with _acting(store, config) as (letters, actions):
        confirm(letters, which, everything, yes, "redirect")
        done = _possible(
            lambda: actions.redirect(
                which, to, actor(by), allow_duplicate=allow_duplicate, progress=_progress(output), reason=note
            )
        )
    _show_done(output, done, "redirected", f"a process that runs on this store sends them to {to}")


@app.command()
def edit(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The complete identifier, as `list` prints it.")],
    body: Annotated[str, typer.Option("--body", metavar="XML", help="The new body: one XML element.")],
    allow_duplicate: EvenIfUnknown = False,
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Send a copy of a dead letter with another body, as a new message, in place of the dead letter.

    Exit code 1: there is no such dead letter, or the other side may have the original and --even-if-unknown is not
    given.
    """
    with _acting(store, config) as (_, actions):
        new = _possible(
            lambda: actions.send_edited(
                identifier, body.encode(), actor(by), allow_duplicate=allow_duplicate, reason=note
            )
        )
    text = f"{identifier} is sent as the new message {new}"
    show(output, {"id": identifier, "message_id": new}, lambda: console().print(text, markup=False))


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
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Delete dead letters for good: by identifier, by filter, or --all of them."""
    which = letter_filter(ids, direction, certainty, endpoint, key, correlation, reason, older_than)
    with _acting(store, config) as (letters, actions):
        confirm(letters, which, everything, yes, "discard")
        count = actions.discard(which, actor(by), progress=_progress(output), reason=note).done
    show(output, {"discarded": count}, lambda: console().print(f"{count} discarded", markup=False))


# --- selection -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _acting(store: str | None, config: Path | None) -> Iterator[tuple[DeadLetters, LetterActions]]:
    from mercury.client.dead_letters import DeadLetters
    from mercury.operations.letter_actions import LetterActions

    with used_store(store, config) as opened:
        yield DeadLetters(opened, time.time), LetterActions(opened, time.time)


def _possible(act: Callable[[], Result]) -> Result:
    """The result of an action; one that is not possible ends the command."""
    from mercury.operations.acting import NotPossible

    try:
        return act()
    except NotPossible as error:
        fail(FAILED, str(error))


def _progress(output: Format) -> Callable[[Progress], None]:
    """Prints how far an action on many dead letters is, on a terminal."""

    def print_it(so_far: Progress) -> None:
        if output is Format.TEXT and sys.stderr.isatty():
            notes().print(f"{so_far.done} done, {so_far.refused} refused", markup=False)

    return print_it


def _show_done(output: Format, done: Progress, what: str, follows: str) -> None:
    """Print the result of an action on many dead letters; exit code 1 if one was refused, or none was done."""
    from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED

    value = {what: list(done.ids), "refused": [{"id": name, "reason": why} for name, why in done.refusals]}
    show(output, value, lambda: console().print(f"{done.done} {what}: {follows}", markup=False))
    for name, why in done.refusals if output is Format.TEXT else ():
        hint = " (--even-if-unknown)" if why in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN) else ""
        notes().print(f"{name} not {what}: {why}{hint}", markup=False)
    if done.refused or not done.done:
        raise typer.Exit(FAILED)


@contextlib.contextmanager
def _letters(store: str | None, config: Path | None) -> Iterator[DeadLetters]:
    from mercury.client.dead_letters import DeadLetters

    with used_store(store, config) as opened:
        yield DeadLetters(opened, time.time)


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
