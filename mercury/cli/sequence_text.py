"""One sequence as text for people: a few lines in groups, in words."""

from __future__ import annotations

import time
from typing import Any

from mercury.cli.output import console, show_table
from mercury.cli.sequence_words import listed, state_in_words
from mercury.texts import ago, ahead, counted, moment


def show_status(status: dict[str, Any]) -> None:
    """Print what the status of a process has of a sequence."""
    _show_groups(_groups(status, time.time()))


def show_whole(whole: dict[str, Any]) -> None:
    """Print what a store has of a sequence, with what has happened to it."""
    now = time.time()
    _show_groups([*_groups(whole, now), _others(whole, now)])
    console().print()
    rows = [
        ("" if each["at"] is None else moment(each["at"]), each["what"], each["by"] or "") for each in whole["timeline"]
    ]
    show_table(("at", "what has happened", "by"), rows, nothing="nothing has happened yet")


def _show_groups(groups: list[list[tuple[str, str]]]) -> None:
    first = True
    width = max(len(name) for group in groups for name, _ in group) + 2
    for group in groups:
        lines = [(name, text) for name, text in group if text]
        if not lines:
            continue
        if not first:
            console().print()
        first = False
        for name, text in lines:
            console().print(f"{name:<{width}}{text}", markup=False)


def _groups(status: dict[str, Any], now: float) -> list[list[tuple[str, str]]]:
    """What it is and does now; its messages; how it began. An empty text has nothing to say."""
    return [
        [
            ("identifier", status["identifier"] or "(the destination has not given one yet)"),
            ("direction", _direction(status)),
            ("state", f"{state_in_words(status)} ({status['state']})"),
            ("why", status.get("why") or ""),
            ("suspended by", status.get("suspended_by") or ""),
            ("failure", status["failure"]),
            ("last error", status["last_error"]),
        ],
        _messages(status),
        [
            ("protocol", status["protocol"]),
            ("began", f"{moment(status['created_at'])}, {ago(status['created_at'], now)}"),
            ("last heard", f"{moment(status['last_heard'])}, {ago(status['last_heard'], now)}"),
        ],
    ]


def _direction(status: dict[str, Any]) -> str:
    if status["side"] == "source":
        key = status["key"]
        about = "responses" if key.startswith("response/") else f"messages with the key {key}" if key else "messages"
        return f"this side sends {about} to {status['endpoint'] or 'the client that fetches them'}"
    about = f"messages for the service {status['endpoint']}" if status["endpoint"] else "responses"
    return f"this side receives {about}"


def _messages(status: dict[str, Any]) -> list[tuple[str, str]]:
    numbers, highest = listed(status["ranges"]), status["highest"]
    if status["side"] == "source":
        known, waits = ("acknowledged", f"{numbers} of the numbers up to {highest}"), "not acknowledged or not answered"
    else:
        known, waits = ("received", f"{numbers}; the highest is {highest}"), "not handled yet"
    if not highest:
        known = (known[0], "no number yet")
    gaps = status.get("gaps") or ()
    unsent = status.get("unsent") or 0
    waiting = counted(status["waiting"], "message is", "messages are", more=bool(status.get("waiting_more")))
    return [
        known,
        ("missing", f"{listed(gaps)}" if gaps else ""),
        ("waiting", f"{waiting} {waits}" if status["waiting"] else "nothing"),
        ("without a number", counted(unsent, "message", "messages") if unsent else ""),
    ]


def _others(whole: dict[str, Any], now: float) -> list[tuple[str, str]]:
    """The other direction, the process that works on it, and the store of its destination."""
    refused = whole["refused_store"]
    return [
        ("other direction", whole["pair"] or ""),
        ("worked on by", _worker(whole, now)),
        ("store of destination", whole["store_of_destination"] or ""),
        ("refused store", f"{refused} at {whole['refused_address']}" if refused else ""),
    ]


def _worker(whole: dict[str, Any], now: float) -> str:
    owner, until = whole["worked_on_by"], whole["claimed_until"]
    if not owner or until is None:
        return ""
    if until <= now:
        return "no process now: one takes it when something is to be done"
    name = owner if whole["host"] is None else f"{whole['host']}:{whole['pid']}"
    seen = whole["worker_seen_at"]
    heard = "which says nothing of itself" if seen is None else f"heard {ago(seen, now)}"
    return f"{name}, {heard}; its claim (epoch {whole['epoch']}) ends {ahead(until, now)} unless it is renewed"
