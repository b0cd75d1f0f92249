"""`mercury messages`."""

from __future__ import annotations

import enum
import re
import time
from typing import Annotated, Any

import typer

from mercury.cli.acting import Acting, Call, Target, act, all_of_page, calling
from mercury.cli.letter_selection import Side, seconds
from mercury.cli.option_groups import grouped
from mercury.cli.output import FAILED, UNUSABLE, console, fail, notes, show, show_table
from mercury.texts import ago, ahead, moment, shortened

app = typer.Typer(
    help="Messages that wait in a store: sent and not acknowledged, or received and not handled.", no_args_is_help=True
)

Id = Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it: out-17, in-4.")]
#: Seconds that `park` waits for a running process to park a message, and seconds between two polls.
TIMEOUT, POLL_INTERVAL = 5.0, 0.1
_ID = re.compile(r"(in|out)-\d{1,18}")


class State(enum.Enum):
    """A state of a waiting message."""

    UNSENT = "unsent"
    UNACKNOWLEDGED = "unacknowledged"
    UNANSWERED = "unanswered"
    FAILING = "failing"


@app.command("list")
@grouped
def list_messages(
    target: Target,
    direction: Annotated[
        Side | None, typer.Option("--direction", help="outbound: sent here; inbound: received here. Default: both.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="The complete URL it is sent to, or service it was received for.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The complete key it is sent under.")] = None,
    sequence: Annotated[str | None, typer.Option("--sequence", help="The complete identifier of its sequence.")] = None,
    message_id: Annotated[str | None, typer.Option("--message-id", help="The complete MessageID.")] = None,
    correlation: Annotated[str | None, typer.Option("--correlation", help="The complete correlation.")] = None,
    state: Annotated[State | None, typer.Option("--state", help="The state that it is in.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="AGE", help="Not older than this: 90s, 2h, 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="AGE", help="Older than this: 90s, 2h, 7d.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The largest number of each direction.")] = 100,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="PLACE", help="Go on behind the page before, which named the place."),
    ] = None,
) -> None:
    """List the messages that wait, the oldest first, with the state of each. Needs no running process.

    "first" is the message that the others of its sequence wait for: inspect it with `show`, try it again at once with
    `retry`, or make it a dead letter with `park`.
    """
    sides = [direction] if direction is not None else list(Side)
    place = None
    if after is not None:
        which_side, place = _place(after)
        sides = [which_side]
    now = time.time()
    found: list[dict[str, Any]] = []
    more = []
    with calling(target) as call:
        for side in sides:
            items, following = all_of_page(
                call,
                "messages.list",
                place,
                direction=side.value,
                endpoint=endpoint,
                key=key,
                sequence=sequence,
                message_id=message_id,
                correlation=correlation,
                state=None if state is None else state.value,
                since=None if since is None else now - seconds(since, "--since"),
                until=None if until is None else now - seconds(until, "--until"),
                limit=limit,
            )
            found += items
            more += [_place_name(side, following)] if following is not None else []
        places = None
        if message_id is not None or correlation is not None:
            places = call("messages.places", message_id=message_id, correlation=correlation)
    show(target.output, found, lambda: _show_list(found))
    for last in more:
        notes().print(f"there are more: --after {last}", markup=False)
    if places is not None:
        _note_elsewhere(places)


@app.command("show")
@grouped
def show_message(identifier: Id, target: Target) -> None:
    """Show all data of one message, with its body."""
    identifier = _checked(identifier)
    with calling(target) as call:
        value = call("messages.show", id=identifier)
    if value is None:
        fail(FAILED, f"{identifier} is not waiting, or not any more")
    known = {name: each for name, each in value.items() if each not in (None, "", []) and name != "timeline"}
    rows = [(name.replace("_", " "), _text(name, each)) for name, each in known.items()]
    steps = [
        ("" if each["at"] is None else moment(each["at"]), each["what"], each["by"] or "") for each in value["timeline"]
    ]

    def print_text() -> None:
        show_table(("property", "value"), rows, nothing="")
        console().print()
        show_table(("at", "what", "by"), steps, nothing="")

    show(target.output, value, print_text)


@app.command()
@grouped
def park(identifier: Id, acting: Acting) -> None:
    """Make one message a dead letter, so that the messages after it are no longer blocked.

    An inbound message must be the first of its sequence. The process that hosts its service parks it, now or when it
    runs again; if the handler runs at this moment, its transaction is rolled back. The sender of a request gets a
    fault. An outbound message can be parked until it has a number. `mercury dlq redrive` sends or delivers it again.
    """
    identifier = _checked(identifier)
    with calling(acting) as call:
        call("messages.park", acts=True, id=identifier)
        parked = identifier.startswith("out") or _is_parked_in_time(call, identifier)
    text = "parked: it is a dead letter" if parked else "is parked as soon as a process that hosts its service runs"
    value = {"id": identifier, "parked": parked}
    show(acting.output, value, lambda: console().print(f"{identifier} {text}", markup=False))


@app.command()
@grouped
def retry(identifier: Id, acting: Acting) -> None:
    """Make one message due now, before its retry time. A process that runs on the store sends or delivers it."""
    identifier = _checked(identifier)
    act(acting, "messages.retry", lambda _: f"{identifier} is due now", id=identifier, shown={"due": True})


# --- helpers ---------------------------------------------------------------------------------------------------------


def _place(after: str) -> tuple[Side, str]:
    """The direction and the place that a page has named.

    :raises typer.Exit: the text is not from a page.
    """
    if _ID.fullmatch(after):
        side, _, position = after.partition("-")
        place = f"0.{position}"
    else:
        side, _, place = after.partition(":")
    if side not in ("in", "out") or not place:
        fail(UNUSABLE, f"--after: {after!r} is not a place that a page has named")
    return Side.INBOUND if side == "in" else Side.OUTBOUND, place


def _place_name(direction: Side, after: str) -> str:
    """The name of a place, for --after: the id of a message, or the place in a sequence."""
    side = "out" if direction is Side.OUTBOUND else "in"
    return f"{side}-{after[2:]}" if after.startswith("0.") else f"{side}:{after}"


def _note_elsewhere(places: dict[str, Any]) -> None:
    """Say where else a searched message is: settled, or dead."""
    for done in places["settled"]:
        text = f"settled: {done['message_id']}, correlation {done['correlation']}, at {moment(done['settled_at'])}"
        notes().print(text, markup=False)
    for letter in places["dead_letters"]:
        notes().print(f"dead letter: mercury dlq show {letter}", markup=False)


def _checked(identifier: str) -> str:
    """A message's id.

    :raises typer.Exit: the text is not an id.
    """
    if _ID.fullmatch(identifier.strip()) is None:
        fail(UNUSABLE, f"{identifier!r} is not a message's id: out-17 and in-4 are, see `mercury messages list`")
    return identifier.strip()


def _is_parked_in_time(call: Call, identifier: str) -> bool:
    """Whether a running process parks the message within `TIMEOUT`."""
    until = time.monotonic() + TIMEOUT
    while call("messages.show", id=identifier) is not None:
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_INTERVAL)
    return True


def _text(name: str, value: object) -> str:
    if name in ("since", "next_try", "expires_at", "not_before") and isinstance(value, float):
        return moment(value)
    return " ".join(value) if isinstance(value, list) else str(value)


def _show_list(found: list[dict[str, Any]]) -> None:
    headings = ("id", "since", "endpoint or service", "key", "number", "action", "tries", "state", "next try", "error")
    now = time.time()
    rows = [
        (
            each["id"],
            ago(each["since"], now),
            shortened(each["endpoint"]) or "(responses)",
            each["key"],
            "" if each["number"] is None else str(each["number"]),
            each["action"],
            str(each["attempts"]),
            each["state"] + (" (first)" if each["first"] else ""),
            "" if each["next_try"] is None else ahead(each["next_try"], now),
            each["last_error"] or "",
        )
        for each in found
    ]
    show_table(headings, rows, nothing="nothing waits")
