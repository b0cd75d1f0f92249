"""`mercury audit`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mercury.cli.acting import After, Limit, Target, calling
from mercury.cli.option_groups import grouped
from mercury.cli.output import notes, show, show_table
from mercury.texts import moment


@grouped
def audit(
    options: Target,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Only what this operator did.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Only this action, for example suspend.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="ID", help="Only actions on this sequence, service or message.")
    ] = None,
    bulk: Annotated[
        str | None,
        typer.Option("--bulk", metavar="NUMBER", help="Only the letters of this bulk action."),
    ] = None,
    limit: Limit = 100,
    after: After = None,
) -> None:
    """List what operators have done to a store, by command or console, the newest first."""
    with calling(options) as call:
        page = call("audit.list", by=by, action=action, target=target, bulk=bulk, after=after, limit=limit)
    found = page["items"]
    rows = [
        (
            moment(each["at"]),
            *(each[name] for name in ("actor", "via", "action", "kind", "target")),
            *(json.dumps(each[name], ensure_ascii=False) if each[name] else "" for name in ("before", "after")),
            each["note"],
        )
        for each in found
    ]
    headings = ("at", "by", "via", "action", "kind", "target", "before", "after", "note")
    show(options.output, found, lambda: show_table(headings, rows, nothing="nothing was done by hand"))
    if page["after"] is not None:
        notes().print(f"there are more: --after {page['after']}", markup=False)
