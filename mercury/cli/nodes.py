"""`mercury nodes`."""

from __future__ import annotations

import dataclasses
import time

from mercury.cli.acting import operations
from mercury.cli.config import ConfigFile
from mercury.cli.output import Format, Output, show, show_table
from mercury.cli.stores import StoreUrl
from mercury.texts import span


def nodes(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """List the processes on a store: host, version, services, and the number of sequences that each works on.

    A process is listed from its start until its orderly stop. One that was killed is "silent" until its row is removed.
    """
    with operations(store, config) as found:
        lines = found.nodes.all()
    value = [
        dataclasses.asdict(each.node) | {"alive": each.alive, "silence": each.silence, "claims": each.claims}
        for each in lines
    ]
    now = time.time()
    rows = [
        (
            each.node.id,
            each.node.host,
            str(each.node.pid),
            each.node.version,
            span(now - each.node.started_at),
            "runs" if each.alive else f"silent for {span(each.silence)}",
            ", ".join(each.node.services),
            str(each.claims),
            str(each.node.threads),
            str(each.node.queue),
        )
        for each in lines
    ]
    headings = ("node", "host", "pid", "version", "up", "state", "services", "sequences", "threads", "queue")
    show(output, value, lambda: show_table(headings, rows, nothing="no process on this store says that it runs"))
