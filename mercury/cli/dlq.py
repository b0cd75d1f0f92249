"""`mercury dlq`."""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from mercury.cli.acting import Acting, Target, act, calling
from mercury.cli.letter_selection import (
    Conditions,
    EvenIfUnknown,
    Ids,
    Many,
    OfDirection,
    Side,
    confirm,
    identifiers,
)
from mercury.cli.option_groups import grouped
from mercury.cli.output import FAILED, Format, console, fail, notes, show, show_table

app = typer.Typer(help="Dead letters: messages of a store that could not be delivered.", no_args_is_help=True)

#: The letters of one call, which is one transaction.
AT_ONCE = 100


@app.command("list")
@grouped
def list_letters(
    which: Conditions,
    target: Target,
    direction: OfDirection = None,
    count: Annotated[
        bool, typer.Option("--count", help="Print counts, grouped by endpoint, key, certainty and reason.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The largest number to show, the oldest first.")] = 100,
) -> None:
    """List the dead letters of a store, the oldest first.

    Certainty "not delivered": the other side does not have the message. "unknown": it may have it.
    """
    selected = which.arguments(None, direction)
    with calling(target) as call:
        counts = call("dlq.count", **selected)
        found = [] if count else call("dlq.list", limit=limit, **selected)
    if count:
        show(target.output, counts, lambda: _show_counts(counts))
        return
    show(target.output, found, lambda: _show_list(found))
    more = sum(each["count"] for each in counts) - len(found)
    if more > 0:
        notes().print(f"{more} more: see them with a higher --limit, or count them with --count", markup=False)


@app.command("show")
@grouped
def show_letter(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The complete identifier, as `list` prints it.")],
    target: Target,
) -> None:
    """Show all data of one dead letter, with its body."""
    with calling(target) as call:
        found = call("dlq.show", id=identifier)
    if found is None:
        fail(FAILED, f"there is no dead letter {identifier}")
    rows = [(name.replace("_", " "), _text(name, each)) for name, each in found.items() if each not in (None, "", [])]
    show(target.output, found, lambda: show_table(("property", "value"), rows, nothing=""))


@app.command()
@grouped
def redrive(
    which: Conditions,
    many: Many,
    acting: Acting,
    ids: Ids = None,
    direction: OfDirection = None,
    allow_duplicate: EvenIfUnknown = False,
) -> None:
    """Redrive dead letters: by identifier, by filter, or --all of them.

    An outbound message is sent again with its MessageID, after the messages that wait under its key. An inbound request
    is delivered to its service again; no response to it is sent. A process that runs on the store does both.

    A message that may arrive twice is refused unless --even-if-unknown is given: one with certainty "unknown", because
    the other side may have the message; and an inbound request whose sender received a fault for it.
    Exit code 1: a dead letter was refused, or none was found.
    """
    selected = which.arguments(ids, direction)
    done, refused = _all(acting, selected, many, "redrive", even_if_unknown=allow_duplicate)
    _show_done(acting.output, done, refused, "redriven", "a process that runs on this store sends or delivers them")


@app.command()
@grouped
def redirect(
    to: Annotated[str, typer.Argument(metavar="URL", help="The endpoint that they are sent to.")],
    which: Conditions,
    many: Many,
    acting: Acting,
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this one; repeatable.")] = None,
    allow_duplicate: EvenIfUnknown = False,
) -> None:
    """Send outbound dead letters to another endpoint, each under its key and with its MessageID.

    A message that the old endpoint may have is refused unless --even-if-unknown is given. Exit code 1: a dead letter
    was refused, or none was found.
    """
    selected = which.arguments(ids, Side.OUTBOUND)
    done, refused = _all(acting, selected, many, "redirect", to=to, even_if_unknown=allow_duplicate)
    _show_done(acting.output, done, refused, "redirected", f"a process that runs on this store sends them to {to}")


@app.command()
@grouped
def edit(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The complete identifier, as `list` prints it.")],
    body: Annotated[str, typer.Option("--body", metavar="XML", help="The new body: one XML element.")],
    acting: Acting,
    allow_duplicate: EvenIfUnknown = False,
) -> None:
    """Send a copy of a dead letter with another body, as a new message, in place of the dead letter.

    Exit code 1: there is no such dead letter, or the other side may have the original and --even-if-unknown is not
    given.
    """
    act(
        acting,
        "dlq.edit",
        lambda done: f"{identifier} is sent as the new message {done['message_id']}",
        id=identifier,
        body=body,
        even_if_unknown=allow_duplicate,
    )


@app.command()
@grouped
def discard(which: Conditions, many: Many, acting: Acting, ids: Ids = None, direction: OfDirection = None) -> None:
    """Delete dead letters for good: by identifier, by filter, or --all of them."""
    done, _ = _all(acting, which.arguments(ids, direction), many, "discard")
    count = len(done)
    show(acting.output, {"discarded": count}, lambda: console().print(f"{count} discarded", markup=False))


# --- many of them ----------------------------------------------------------------------------------------------------


def _all(
    acting: Acting, selected: dict[str, Any], many: Many, action: str, **given: Any
) -> tuple[list[str], list[dict[str, str]]]:
    """Make an action on all selected letters, a bounded number at once. Returns the identifiers of those that are done,
    and the refused ones with the reasons; these stay dead letters."""
    done: list[str] = []
    refused: list[dict[str, str]] = []
    with calling(acting) as call:
        confirm(call, selected, many, action)
        for some in _in_parts(identifiers(call, selected)):
            result = call(f"dlq.{action}", acts=True, ids=some, **given)
            done += result["done"]
            refused += result["refused"]
            if acting.output is Format.TEXT and sys.stderr.isatty():
                notes().print(f"{len(done)} done, {len(refused)} refused", markup=False)
    return done, refused


def _in_parts(names: Iterable[str]) -> Iterable[list[str]]:
    following = iter(names)
    while some := list(itertools.islice(following, AT_ONCE)):
        yield some


def _show_done(output: Format, done: list[str], refused: list[dict[str, str]], what: str, follows: str) -> None:
    """Print the result of an action on dead letters; exit code 1 if one was refused, or none was done."""
    from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED

    value = {what: done, "refused": refused}
    show(output, value, lambda: console().print(f"{len(done)} {what}: {follows}", markup=False))
    for each in refused if output is Format.TEXT else ():
        hint = " (--even-if-unknown)" if each["reason"] in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN) else ""
        notes().print(f"{each['id']} not {what}: {each['reason']}{hint}", markup=False)
    if refused or not done:
        raise typer.Exit(FAILED)


# --- output ----------------------------------------------------------------------------------------------------------


def _text(name: str, value: object) -> str:
    if name in ("dead_at", "created_at") and isinstance(value, float):
        return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat(" ", "seconds")
    return " ".join(value) if isinstance(value, list) else str(value)


def _show_list(found: list[dict[str, Any]]) -> None:
    headings = ("id", "dead since", "direction", "endpoint or service", "key", "number", "certainty", "reason")
    rows = [
        (
            each["id"],
            _text("dead_at", each["dead_at"]),
            each["direction"],
            each["endpoint"] or "(responses)",
            each["key"],
            "" if each["number"] is None else str(each["number"]),
            each["certainty"],
            each["reason"],
        )
        for each in found
    ]
    show_table(headings, rows, nothing="there are no dead letters")


def _show_counts(counts: list[dict[str, Any]]) -> None:
    headings = ("dead letters", "direction", "endpoint or service", "key", "certainty", "reason")
    rows = [
        (
            str(each["count"]),
            each["direction"],
            each["endpoint"] or "(responses)",
            each["key"],
            each["certainty"],
            each["reason"],
        )
        for each in counts
    ]
    show_table(headings, rows, nothing="there are no dead letters")
