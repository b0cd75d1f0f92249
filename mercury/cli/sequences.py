"""`mercury sequences`."""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from mercury.cli.acting import Acting, After, Call, Target, act, all_of_page, calling
from mercury.cli.option_groups import grouped
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show, show_table
from mercury.cli.sequence_text import show_status, show_whole
from mercury.cli.sequence_words import listed, state_in_words
from mercury.texts import shortened

app = typer.Typer(help="Sequences of a running process on this machine, or of a store.", no_args_is_help=True)

T = TypeVar("T")
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="URL",
        help="Ask this process, http://host:port; without a configured store the default is http://127.0.0.1:8000.",
    ),
]
OfStore = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="Read this store; default: the one that is configured (MERCURY_STORE)."
    ),
]
#: Asked where neither an option nor the settings name a store.
DEFAULT_AT = "http://127.0.0.1:8000"


class End(enum.Enum):
    """The end of a sequence that is in the store."""

    SOURCE = "source"
    DESTINATION = "destination"


#: The number of last characters of an identifier in the short list; `show` accepts them.
SHORT = 12


@app.command("list")
def list_sequences(
    at: At = None,
    wide: Annotated[
        bool,
        typer.Option("--wide", "-w", help="Complete identifiers, and the states' names in docs/state-machines.md."),
    ] = False,
    store: OfStore = None,
    active: Annotated[
        bool, typer.Option("--active", "-a", help="Only sequences that are open or have messages that wait.")
    ] = False,
    stuck: Annotated[
        bool, typer.Option("--stuck", help="As an operator: only those that an operator has to look at.")
    ] = False,
    side: Annotated[
        End | None, typer.Option("--side", help="As an operator: only sources, or only destinations.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="As an operator: only of this endpoint, or this service.")
    ] = None,
    key_prefix: Annotated[
        str | None, typer.Option("--key-prefix", help="As an operator: only sources whose key begins like this.")
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="As an operator: only in this state, for example SENDING.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="As an operator: the largest number to show; default: 100.")
    ] = None,
    after: After = None,
    output: Output = Format.TEXT,
) -> None:
    """List the sequences of a store, or of a running process, on both sides: sources send, destinations receive.

    "numbers" are the message numbers that are acknowledged (source) or received (destination). "waiting" is the number
    of messages that are not acknowledged or not answered (source), or not handled yet (destination). Sequences that
    have ended are listed for a day. Operators, who have a --store or the token of the process, get the list in pages,
    and see what each sequence waits for.
    """
    which = {
        "side": None if side is None else side.value,
        "states": [each.upper() for each in state or ()],
        "endpoint": endpoint,
        "key_prefix": key_prefix,
        "active": active,
        "stuck": stuck,
        "limit": 100 if limit is None else limit,
    }
    store, at = _where(store, at)
    seen = _seen_by_operator(store, at, lambda call: all_of_page(call, "sequences.list", after, **which))
    if seen is None:
        _refuse_filters(at, which | {"limit": limit, "after": after})
    found, following = seen if seen is not None else (_ask(at), None)
    if seen is None and active:
        found = [each for each in found if _is_active(each)]
    headings = ("side", "sequence", "endpoint or service", "key", "state", "numbers", "waiting", "heard", "error")
    rows = [_row(each, wide) for each in found]
    show(output, found, lambda: show_table(headings, rows, nothing="there are no sequences"))
    if following is not None:
        notes().print(f"there are more: --after {following}", markup=False)


@app.command("show")
def show_sequence(
    identifier: Annotated[str, typer.Argument(help="The identifier, or a part that no other one has.")],
    at: At = None,
    store: OfStore = None,
    output: Output = Format.TEXT,
) -> None:
    """Show all data of one sequence. Operators, who have a --store or the token of the process, also see what it waits
    for, the other direction, the process that works on it, and what has happened."""
    store, at = _where(store, at)
    seen = _seen_by_operator(store, at, lambda call: (call("sequences.show", id=identifier),))
    if seen is None:
        one = _one(_ask(at), identifier, "sequence", f"at {at}")
        show(output, one, lambda: show_status(one))
        return
    (whole,) = seen
    show(output, whole, lambda: show_whole(whole))


def _where(store: str | None, at: str | None) -> tuple[str | None, str]:
    """The store to read, or ``None`` and the process to ask: what the options name, or the configured store."""
    from mercury.settings import explain
    from mercury.storage.opening import MEMORY

    if store is not None and at is not None:
        fail(UNUSABLE, "--store and --at exclude each other: the process knows its store")
    if store is None and at is None:
        (setting,) = (each for each in explain() if each.path == "store")
        if setting.origin != "default" and setting.value != MEMORY:
            return str(setting.value), DEFAULT_AT
    return store, at if at is not None else DEFAULT_AT


def _seen_by_operator(store: str | None, at: str, see: Callable[[Call], T]) -> T | None:
    """What an operator sees of a store, or of a process whose token the settings have; ``None`` = the process has only
    its status."""
    from mercury.cli.process_calls import NoOperatorApi
    from mercury.settings import load

    console = load().console
    if store is None and console.token is None and console.reader_token is None:
        return None
    try:
        with calling(Target(store=store) if store is not None else Target(at=at)) as call:
            return see(call)
    except NoOperatorApi:
        return None


def _refuse_filters(at: str, given: dict[str, Any]) -> None:
    """End the command if a filter was given that only operators have: the list would be complete all the same."""
    options = {"stuck": "--stuck", "side": "--side", "endpoint": "--endpoint", "key_prefix": "--key-prefix"}
    options |= {"states": "--state", "limit": "--limit", "after": "--after"}
    for name, option in options.items():
        if given[name] not in (None, False, []):
            fail(
                UNUSABLE,
                f"{option} needs --store URL or an operator's token: {at} gives only its status (it answers operators "
                "if its console.api is true; set MERCURY_CONSOLE_TOKEN to its token)",
            )


Named = Annotated[
    str, typer.Argument(metavar="ID", help="The identifier of a sequence, or a part that no other one has.")
]


@app.command("suspend")
@grouped
def suspend_sequence(identifier: Named, acting: Acting) -> None:
    """Let no process work on a sequence until `resume`, also after restarts.

    A source sends nothing under its key; a destination delivers nothing. Messages are still taken from the application,
    received and acknowledged. Exit code 1: it is suspended already, or its messages leave when a client fetches them.
    """
    _act(acting, "suspend", identifier, "{} is suspended", {"suspended": True})


@app.command("resume")
@grouped
def resume_sequence(identifier: Named, acting: Acting) -> None:
    """End the suspension of a sequence."""
    _act(acting, "resume", identifier, "{} is resumed", {"suspended": False})


@app.command("close")
@grouped
def close_sequence(identifier: Named, acting: Acting) -> None:
    """Close a sequence: it takes no new message, and the rest is sent or delivered.

    Received: a process that runs on the store sends CloseSequence to the source, with the final acknowledgement. The
    source may send the rest in another sequence. Exit code 1: there is no such open sequence, or it is of WS-RM 1.0,
    which has no CloseSequence. .NET takes it for an error of the sequence.
    Sent: it ends when everything is acknowledged. Later messages of its key go to a successor.
    """
    _act(acting, "close", identifier, "{}: a process that runs on this store will close it", {"end": "close"})


@app.command("terminate")
@grouped
def terminate_sequence(identifier: Named, acting: Acting) -> None:
    """Terminate a sequence now.

    Received: messages behind a gap are delivered or not by its IncompleteSequenceBehavior. A process that runs on the
    store sends TerminateSequence to the source, with the final acknowledgement. The source may send what is not
    acknowledged in another sequence. Exit code 1: there is no such open sequence.
    Sent: messages that are not acknowledged become dead letters.
    """
    text = "{}: a process that runs on this store will terminate it"
    _act(acting, "terminate", identifier, text, {"end": "terminate"})


@app.command("restart")
@grouped
def restart_sequence(
    identifier: Named,
    acting: Acting,
    even_if_unknown: Annotated[
        bool, typer.Option("--even-if-unknown", help="Send messages again that the other side may have.")
    ] = False,
    park_unknown: Annotated[
        bool, typer.Option("--park-unknown", help="Make dead letters of messages that the other side may have.")
    ] = False,
) -> None:
    """Give a source sequence up, and send the rest in a successor, in order.

    Messages that were sent and are not acknowledged are in doubt: with some, the command does nothing unless
    --even-if-unknown (they may take effect twice) or --park-unknown is given. Exit code 1: nothing was done.
    """
    choice = _choice(even_if_unknown, park_unknown)
    text = "{} is given up: a process that runs on this store sends the rest in a successor"
    _act(acting, "restart", identifier, text, {}, in_doubt=choice)


@app.command("new-destination")
@grouped
def new_destination(
    endpoint: Annotated[
        str, typer.Argument(help="The URL, or failover:(...) as 'mercury sequences list --wide' shows it.")
    ],
    acting: Acting,
    identifier: Annotated[
        str | None, typer.Option("--id", help="The id of the new store; left out, the one that was refused.")
    ] = None,
    even_if_unknown: Annotated[
        bool, typer.Option("--even-if-unknown", help="Send messages to it that the store before may have.")
    ] = False,
    park_unknown: Annotated[
        bool, typer.Option("--park-unknown", help="Make dead letters of messages that the store before may have.")
    ] = False,
) -> None:
    """Say that a destination is a new one, whose store is another one than before.

    Its sequences are given up, and successors at the new store send what was never sent. The output names what is in
    doubt: sent to the store before, and not acknowledged. With messages in doubt, the command does nothing unless
    --even-if-unknown (they may take effect twice) or --park-unknown is given. Exit code 1: nothing was done.
    """
    choice = _choice(even_if_unknown, park_unknown)
    with calling(acting) as call:
        done = call("destinations.replace", acts=True, endpoint=endpoint, store=identifier, in_doubt=choice)
    rows = [
        (each["identifier"], each["key"], listed(each["moved"]), listed(each["in_doubt"])) for each in done["sequences"]
    ]

    def text() -> None:
        console().print(f"{endpoint} has the store {done['store']} now, and had {done['before']}", markup=False)
        show_table(
            ("given up", "key", "numbers that move to a successor", "in doubt"),
            rows,
            nothing="no sequence was open there",
        )
        console().print("a successor also sends what had no number yet")

    show(acting.output, done, text)


def _choice(even_if_unknown: bool, park_unknown: bool) -> str:
    """What becomes of messages in doubt."""
    if even_if_unknown and park_unknown:
        fail(UNUSABLE, "--even-if-unknown and --park-unknown exclude each other")
    return "resend" if even_if_unknown else "park" if park_unknown else "refuse"


def _act(acting: Acting, action: str, identifier: str, text: str, shown: dict[str, Any], **given: Any) -> None:
    """Make an action, and print what is done with the sequence of the complete identifier."""
    act(
        acting,
        f"sequences.{action}",
        lambda done: text.format(done["identifier"]),
        id=identifier,
        shown=shown,
        **given,
    )


def _one(every: list[dict[str, Any]], identifier: str, what: str, where: str) -> dict[str, Any]:
    """The sequence with an identifier, or the only one with it as a part; otherwise the command fails."""
    if not identifier.strip():
        fail(UNUSABLE, "the identifier is empty")
    found = [each for each in every if identifier in each["identifier"]]
    exact = [each for each in found if each["identifier"] == identifier] or found
    if not exact:
        fail(FAILED, f"no {what} {where} has the identifier {identifier}")
    if len(exact) > 1:
        fail(UNUSABLE, f"{len(exact)} {what}s {where} have {identifier} in their identifier; give a longer part")
    return exact[0]


def _is_active(status: dict[str, Any]) -> bool:
    over = status["state"].startswith("ENDED") or bool(status["failure"]) or status["state"] == "FAILED"
    return not over or bool(status["waiting"])


def _ask(at: str) -> list[dict[str, Any]]:
    """The status of a running process."""
    import http.client

    from mercury.cli.process_calls import bearer
    from mercury.engine.addresses import split_server_url
    from mercury.engine.runtime.transport import plain
    from mercury.service import paths
    from mercury.settings import load

    parts = split_server_url(at)
    token = load().http.status_token
    headers = bearer(token) if token is not None else {}
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        with contextlib.closing(kind(parts.netloc, timeout=10.0)) as connection:
            connection.request("GET", f"{paths.STATUS}/sequences", headers=headers)
            reply = connection.getresponse()
            body = reply.read()
    except (OSError, http.client.HTTPException, UnicodeError) as error:  # UnicodeError: no name of a host
        fail(FAILED, f"nothing answers at {at}: {plain(error)}; --store URL reads a store, and needs no process")
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


def _row(status: dict[str, Any], wide: bool) -> tuple[str, ...]:
    heard = f"{max(0, time.time() - status['last_heard']):.0f} s ago"
    return (
        status["side"],
        (status["identifier"] if wide else status["identifier"][-SHORT:]) or "(not yet)",
        (status["endpoint"] if wide else shortened(status["endpoint"])) or "(responses)",
        "(responses)" if status["key"].startswith("response/") and not wide else status["key"],
        status["state"] if wide else state_in_words(status),
        listed(status["ranges"]),
        str(status["waiting"]),
        heard,
        status["failure"] or status["last_error"],
    )
