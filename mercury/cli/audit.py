"""`mercury audit`."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from mercury.cli.acting import After, Limit, operations
from mercury.cli.config import ConfigFile
from mercury.cli.output import Format, Output, notes, show, show_table
from mercury.cli.stores import StoreUrl
from mercury.texts import moment


def audit(
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Only what this operator did.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Only this action, for example suspend.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="ID", help="Only actions on this sequence, service or message.")
    ] = None,
    limit: Limit = 100,
    after: After = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """List what operators have done to a store, by command or console, the newest first."""
    from mercury.storage.audit import AuditFilter

    with operations(store, config) as found:
        page = found.audit(AuditFilter(actor=by, action=action, target=target), after, limit)
    value = [dataclasses.asdict(each) | {"via": each.via.value, "kind": each.kind.value} for each in page.items]
    rows = [
        (
            moment(each.at),
            each.actor,
            each.via.value,
            each.action,
            each.kind.value,
            each.target,
            json.dumps(dict(each.before), ensure_ascii=False) if each.before else "",
            json.dumps(dict(each.after), ensure_ascii=False) if each.after else "",
            each.note,
        )
        for each in page.items
    ]
    headings = ("at", "by", "via", "action", "kind", "target", "before", "after", "note")
    show(output, value, lambda: show_table(headings, rows, nothing="nothing was done by hand"))
    if page.after is not None:
        notes().print(f"there are more: --after {page.after}", markup=False)
