"""`mercury console`."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import getpass
import json
import os
import secrets
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.logs import set_up_logs
from mercury.cli.output import Format, Output
from mercury.cli.output import console as terminal
from mercury.cli.running import run_until_signal
from mercury.cli.stores import StoreUrl, store_url, used_store

if TYPE_CHECKING:
    from mercury.settings import Settings
    from mercury.storage.sql.store import SqlStore
    from mercury.storage.xa.coordinator import Coordinator

#: The port unless another one is given: beside that of `mercury serve`.
DEFAULT_PORT = 8001


def console(
    store: StoreUrl = None,
    host: Annotated[
        str, typer.Option(help="The interface to listen at; with another one, also set console.hosts.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 = any free port.")] = DEFAULT_PORT,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Serve the web console of a store, whether or not processes run on it, until SIGTERM or Ctrl-C.

    The printed address logs you in as an operator, once, within ten minutes. Later logins need the token, which is the
    setting console.token, or else is made and printed now.
    """
    from mercury.console.opening import console_of
    from mercury.service.serving import bind, server_for
    from mercury.settings import load, store_name

    settings = load(config)
    set_up_logs(settings.log)
    own = settings.console
    made = None if own.token is not None else secrets.token_urlsafe(24)
    if made is not None:
        own = dataclasses.replace(own, token=made)
    url = store_url(store, config)
    with used_store(url, config) as opened, contextlib.ExitStack() as ending:
        found: list[Coordinator | None] = []

        def coordinator() -> Coordinator | None:
            """Opened when the page is, because a database that takes part may not answer."""
            if not found:
                found.append(_coordinator(opened, settings))
            return found[0]

        made_console = console_of(
            opened,
            store_name(url),
            own,
            coordinator=coordinator,
            decision_log=settings.xa.decision_log,
            watch=settings.watch,
        )
        ending.callback(made_console.close)
        listening = bind(host, port, tls=settings.tls.server_cert is not None)
        ending.callback(listening.socket.close)

        def print_url() -> None:
            login = f"{listening.url}/{made_console.login_path(getpass.getuser())}"
            if output is Format.JSON:
                typer.echo(json.dumps({"url": listening.url, "login": login, "token": made, "pid": os.getpid()}))
            else:
                text = f"the console of {store_name(url)} is at {listening.url} (Ctrl-C ends it)"
                terminal().print(text, markup=False)
                terminal().print(f"log in once, within ten minutes: {login}", markup=False)
                if made is not None:
                    terminal().print(f"the token for later logins: {made}", markup=False)
            sys.stdout.flush()

        server = server_for(made_console.application(), settings.http, print_url, settings.tls)
        # What is loaded stays: a collection that searches all of it would halt a request for up to 200 ms.
        gc.collect()
        gc.freeze()
        ending.callback(gc.unfreeze)
        run_until_signal(server, listening)


def _coordinator(opened: SqlStore, settings: Settings) -> Coordinator | None:
    """The coordinator of the databases that the settings name; ``None`` = they name none."""
    from mercury.storage.opening import name_resources

    named = settings.xa.named()
    return name_resources(opened, named, decision_log=settings.xa.decision_log) if named else None
