"""`mercury services`."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.acting import By, Note, actor, operations
from mercury.cli.config import ConfigFile
from mercury.cli.output import Format, Output, console, show, show_table
from mercury.cli.stores import StoreUrl
from mercury.texts import span

if TYPE_CHECKING:
    from mercury.storage.searching import ServiceSeen

app = typer.Typer(help="Services: what waits for their handlers; pause and resume them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SERVICE", help="The name of the service.")]


@app.command("list")
def list_services(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """List the services of a store: those with messages that wait, the paused ones, and those of running processes.

    "failing" is the number of sequences whose first message its handler refuses; see
    `mercury messages list --state failing`.
    """
    with operations(store, config) as found:
        services = found.services.all()
    now = time.time()
    value = [dataclasses.asdict(each) | {"waiting": str(each.waiting)} for each in services]
    headings = ("service", "waiting", "oldest", "failing", "processes", "paused")
    show(output, value, lambda: show_table(headings, [_row(each, now) for each in services], nothing="no services"))


@app.command()
def pause(
    service: Name,
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Call no handler of a service, in any process on the store, until `resume`; also after restarts.

    Messages are still received, stored and acknowledged, up to the limits on the backlog. Calls that run now end.
    """
    with operations(store, config) as found:
        found.service_actions.pause(service, actor(by), reason=note)
    text = f"{service} is paused: what it receives waits"
    show(output, {"service": service, "paused": True}, lambda: console().print(text, markup=False))


@app.command()
def resume(
    service: Name,
    by: By = None,
    note: Note = "",
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """End the pause of a service."""
    with operations(store, config) as found:
        found.service_actions.resume(service, actor(by), reason=note)
    text = f"{service} is resumed"
    show(output, {"service": service, "paused": False}, lambda: console().print(text, markup=False))


def _row(each: ServiceSeen, now: float) -> tuple[str, ...]:
    paused = "" if each.paused_by is None else f"by {each.paused_by}, for {span(now - (each.paused_at or now))}"
    oldest = "" if each.oldest is None else span(now - each.oldest)
    return each.name or "(responses)", str(each.waiting), oldest, str(each.failing), str(each.nodes), paused
