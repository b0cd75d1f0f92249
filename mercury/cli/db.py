"""`mercury db`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, Format, Output, console, show, show_table
from mercury.cli.stores import StoreUrl, store_url

if TYPE_CHECKING:
    from mercury.storage.sql.versions import SchemaStatus

app = typer.Typer(help="The schema of a store: show its version, upgrade it to this Mercury's.", no_args_is_help=True)


@app.command()
def status(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Print the version of a store's schema, and what to do about it. Changes nothing.

    Exit code 1: this Mercury cannot use the store with its present schema.
    """
    from mercury.storage.administration import Database
    from mercury.storage.sql.versions import HEAD

    with Database(store_url(store, config)) as database:
        found, store_id = database.status(), database.id
    usable = found.usable or found.version is None
    value = {
        "store": database.name,
        "id": store_id,
        "schema": found.version,
        "needed": HEAD,
        "oldest": found.oldest,
        "usable": usable,
        "advice": _advice(found),
    }
    rows = [
        ("store", database.name),
        ("id", store_id or "none"),
        ("schema", found.version or "none"),
        ("this Mercury needs", HEAD),
        ("usable by", f"schema {found.oldest} and later" if found.oldest else "this schema only"),
        ("status", _advice(found)),
    ]
    show(output, value, lambda: show_table(("property", "value"), rows, nothing=""))
    if not usable:
        raise typer.Exit(FAILED)


@app.command()
def upgrade(store: StoreUrl = None, config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Upgrade the schema of a store; in an empty database, create it.

    Processes may go on using the store meanwhile, unless `mercury db status` says to stop them. Does nothing if the
    schema is up to date, or newer and usable. Refuses a newer schema that this Mercury cannot use.
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
    """Give a new id to a store that was copied from another one. Run it on the copy, before any process uses the copy.

    The id is part of the names of prepared transactions. With the same id, each of the two stores would commit or roll
    back prepared transactions of the other. Transactions that the original has prepared keep the original's id.
    To its clients the copy is another store, which they send nothing to.
    """
    from mercury.storage.administration import Database

    with Database(store_url(store, config)) as database:
        before, after = database.id, database.renew_id()
    value = {"store": database.name, "before": before, "after": after}
    show(output, value, lambda: console().print(f"{database.name}: id {after}, was {before}", markup=False))


def _advice(found: SchemaStatus) -> str:
    if found.version is None:
        return "empty; the first process that uses it creates the schema, or `mercury db upgrade`"
    if found.too_new:
        return "of a newer Mercury than this one: upgrade Mercury"
    if found.newer:
        return "of a newer Mercury than this one, which can use it too"
    if found.additive:
        return "old: run `mercury db upgrade`; processes may use the store meanwhile"
    if not found.current:
        return "old: stop all processes that use the store, then run `mercury db upgrade`"
    return "up to date"
