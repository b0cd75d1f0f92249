"""`mercury relay`."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.logs import set_up_logs
from mercury.cli.output import UNUSABLE, Format, Output, console, fail
from mercury.cli.running import run_until_signal


def relay(
    to: Annotated[
        str,
        typer.Option(metavar="URL", help="The next endpoint: a service or a relay, failover:(...), masterslave:(...)."),
    ],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 = any free port.")],
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="The relay's store; default: the one of the settings.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(help="The name of the service here; default: the last part of the path of --to.")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="An action to relay (repeatable); others are refused.")
    ] = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Receive messages, and send each on to another endpoint, until SIGTERM or Ctrl-C.

    What is accepted is in the relay's store until the next endpoint has it. Several relays make a chain. Only one-way
    messages are relayed.
    """
    from mercury.facade import Mercury
    from mercury.relaying import addresses, relay_service
    from mercury.service.serving import bind, server_for
    from mercury.settings import load

    settings = load(config)
    set_up_logs(settings.log)
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        fail(UNUSABLE, f"--listen: {listen!r} is not of the form HOST:PORT")
    name = service or next((each.rstrip("/").rpartition("/")[2] for each in addresses(to)), "")
    if not name:
        fail(UNUSABLE, f"--service: a name is needed, because {to!r} has none")
    listening = bind(host.strip("[]"), int(port), tls=settings.tls.server_cert is not None)
    mercury = Mercury(store, address=settings.address or listening.url, settings=settings)
    app = mercury.app(relay_service(mercury, to, name, action or ()))
    url = f"{listening.url}/services/{name}"

    def print_url() -> None:
        if output is Format.JSON:
            typer.echo(json.dumps({"url": url, "to": to, "pid": os.getpid()}))
        else:
            console().print(f"relaying {url} to {to} (Ctrl-C ends it)", markup=False)
        sys.stdout.flush()

    run_until_signal(server_for(app, settings.http, print_url, settings.tls), listening)
