"""`mercury`: the command and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from mercury.cli import (
    audit,
    check,
    completion,
    config,
    console,
    db,
    demo,
    dev,
    dlq,
    messages,
    nodes,
    pg,
    reconcile,
    relay,
    send,
    sequences,
    serve,
    services,
    simulate,
    status,
    tables,
    trial,
    wsdl,
    xa,
)
from mercury.cli.output import reporting

app = typer.Typer(
    name="mercury",
    help="WS-ReliableMessaging middleware: messages arrive exactly once, in order.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success; 1 the command ran and its result is a failure; 2 the command could not run.",
)
app.command()(serve.serve)
app.command()(relay.relay)
app.command()(dev.dev)
app.command()(send.send)
app.command()(console.console)
app.command()(status.status)
app.add_typer(messages.app, name="messages")
app.add_typer(sequences.app, name="sequences")
app.add_typer(services.app, name="services")
app.command()(nodes.nodes)
app.command()(audit.audit)
app.add_typer(check.app, name="check")
app.command()(simulate.simulate)
app.command()(demo.demo)
app.command()(reconcile.reconcile)
app.command()(trial.trial)
app.command()(tables.tables)
app.command()(completion.completion)
app.add_typer(config.app, name="config")
app.add_typer(db.app, name="db")
app.add_typer(dlq.app, name="dlq")
app.add_typer(pg.app, name="pg")
app.add_typer(wsdl.app, name="wsdl")
app.add_typer(xa.app, name="xa")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mercury {version('mercury-rm')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """WS-ReliableMessaging middleware: messages arrive exactly once, in order."""


def run() -> None:
    """The entry point."""
    with reporting():
        app()
