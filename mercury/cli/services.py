"""`mercury services`."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from mercury.cli.acting import Acting, Target, act, calling
from mercury.cli.option_groups import grouped
from mercury.cli.output import console, notes, show, show_table
from mercury.texts import span

app = typer.Typer(help="Services: what waits for their handlers; pause and resume them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SERVICE", help="The name of the service.")]


@app.command("list")
@grouped
def list_services(target: Target) -> None:
    """List the services of a store: those with messages that wait, the paused ones, and those of running processes.

    "failing" is the number of sequences whose first message its handler refuses; see
    `mercury messages list --state failing`.
    """
    with calling(target) as call:
        found = call("services.list")
    now = time.time()
    headings = ("service", "waiting", "oldest", "failing", "processes", "paused")
    show(target.output, found, lambda: show_table(headings, [_row(each, now) for each in found], nothing="no services"))


@app.command()
@grouped
def pause(service: Name, acting: Acting) -> None:
    """Call no handler of a service, in any process on the store, until `resume`; also after restarts.

    Messages are still received, stored and acknowledged, up to the limits on the backlog. Calls that run now end. A
    service may be paused before its first start; a note says when nothing waits for the name and no process hosts it.
    """
    with calling(acting) as call:
        done = call("services.pause", acts=True, service=service) | {"paused": True}
    text = f"{service} is paused: what it receives waits"
    show(acting.output, done, lambda: console().print(text, markup=False))
    if not done.get("known", True):  # a process of an older version does not say
        note = f"nothing waits for {service}, and no running process hosts it: mercury services list has the names"
        notes().print(f"note: {note}", markup=False)


@app.command()
@grouped
def resume(service: Name, acting: Acting) -> None:
    """End the pause of a service."""
    act(acting, "services.resume", lambda _: f"{service} is resumed", service=service, shown={"paused": False})


def _row(each: dict[str, Any], now: float) -> tuple[str, ...]:
    by, at, since = each["paused_by"], each["paused_at"], each["oldest"]
    paused = "" if by is None else f"by {by}, for {span(now - (at or now))}"
    oldest = "" if since is None else span(now - since)
    return each["name"] or "(responses)", each["waiting"], oldest, str(each["failing"]), str(each["nodes"]), paused
