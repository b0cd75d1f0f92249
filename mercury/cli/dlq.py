"""`mercury dlq`."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from mercury.cli import bulk
from mercury.cli.acting import Acting, Call, Target, act, calling
from mercury.cli.bulk import Result
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
from mercury.cli.output import FAILED, fail, notes, show, show_table
from mercury.texts import shortened

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
    result = _all(acting, selected, many, "redrive", even_if_unknown=allow_duplicate)
    bulk.show_result(acting.output, result, "redriven", "a process that runs on this store sends or delivers them")


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
    result = _all(acting, selected, many, "redirect", to=to, even_if_unknown=allow_duplicate)
    bulk.show_result(acting.output, result, "redirected", f"a process that runs on this store sends them to {to}")


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
    result = _all(acting, which.arguments(ids, direction), many, "discard")
    bulk.show_result(acting.output, result, "discarded", "")


# --- many of them ----------------------------------------------------------------------------------------------------

app.command("bulks")(bulk.list_bulks)
app.command("resume")(bulk.resume)
app.command("cancel")(bulk.cancel)


def _all(acting: Acting, selected: dict[str, Any], many: Many, action: str, **given: Any) -> Result:
    """Make an action on all selected letters: those that are named by identifier a bounded number at once, others as a
    bulk action."""
    with calling(acting) as call:
        selected = confirm(call, selected, many, action)
        if "ids" in selected:
            return _by_identifier(call, identifiers(call, selected), action, given)
        return bulk.follow(call, call("dlq.begin", acts=True, action=action, **selected, **given), acting.output)


def _by_identifier(call: Call, names: Iterable[str], action: str, given: dict[str, Any]) -> Result:
    found = Result()
    for some in _in_parts(names):
        result = call(f"dlq.{action}", acts=True, ids=some, **given)
        found = Result(
            done=found.done + len(result["done"]),
            refused=found.refused + len(result["refused"]),
            refusals=[*found.refusals, *result["refused"]],
        )
    return found


def _in_parts(names: Iterable[str]) -> Iterable[list[str]]:
    following = iter(names)
    while some := list(itertools.islice(following, AT_ONCE)):
        yield some


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
            shortened(each["endpoint"]) or "(responses)",
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
            shortened(each["endpoint"]) or "(responses)",
            each["key"],
            each["certainty"],
            each["reason"],
        )
        for each in counts
    ]
    show_table(headings, rows, nothing="there are no dead letters")
