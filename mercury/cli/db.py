"""`mercury db`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, Format, Output, console, show, show_table
from mercury.cli.stores import StoreUrl, store_url

if TYPE_CHECKING:
    from mercury.storage.sql.versions import SchemaStatus

app = typer.Typer(help="The schema of a store: its version, and the way to this Mercury's.", no_args_is_help=True)


@app.command()
def status(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Say which version of the schema a store has, and what to do about it. Changes nothing.

    Exit code 1: this Mercury cannot work with it as it is.
    """
    from mercury.storage.administration import Database
    from mercury.storage.sql.versions import HEAD

    with Database(store_url(store, config)) as database:
        found, store_id = database.status(), database.id
    usable = found.current or found.version is None
    value = {
        "store": database.name,
        "id": store_id,
        "schema": found.version,
        "needed": HEAD,
        "usable": usable,
        "advice": _advice(found),
    }
    rows = [
        ("store", database.name),
        ("id", store_id or "none"),
        ("schema", found.version or "none"),
        ("this Mercury needs", HEAD),
        ("that is", _advice(found)),
    ]
    show(output, value, lambda: show_table(("property", "value"), rows, nothing=""))
    if not usable:
        raise typer.Exit(FAILED)


@app.command()
def upgrade(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Bring the schema of a store up to date; an empty database gets it. Stop what uses the store before.

    Does nothing when it is up to date. A schema of a newer Mercury is refused.
    """
    from mercury.storage.administration import Database

    with Database(store_url(store, config), must_exist=False) as database:
        before = database.upgrade().version
        after, store_id = database.status().version, database.id
    value = {"store": database.name, "id": store_id, "before": before, "after": after}
    text = f"{database.name}: schema {after}" + (", as before" if before == after else f", was {before or 'empty'}")
    show(output, value, lambda: console().print(text, markup=False))


@app.command("renew-id")
def renew_id(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Give a store that is a copy of another one an id of its own, before anything runs on it.

    The id is part of the names of prepared transactions: with the same one, the copy and the original would decide
    about each other's. What the original has prepared stays the original's business: run this on the copy only.
    """
    from mercury.storage.administration import Database

    with Database(store_url(store, config)) as database:
        before, after = database.id, database.renew_id()
    value = {"store": database.name, "before": before, "after": after}
    show(output, value, lambda: console().print(f"{database.name}: id {after}, was {before}", markup=False))


def _advice(found: SchemaStatus) -> str:
    if found.version is None:
        return "empty; the first process that uses it makes the schema, or `mercury db upgrade`"
    if found.unknown:
        return "of a newer Mercury than this one: upgrade Mercury"
    if not found.current:
        return "old: stop what uses it, then run `mercury db upgrade`"
    return "up to date"
