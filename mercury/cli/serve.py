"""`mercury serve`."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from mercury.cli.collector import uncollected
from mercury.cli.config import ConfigFile
from mercury.cli.logs import set_up_logs
from mercury.cli.output import UNUSABLE, Format, Output, console, fail
from mercury.cli.running import run_until_signal
from mercury.errors import MercuryError

log = logging.getLogger("mercury.cli")


def serve(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="A FastAPI application, or a function that returns one.")
    ],
    host: Annotated[str | None, typer.Option(help="The interface to listen at.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; 0 = any free port.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Serve https with this certificate and its chain (PEM).")] = None,
    tls_key: Annotated[
        str | None, typer.Option(help="The certificate's private key, unless it is in the same file.")
    ] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(help="Accept only peers with a certificate of these authorities (PEM).")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that serve, on one store in PostgreSQL; each loads the application.")
    ] = 1,
    role: Annotated[
        Literal["active-active", "active-standby"] | None,
        typer.Option(help="Whether all processes on the store serve, or one while the others wait to take over."),
    ] = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Serve an application until SIGTERM or Ctrl-C; then finish the open requests and end.

    APP is the result of `Mercury.app(...)`, or any FastAPI application that includes `Mercury.router(...)`.
    """
    with uncollected():
        from mercury.settings import load

    if role is not None:
        os.environ["MERCURY_ROLE"] = role  # the application loads its settings itself
    settings = load(config)
    if workers > 1 and settings.role.value == "active-standby":
        fail(UNUSABLE, "--workers: the role active-standby has one process at a port; the others would answer with 503")
    if workers > 1 and settings.stage.store:
        fail(
            UNUSABLE,
            "--workers: a stage (stage.store) belongs to one process, and the others cannot know its sequences",
        )
    if config is not None:
        # The application loads its settings itself; it may change the folder before that.
        os.environ["MERCURY_CONFIG"] = str(config.absolute())
    set_up_logs(settings.log)
    given = {"server_cert": tls_cert, "server_key": tls_key, "client_ca": tls_client_ca}
    tls = dataclasses.replace(settings.tls, **{name: file for name, file in given.items() if file is not None})
    with uncollected():
        app = load_application(target, load_object(target)) if workers == 1 else None
        # Imported here, so that an unusable target is reported before these slow imports.
        from mercury.service.serving import bind, server_for

    listening = bind(
        settings.http.host if host is None else host,
        settings.http.port if port is None else port,
        tls=tls.server_cert is not None,
    )

    def print_url() -> None:
        if output is Format.JSON:
            typer.echo(
                json.dumps({"url": listening.url, "pid": os.getpid()})
            )  # one line, so that a reader knows where it ends
        else:
            console().print(f"serving {target} at {listening.url} (Ctrl-C ends it)", markup=False)
        sys.stdout.flush()

    def serve_it(on_started: Callable[[], None]) -> int:
        with uncollected():
            served = app if app is not None else load_application(target, load_object(target))
        run_until_signal(server_for(served, settings.http, on_started, tls), listening)
        return 0

    if workers == 1:
        serve_it(print_url)
        return
    from mercury.service.worker_processes import WorkerProcesses

    code = WorkerProcesses(workers, listening.socket, serve_it).run(print_url)
    if code:
        raise typer.Exit(code)


def load_object(target: str) -> Any:
    """Import the object that ``MODULE:NAME`` names."""
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        fail(UNUSABLE, f"{target!r} is not of the form MODULE:APP, for example shop.server:app")
    sys.path.insert(0, "")
    if module_name.startswith("."):
        fail(UNUSABLE, f"{module_name!r} is not the full name of a module")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        fail(UNUSABLE, f"there is no module {error.name!r} (looked for in the current folder and the environment)")
    except MercuryError:
        raise
    except Exception as error:
        fail(UNUSABLE, _failed(f"{module_name} cannot be imported", error))
    for part in attribute.split("."):
        if not hasattr(found, part):
            fail(UNUSABLE, f"module {module_name!r} has no {attribute!r}")
        found = getattr(found, part)
    return found


def load_application(target: str, found: Any) -> Any:
    """The application that a target is, or that it makes when it is called."""
    from starlette.applications import Starlette

    if isinstance(found, Starlette):
        return found
    if not callable(found):
        fail(UNUSABLE, f"{target} is a {type(found).__name__}, not an application")
    try:
        made = found()
    except MercuryError:
        raise
    except Exception as error:
        fail(UNUSABLE, _failed(f"{target}() failed", error))
    if not isinstance(made, Starlette):
        fail(UNUSABLE, f"{target}() makes a {type(made).__name__}, not an application")
    return made


def _failed(what: str, error: Exception) -> str:
    """The text for an application's own error. The traceback is logged at level DEBUG."""
    log.debug(what, exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if not isinstance(error, SyntaxError) else ""
    return f"{what}: {type(error).__name__}: {error}{where}"
