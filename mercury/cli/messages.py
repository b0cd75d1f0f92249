"""`mercury messages`."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.dlq import Side
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show, show_table
from mercury.cli.stores import StoreUrl, used_store
from mercury.texts import ago, ahead, moment

if TYPE_CHECKING:
    from mercury.client.waiting import WaitingMessages, Whole
    from mercury.storage.letters import Direction
    from mercury.storage.waiting import WaitingMessage

app = typer.Typer(
    help="Messages that wait in a store: sent and not acknowledged, or received and not handled.", no_args_is_help=True
)

Id = Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it: out-17, in-4.")]
#: Seconds that `park` waits for a running process to park a message, and seconds between two polls.
TIMEOUT, POLL_INTERVAL = 5.0, 0.1


@app.command("list")
def list_messages(
    direction: Annotated[
        Side | None, typer.Option("--direction", help="outbound: sent here; inbound: received here. Default: both.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="The complete URL it is sent to, or service it was received for.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The complete key it is sent under.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The largest number of each direction.")] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only messages stored after this one.")
    ] = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """List the messages that wait, the oldest first, with the state of each. Needs no running process.

    "first" is the message that the others of its sequence wait for: inspect it with `show`, try it again at once with
    `retry`, or make it a dead letter with `park`.
    """
    from mercury.storage.letters import Direction
    from mercury.storage.waiting import WaitingFilter

    wanted = [Direction(direction.value)] if direction is not None else list(Direction)
    position = 0
    if after is not None:
        wanted_by_id, position = _read(after)
        wanted = [wanted_by_id]
    if key is not None:
        wanted = [each for each in wanted if each is Direction.OUTBOUND]
    which = WaitingFilter(endpoint=endpoint, key=key, after=position)
    found: list[WaitingMessage] = []
    more = []
    with _messages(store, config) as messages:
        for each in wanted:
            page = messages.find(each, which, limit + 1)
            found += page[:limit]
            more += page[limit - 1 : limit] if len(page) > limit else []
    show(output, [_summary(each) for each in found], lambda: _show_list(found))
    for last in more:
        notes().print(f"there are more: --after {last.id}", markup=False)


@app.command("show")
def show_message(
    identifier: Id, store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT
) -> None:
    """Show all data of one message, with its body."""
    direction, position = _read(identifier)
    with _messages(store, config) as messages:
        found = messages.whole(direction, position)
    if found is None:
        fail(FAILED, f"{identifier} is not waiting, or not any more")
    value = _whole(found)
    rows = [(name.replace("_", " "), _text(name, each)) for name, each in value.items() if each not in (None, "", [])]
    show(output, value, lambda: show_table(("property", "value"), rows, nothing=""))


@app.command()
def park(identifier: Id, store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Make one message a dead letter, so that the messages after it are no longer blocked.

    An inbound message must be the first of its sequence. The process that hosts its service parks it, now or when it
    runs again; if the handler runs at this moment, its transaction is rolled back. The sender of a request gets a
    fault. An outbound message can be parked until it has a number. `mercury dlq redrive` sends or delivers it again.
    """
    from mercury.storage.letters import Direction

    direction, position = _read(identifier)
    with _messages(store, config) as messages:
        _try(messages.park, direction, position)
        parked = direction is Direction.OUTBOUND or _is_parked_in_time(messages, direction, position)
    text = "parked: it is a dead letter" if parked else "is parked as soon as a process that hosts its service runs"
    value = {"id": identifier, "parked": parked}
    show(output, value, lambda: console().print(f"{identifier} {text}", markup=False))


@app.command()
def retry(identifier: Id, store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Make one message due now, before its retry time. A process that runs on the store sends or delivers it."""
    direction, position = _read(identifier)
    with _messages(store, config) as messages:
        _try(messages.retry, direction, position)
    show(output, {"id": identifier, "due": True}, lambda: console().print(f"{identifier} is due now", markup=False))


# --- helpers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _messages(store: str | None, config: Path | None) -> Iterator[WaitingMessages]:
    from mercury.client.waiting import WaitingMessages

    with used_store(store, config) as opened:
        yield WaitingMessages(opened, time.time)


def _read(identifier: str) -> tuple[Direction, int]:
    """The direction and position of a message's id.

    :raises typer.Exit: the text is not an id.
    """
    from mercury.storage.letters import Direction

    found = re.fullmatch(r"(in|out)-(\d{1,18})", identifier.strip())
    if found is None:
        fail(UNUSABLE, f"{identifier!r} is not a message's id: out-17 and in-4 are, see `mercury messages list`")
    return Direction.INBOUND if found[1] == "in" else Direction.OUTBOUND, int(found[2])


def _try(change: Any, direction: Direction, position: int) -> None:
    from mercury.client.waiting import NotPossible

    try:
        change(direction, position)
    except NotPossible as error:
        fail(FAILED, str(error))


def _is_parked_in_time(messages: WaitingMessages, direction: Direction, position: int) -> bool:
    """Whether a running process parks the message within `TIMEOUT`."""
    from mercury.storage.waiting import WaitingFilter

    until = time.monotonic() + TIMEOUT
    while messages.find(direction, WaitingFilter(position=position), 1):
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_INTERVAL)
    return True


def _summary(message: WaitingMessage) -> dict[str, Any]:
    value = dataclasses.asdict(message)
    del value["position"]
    return {"id": message.id} | value | {"direction": message.direction.value}


def _whole(found: Whole) -> dict[str, Any]:
    message = found.message
    return _summary(found.seen) | {
        "relates_to": message.relates_to,
        "is_fault": message.is_fault,
        "damaged": message.damaged,
        "headers": [header.decode(errors="backslashreplace") for header in message.headers],
        "body": message.payload.decode(errors="backslashreplace"),
    }


def _text(name: str, value: object) -> str:
    if name in ("since", "next_try", "expires_at", "not_before") and isinstance(value, float):
        return moment(value)
    return " ".join(value) if isinstance(value, list) else str(value)


def _show_list(found: list[WaitingMessage]) -> None:
    headings = ("id", "since", "endpoint or service", "key", "number", "action", "tries", "state", "next try", "error")
    now = time.time()
    rows = [
        (
            each.id,
            ago(each.since, now),
            each.endpoint or "(responses)",
            each.key,
            "" if each.number is None else str(each.number),
            each.action,
            str(each.attempts),
            each.state + (" (first)" if each.first else ""),
            "" if each.next_try is None else ahead(each.next_try, now),
            each.last_error or "",
        )
        for each in found
    ]
    show_table(headings, rows, nothing="nothing waits")
