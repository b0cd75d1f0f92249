"""`mercury sequences`."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, show, show_table
from mercury.cli.stores import StoreUrl, store_url, used_store

app = typer.Typer(help="Sequences of a running process on this machine, or of a store.", no_args_is_help=True)

At = Annotated[str, typer.Option("--at", metavar="URL", help="The process, as http://host:port.")]
OfStore = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Read this store instead; no process needs to run.")
]
DEFAULT_AT = "http://127.0.0.1:8000"
#: The number of sequences that one query reads from a store.
PAGE = 500


#: The states of docs/state-machines.md in words.
EXPLAINED = MappingProxyType(
    {
        "NEW": "nothing to send yet",
        "CREATING": "waits for the other side to create it",
        "CREATING_LAST": "waits for the other side to create it",
        "IDLE": "open, all acknowledged",
        "SENDING": "sending",
        "SENDING_LAST": "sending the rest",
        "ENDING": "ending",
        "ENDED": "ended",
        "FAILED": "failed",
        "CREATED": "open, nothing received",
        "RECEIVING": "open, receiving",
        "LAST_KNOWN": "ending, some are missing",
        "COMPLETE": "all received",
        "ENDED_COMPLETE": "ended, all received",
        "ENDED_OPEN": "ended early",
        "ENDED_INCOMPLETE": "ended, some are missing",
    }
)
#: The number of last characters of an identifier in the short list; `show` accepts them.
SHORT = 12


@app.command("list")
def list_sequences(
    at: At = DEFAULT_AT,
    wide: Annotated[
        bool,
        typer.Option("--wide", "-w", help="Complete identifiers, and the states' names in docs/state-machines.md."),
    ] = False,
    store: OfStore = None,
    active: Annotated[
        bool, typer.Option("--active", "-a", help="Only sequences that are open or have messages that wait.")
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """List the sequences of a running process, or of a --store, on both sides: sources send, destinations receive.

    "numbers" are the message numbers that are acknowledged (source) or received (destination). "waiting" is the number
    of messages that are not acknowledged or not answered (source), or not handled yet (destination). Sequences that
    have ended are listed for a day.
    """
    found = _ask(at) if store is None else _read(store, active=active)
    if active:
        found = [each for each in found if _is_active(each)]
    headings = ("side", "sequence", "endpoint or service", "key", "state", "numbers", "waiting", "heard", "error")
    rows = [_row(each, wide) for each in found]
    show(output, found, lambda: show_table(headings, rows, nothing="there are no sequences"))


@app.command("show")
def show_sequence(
    identifier: Annotated[str, typer.Argument(help="The identifier, or a part that no other one has.")],
    at: At = DEFAULT_AT,
    store: OfStore = None,
    output: Output = Format.TEXT,
) -> None:
    """Show all data of one sequence."""
    every = _ask(at) if store is None else _read(store, active=False)
    where = f"at {at}" if store is None else "of this store"
    one = _one(every, identifier, "sequence", where)
    show(output, one, lambda: show_table(("property", "value"), _properties(one), nothing=""))


Received = Annotated[
    str, typer.Argument(metavar="ID", help="The identifier of a received sequence, or a part that no other one has.")
]


@app.command("close")
def close_sequence(
    identifier: Received, store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT
) -> None:
    """Close a received sequence: it takes no new message, and what it has received is delivered.

    A process that runs on the store sends CloseSequence to the source, with the final acknowledgement. The source may
    send the rest in another sequence. Exit code 1: there is no such open sequence, or it is of WS-RM 1.0, which has no
    CloseSequence. .NET takes it for an error of the sequence.
    """
    _end(identifier, "close", store, config, output)


@app.command("terminate")
def terminate_sequence(
    identifier: Received, store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT
) -> None:
    """Terminate a received sequence: it ends, and messages behind a gap are delivered or not by its
    IncompleteSequenceBehavior.

    A process that runs on the store sends TerminateSequence to the source, with the final acknowledgement. The source
    may send what is not acknowledged in another sequence. Exit code 1: there is no such open sequence.
    """
    _end(identifier, "terminate", store, config, output)


def _end(identifier: str, end: str, store: str | None, config: Path | None, output: Format) -> None:
    from mercury.client.inbound_ends import end_at_destination
    from mercury.errors import SequenceError
    from mercury.statemachine.events import DestinationEnd

    url = store_url(store, config)
    received = [each for each in _read(url, active=False) if each["side"] == "destination"]
    found = _one(received, identifier, "received sequence", "of this store")["identifier"]
    with used_store(url, None) as opened:
        try:
            end_at_destination(opened, found, DestinationEnd(end))
        except SequenceError as error:
            fail(FAILED, str(error))
    text = f"{found}: a process that runs on this store will {end} it"
    show(output, {"identifier": found, "end": end}, lambda: console().print(text, markup=False))


def _one(every: list[dict[str, Any]], identifier: str, what: str, where: str) -> dict[str, Any]:
    """The sequence with an identifier, or the only one with it as a part; otherwise the command fails."""
    found = [each for each in every if identifier in each["identifier"]]
    exact = [each for each in found if each["identifier"] == identifier] or found
    if not exact:
        fail(FAILED, f"no {what} {where} has the identifier {identifier}")
    if len(exact) > 1:
        fail(UNUSABLE, f"{len(exact)} {what}s {where} have {identifier} in their identifier; give a longer part")
    return exact[0]


def _read(store: str, *, active: bool) -> list[dict[str, Any]]:
    """The sequences of a store, page by page."""
    from mercury.engine.status import destination_in_store, status_of
    from mercury.storage.administration import open_used_store
    from mercury.storage.sql.overview import StoreOverview

    found: list[dict[str, Any]] = []
    opened = open_used_store(store)
    try:
        position, identifier = 0, ""
        while True:
            with opened.transaction() as tx:
                sources = StoreOverview(tx).sources(position, PAGE, active=active)
            found += [status_of(each.record, each.waiting).as_dict() for _, each in sources]
            if len(sources) < PAGE:
                break
            position = sources[-1][0]
        while True:
            with opened.transaction() as tx:
                destinations = StoreOverview(tx).destinations(identifier, PAGE, active=active)
            found += [destination_in_store(each).as_dict() for each in destinations]
            if len(destinations) < PAGE:
                return found
            identifier = destinations[-1].record.identifier
    finally:
        opened.close()


def _is_active(status: dict[str, Any]) -> bool:
    over = status["state"].startswith("ENDED") or bool(status["failure"]) or status["state"] == "FAILED"
    return not over or bool(status["waiting"])


def state_in_words(status: dict[str, Any]) -> str:
    """A state in words, with the number of messages that wait although the state alone does not show it."""
    words: str = EXPLAINED.get(status["state"].partition(" ")[0], status["state"])
    waiting = status["waiting"]
    if not waiting:
        return words
    if status["side"] == "destination":
        return f"{words}, {waiting} not handled yet"
    # IDLE counts numbered messages only: others wait for a number, or are acknowledged and not answered.
    return f"open, {waiting} not sent or not answered yet" if words == EXPLAINED["IDLE"] else words


def _ask(at: str) -> list[dict[str, Any]]:
    """The status of a running process."""
    import http.client

    from mercury.engine.addresses import split_url
    from mercury.engine.runtime.transport import plain
    from mercury.service import paths
    from mercury.settings import load

    parts = split_url(at)
    token = load().http.status_token
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=10.0)
    try:
        connection.request("GET", f"{paths.STATUS}/sequences", headers=headers)
        reply = connection.getresponse()
        body = reply.read()
    except (OSError, http.client.HTTPException) as error:
        fail(FAILED, f"nothing answers at {at}: {plain(error)}")
    finally:
        connection.close()
    if reply.status == 401:
        fail(FAILED, f"{at} gives its status only with its token; set MERCURY_HTTP_STATUS_TOKEN to it")
    if reply.status == 403:
        fail(FAILED, f"{at} gives its status only to requests from its own machine")
    if reply.status == 503:
        fail(FAILED, f"{at} answers with HTTP status 503: {_reason(body)}")
    if reply.status != 200:
        fail(FAILED, f"{at} answers with HTTP status {reply.status}; is it a Mercury with its status router?")
    try:
        found: list[dict[str, Any]] = json.loads(body)
    except ValueError:
        fail(FAILED, f"{at} answers, but not with a status; is it a Mercury?")
    return found


def _reason(body: bytes) -> str:
    """The reason in the body of a 503."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, TypeError, LookupError):
        return "it gives no reason"


def _properties(status: dict[str, Any]) -> list[tuple[str, str]]:
    shown = dict(status, ranges=_ranges(status))
    for name in ("created_at", "last_heard"):
        shown[name] = datetime.datetime.fromtimestamp(status[name], datetime.UTC).isoformat(" ", "seconds")
    return [(name.replace("_", " "), str(value)) for name, value in shown.items()]


def _ranges(status: dict[str, Any]) -> str:
    return ", ".join(f"{low}-{high}" if low != high else str(low) for low, high in status["ranges"]) or "none"


def _row(status: dict[str, Any], wide: bool) -> tuple[str, ...]:
    heard = f"{max(0, time.time() - status['last_heard']):.0f} s ago"
    return (
        status["side"],
        (status["identifier"] if wide else status["identifier"][-SHORT:]) or "(not yet)",
        status["endpoint"] or "(responses)",
        "(responses)" if status["key"].startswith("response/") and not wide else status["key"],
        status["state"] if wide else state_in_words(status),
        _ranges(status),
        str(status["waiting"]),
        heard,
        status["failure"] or status["last_error"],
    )
