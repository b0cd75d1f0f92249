"""`mercury nodes`."""

from __future__ import annotations

from mercury.cli.acting import Target, calling
from mercury.cli.option_groups import grouped
from mercury.cli.output import show, show_table
from mercury.texts import span


@grouped
def nodes(target: Target) -> None:
    """List the processes on a store: host, version, services, and the number of sequences that each works on.

    A process is listed from its start until its orderly stop. One that was killed is "silent" until its row is removed;
    the sequences that it had claimed are free again when its claims expire (engine.lease).
    """
    with calling(target) as call:
        found = call("nodes.list")
    rows = [
        (
            each["id"],
            each["host"],
            str(each["pid"]),
            each["version"],
            span(each["up"]),
            each["state"],
            ", ".join(each["services"]),
            str(each["claims"]),
            str(each["threads"]),
            str(each["queue"]),
        )
        for each in found
    ]
    headings = ("node", "host", "pid", "version", "up", "state", "services", "sequences", "threads", "queue")
    nothing = "no process on this store says that it runs"
    show(target.output, found, lambda: show_table(headings, rows, nothing=nothing))
