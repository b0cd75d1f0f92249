"""`mercury dev`."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import json
import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.logs import set_up_logs
from mercury.cli.output import Format, Output, notes
from mercury.cli.output import console as terminal
from mercury.errors import ConfigurationError, MercuryError

if TYPE_CHECKING:
    from mercury.service.serving import BackgroundServer
    from mercury.settings import Settings

#: Seconds between two looks at the files and at the server's process.
TICK = 0.25
#: The origin of a setting that is not set.
DEFAULT = "default"


def dev(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="A FastAPI application, or a function that returns one.")
    ],
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; 0 = any free port.")] = None,
    console_port: Annotated[int, typer.Option(min=0, max=65535, help="The console's port; 0 = any free port.")] = 8001,
    send: Annotated[bool, typer.Option(help="Send a sample message to each operation every second.")] = True,
    folder: Annotated[
        Path, typer.Option(help="What this command stores: PostgreSQL, and the sample messages that wait.")
    ] = Path(".mercury-dev"),
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Serve an application on this machine while you write it, with a console and sample messages, until Ctrl-C.

    The server starts again when a Python file in the module's folder changes. If no store is configured, Mercury()
    stores in an embedded PostgreSQL, or in SQLite where that cannot run. The console shows the store that the
    application uses, unless it is in memory.
    """
    began = time.monotonic()
    from mercury.cli.dev_process import DevProcess, changes
    from mercury.cli.dev_server import Task
    from mercury.engine.runtime.peers import TlsSettings
    from mercury.service.serving import BackgroundServer, bind
    from mercury.settings import explain, load

    settings = load(config)
    set_up_logs(settings.log)
    environment = dict(os.environ)
    if config is not None:
        environment["MERCURY_CONFIG"] = str(config.absolute())
    folder = folder.absolute()
    asked_to_end: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: asked_to_end.append(number))
    with contextlib.ExitStack() as ending:
        listening = bind("127.0.0.1", settings.http.port if port is None else port)
        ending.callback(listening.socket.close)
        pages = BackgroundServer("127.0.0.1", console_port, TlsSettings())
        ending.callback(pages.stop)
        _make(folder)
        if any(each.path == "store" and each.origin == DEFAULT for each in explain(config)):
            environment["MERCURY_STORE"] = _provided_store(folder, ending)
        samples = f"sqlite:///{folder / 'samples.db'}" if send else None
        process = DevProcess(
            Task(target, listening.socket.fileno(), listening.url, -1, samples),
            environment,
            settings.http.shutdown_deadline,
        )
        ending.callback(process.stop)
        process.start()
        while (report := process.report(TICK)) is None and not asked_to_end:
            if process.code is not None:
                raise typer.Exit(max(1, process.code))
        if report is None:
            return
        value = {"url": listening.url, "pid": os.getpid(), **_open_console(report["store"], settings, pages, ending)}
        _print(target, value, output, time.monotonic() - began)
        watched = changes(report["folder"])
        said_end = False
        while not asked_to_end:
            time.sleep(TICK)
            now = changes(report["folder"])
            if now != watched:
                watched, said_end = now, False
                notes().print("a file has changed: the server starts again")
                process.stop()
                process.start()
            elif process.code is not None and not said_end:
                said_end = True
                notes().print(f"the server has ended with code {process.code}; it starts again when a file changes")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--folder: {folder} cannot be made: {error.strerror}") from error


def _provided_store(folder: Path, ending: contextlib.ExitStack) -> str:
    """The URL of the store for an application that none is configured for."""
    try:
        from mercury.postgres.embedded import EmbeddedPostgres

        server = EmbeddedPostgres(folder / "pg").start()
        ending.callback(server.stop)
        return server.provide_database("mercury")
    except (MercuryError, ModuleNotFoundError) as error:
        notes().print(f"no PostgreSQL, so the store is in SQLite: {error}", markup=False)
        return f"sqlite:///{folder / 'server.db'}"


def _open_console(
    store: str | None, settings: Settings, pages: BackgroundServer, ending: contextlib.ExitStack
) -> dict[str, str | None]:
    """Serve the console of a store; returns what there is to print of it."""
    from mercury.console.opening import console_of
    from mercury.settings import store_name
    from mercury.storage.administration import open_used_store

    found: dict[str, str | None] = {"store": None, "console": None, "login": None, "token": None}
    if store is None:
        notes().print("no console: it shows a store in a database, and the application uses none (memory:)")
        return found
    found["store"] = store_name(store)
    own, made = settings.console, None
    if own.token is None:
        made = secrets.token_urlsafe(24)
        own = dataclasses.replace(own, token=made)
    opened = ending.enter_context(contextlib.closing(open_used_store(store)))
    try:
        shown = console_of(opened, store_name(store), own, watch=settings.watch)
    except ConfigurationError as error:
        notes().print(f"no console: {error}", markup=False)
        return found
    ending.callback(shown.close)
    pages.start(shown.application(), settings.http)
    ending.callback(pages.stop)  # before the store is closed
    login = f"{pages.url}/{shown.login_path(getpass.getuser())}"
    return {**found, "console": pages.url, "login": login, "token": made}


def _print(target: str, value: dict[str, int | str | None], output: Format, took: float) -> None:
    """:param took: seconds from the command to the first message that can arrive."""
    if output is Format.JSON:
        typer.echo(json.dumps({**value, "seconds": round(took, 1)}))
    else:
        terminal().print(f"serving {target} at {value['url']} after {took:.1f} s (Ctrl-C ends it)", markup=False)
        if value["store"] is not None:
            terminal().print(f"the store is {value['store']}", markup=False)
        if value["login"] is not None:
            terminal().print(f"the console: log in once, within ten minutes: {value['login']}", markup=False)
        if value["token"] is not None:
            terminal().print(f"the token for later logins: {value['token']}", markup=False)
    sys.stdout.flush()
