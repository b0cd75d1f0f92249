"""`mercury pg`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, show
from mercury.errors import StorageError

if TYPE_CHECKING:
    from mercury.postgres.embedded import EmbeddedPostgres

app = typer.Typer(help="An embedded PostgreSQL, for trials and tests, without an installation.", no_args_is_help=True)

Folder = Annotated[
    Path,
    typer.Option(
        *("--folder", "-f"),
        help="The server's folder; it must be new, empty, or used by `mercury pg` before.",
        readable=False,  # `ServerFolder` checks the folder, with a better error text
    ),
]
DEFAULT_FOLDER = Path(".mercury/pg")


@app.command()
def start(folder: Folder = DEFAULT_FOLDER, output: Output = Format.TEXT) -> None:
    r"""Start the server in the background, and print its URL. It runs until it is stopped. Does nothing if it runs.

    The server flushes to disk, allows prepared transactions, and listens at a Unix socket that only you can connect to.
    If you are root, it runs as user `nobody`. Install its programs by: pip install 'mercury-rm\[demo]'
    """
    server = _server(folder)
    with _storage_errors():
        before = server.pid
        pid = server.start().pid
        url = server.url()
    value = {"folder": str(server.folder), "pid": pid, "started": pid != before, "url": url, "log": str(server.log)}
    what = "runs already" if pid == before else "started"
    show(output, value, lambda: console().print(f"{what}, process {pid}: {url}", markup=False))


@app.command()
def stop(folder: Folder = DEFAULT_FOLDER, output: Output = Format.TEXT) -> None:
    """Stop the server in an orderly way. Its data remain. Does nothing if it does not run."""
    server = _server(folder)
    with _storage_errors():
        pid = server.pid
        server.stop()
    value = {"folder": str(server.folder), "pid": pid, "stopped": pid is not None}
    text = f"stopped, process {pid}" if pid is not None else f"nothing runs in {server.folder}"
    show(output, value, lambda: console().print(text, markup=False))


@app.command()
def url(
    folder: Folder = DEFAULT_FOLDER,
    database: Annotated[
        str | None,
        typer.Option("--database", "-d", help="The database's name; created if it is missing. Default: postgres."),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the URL of a database, for SQLAlchemy and for Mercury: MERCURY_STORE="$(mercury pg url -d orders)"."""
    server = _server(folder)
    with _storage_errors():
        if server.pid is None:
            fail(FAILED, f"no PostgreSQL runs in {server.folder}: start it with `mercury pg start`")
        found = server.url() if database is None else server.provide_database(database)
    value = {"folder": str(server.folder), "database": database or "postgres", "url": found}
    show(output, value, lambda: console().print(found, markup=False))


def _server(folder: Path) -> EmbeddedPostgres:
    try:
        from mercury.postgres.embedded import EmbeddedPostgres
    except ModuleNotFoundError as error:
        if error.name not in ("fcntl", "pwd"):
            raise
        fail(UNUSABLE, "the embedded PostgreSQL needs Unix sockets; name a server of your own by its URL")
    return EmbeddedPostgres(folder)


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        fail(FAILED, str(error))
