"""`mercury status`."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, Format, Output, console, show, show_table
from mercury.cli.stores import StoreUrl
from mercury.texts import shortened, span

if TYPE_CHECKING:
    from mercury.storage.claims import Claim
    from mercury.storage.waiting import StoreStatus

#: What waits after it was received: in a store, and in a stage (setting `stage.store`).
RECEIVED, STAGED = "received, not handled", "in the stage, not yet moved"


def status(
    store: StoreUrl = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The largest number of endpoints and services, the latest first.")
    ] = 50,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the state of a store: messages that wait, and for how long; dead letters; transactions in doubt.

    Needs no running process. Exit code 1: degraded, because something needs an operator now: a message or transaction
    waits longer than the settings watch.unacknowledged, watch.unhandled or watch.in_doubt allow, or what `mercury check
    store` calls critical. Warnings are printed, and do not change the exit code.
    """
    from mercury.operations.operator import Operations
    from mercury.operations.overview import Severity
    from mercury.settings import load
    from mercury.storage.administration import open_used_store
    from mercury.storage.sql.overview import StoreOverview

    settings = load(config)
    url = settings.store if store is None else store
    opened = open_used_store(url)
    try:
        with opened.transaction() as tx:
            found = StoreOverview(tx).status(limit)
        asked = time.time()
        member = opened.active_member(asked)
        problems = Operations(opened, time.time, settings.watch).overview().problems
    finally:
        opened.close()
    now = time.time()
    late = [each.text for each in problems if each.severity is Severity.CRITICAL]
    state = "degraded" if late else "ok"
    warnings = [each.text for each in problems if each.severity is Severity.WARNING]
    value = {"status": state, "degraded": late, "warnings": warnings} | dataclasses.asdict(found)
    if member is not None:
        value["active_member"] = {"epoch": member[0].epoch, "lease_until": asked + member[1]}
    about = RECEIVED if settings.stage.store != url else STAGED
    show(output, value, lambda: _show(found, about, state, late, warnings, now, _active(member)))
    if late:
        raise typer.Exit(FAILED)


def _active(member: tuple[Claim, float] | None) -> list[tuple[str, str]]:
    """The row about the active member, where the role is active-standby: as `StorageManager.active_member`."""
    if member is None:
        return []
    claim, left = member
    lease = f"lease for {span(left)}" if left > 0 else f"lease over for {span(-left)}"
    return [("active member", f"epoch {claim.epoch}, {lease}")]


def _show(
    found: StoreStatus,
    received: str,
    state: str,
    late: list[str],
    warnings: list[str],
    now: float,
    members: list[tuple[str, str]],
) -> None:
    """:param received: what the messages are that were received and wait."""
    rows = [
        ("status", state),
        *members,
        ("not acknowledged", _many(found.unacknowledged, found.oldest_unacknowledged, now)),
        ("acknowledged, not answered", str(found.unanswered)),
        (received, _many(found.unhandled, found.oldest_unhandled, now)),
        ("dead letters", _letters(found)),
        ("decided, not finished everywhere", _many(found.in_doubt, found.oldest_in_doubt, now)),
    ]
    show_table(("store", ""), rows, nothing="")
    for text in late:
        console().print(f"degraded: {text}", markup=False)
    for text in warnings:
        console().print(f"warning: {text}", markup=False)
    if found.outbound:
        console().print()
        headings = ("endpoint", "key", "not acknowledged", "not answered", "oldest", "transmissions")
        show_table(headings, [_outbound(each, now) for each in found.outbound], nothing="")
    if found.inbound:
        console().print()
        services = ("service", received.rpartition(", ")[2], "sequences", "of these failing", "oldest")
        show_table(services, [_inbound(each, now) for each in found.inbound], nothing="")


def _letters(found: StoreStatus) -> str:
    if not found.letter_bytes:
        return str(found.dead_letters)
    size = f"{found.letter_bytes // 1024**2} MiB" if found.letter_bytes >= 1024**2 else "less than 1 MiB"
    return (
        f"{found.dead_letters}; those that peers have caused use {size} of the room for their messages "
        "(engine.max_backlog_bytes) until they are discarded: mercury dlq list"
    )


def _many(count: int, oldest: float | None, now: float) -> str:
    return str(count) if oldest is None else f"{count}, the oldest for {span(now - oldest)}"


def _outbound(each: Any, now: float) -> tuple[str, ...]:
    oldest = "" if each.oldest is None else span(now - each.oldest)
    return (
        shortened(each.endpoint),
        each.key,
        str(each.unacknowledged),
        str(each.unanswered),
        oldest,
        str(each.attempts),
    )


def _inbound(each: Any, now: float) -> tuple[str, ...]:
    oldest = "" if each.oldest is None else span(now - each.oldest)
    return each.service or "(responses)", str(each.unhandled), str(each.sequences), str(each.failing), oldest
