"""Actions on many dead letters, from the command line: their progress, and what became of those that were begun."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from mercury.cli.acting import Acting, Call, Limit, Target, calling
from mercury.cli.option_groups import grouped
from mercury.cli.output import FAILED, Format, console, notes, show, show_table
from mercury.cli.progress_bar import progress_bar
from mercury.errors import MercuryError
from mercury.texts import moment

#: Refused letters that are printed one by one.
SHOWN = 20
#: The exit code of a command that Ctrl-C has ended.
INTERRUPTED = 130

Number = Annotated[str, typer.Argument(metavar="NUMBER", help="The number, as `bulks` prints it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of the selected dead letters."""

    done: int = 0
    refused: int = 0
    #: Refused ones with the reason, the first if there are many.
    refusals: list[dict[str, str]] = field(default_factory=list)
    #: The state of the bulk action, and its number; ``None`` = it was none.
    state: str = "done"
    bulk: int | None = None


@grouped
def list_bulks(target: Target, limit: Limit = 20) -> None:
    """List the actions on many dead letters, the newest first, and how far each is."""
    with calling(target) as call:
        found = call("dlq.bulks", limit=limit)
    headings = ("number", "began", "by", "action", "state", "done", "stay", "of")
    rows = [
        (
            str(each["id"]),
            moment(each["started_at"]),
            each["by"],
            each["action"],
            "not seen for a while" if each["silent"] else each["state"],
            *(str(each[name]) for name in ("done", "refused", "total")),
        )
        for each in found
    ]
    show(target.output, found, lambda: show_table(headings, rows, nothing="there was none"))


@grouped
def resume(number: Number, acting: Acting) -> None:
    """Go on with an action on many dead letters that was stopped, or whose process was killed."""
    with calling(acting) as call:
        begun = call("dlq.resume", acts=True, id=number)
        result = follow(call, begun, acting.output)
    show_result(acting.output, result, f"done ({begun['action']})", "")


@grouped
def cancel(number: Number, acting: Acting) -> None:
    """End an action on many dead letters. What is done stays done; the others stay dead letters."""
    with calling(acting) as call:
        found = call("dlq.cancel", acts=True, id=number)
    text = f"cancelled: {found['done']} of {found['total']} are done, the others stay dead letters"
    show(acting.output, found, lambda: console().print(text, markup=False))


def follow(call: Call, begun: dict[str, Any], output: Format) -> Result:
    """Make a bulk action to its end, with its progress on stderr. Ctrl-C stops it; a line says how to go on then, and
    when the store fails."""
    found = begun
    with _stopping(call, begun), progress_bar(notes(), shown=output is Format.TEXT) as bar:
        task = bar.add_task(begun["action"], total=begun["total"])
        while found["state"] == "running":
            found = call("dlq.advance", id=str(begun["id"]))
            bar.update(task, completed=found["done"] + found["refused"])
    return Result(
        done=found["done"],
        refused=found["refused"],
        refusals=found["refusals"],
        state=found["state"],
        bulk=begun["id"] or None,
    )


def show_result(output: Format, result: Result, what: str, follows: str) -> None:
    """Print the result of an action on dead letters; exit code 1 if one was refused, none was done, or it was ended.

    :param what: what was done to them, for example ``redriven``.
    :param follows: what happens next; empty = nothing.
    """
    from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED

    value = {
        what.partition(" ")[0]: result.done,
        "refused": result.refused,
        "refusals": result.refusals,
        "state": result.state,
        "bulk": result.bulk,
    }
    text = f"{result.done} {what}" + (f": {follows}" if follows else "")
    show(output, value, lambda: console().print(text, markup=False))
    for each in result.refusals[:SHOWN] if output is Format.TEXT else ():
        hint = " (--even-if-unknown)" if each["reason"] in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN) else ""
        notes().print(f"{each['id']} not {what}: {each['reason']}{hint}", markup=False)
    more = result.refused - SHOWN
    if more > 0 and output is Format.TEXT:
        notes().print(f"{more} more are not {what}: see `mercury dlq list --count`", markup=False)
    if result.state != "done":
        notes().print(f"it is {result.state}: the others stay dead letters", markup=False)
    if result.refused or not result.done or result.state != "done":
        raise typer.Exit(FAILED)


@contextlib.contextmanager
def _stopping(call: Call, begun: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        found = call("dlq.stop", id=str(begun["id"]))
        text = f"stopped: {found['done'] + found['refused']} of {found['total']} were looked at"
        notes().print(f"{text}; go on with: mercury dlq resume {begun['id']}", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    except MercuryError:
        notes().print(f"it is not at its end; go on with: mercury dlq resume {begun['id']}", markup=False)
        raise
