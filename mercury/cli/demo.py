"""`mercury demo`."""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mercury.cli.output import UNUSABLE, Format, Output, fail
from mercury.errors import ConfigurationError

#: The module of the demonstration, and its file relative to a folder on Python's path.
PROGRAM, FILE = "samples.queued_transaction", "samples/queued_transaction/__main__.py"


class Store(enum.Enum):
    """Where Mercury stores the messages of the demonstration."""

    MEMORY = "memory"
    SQL = "sql"
    SAME_DB = "same-db"
    XA = "xa"


class Mode(enum.Enum):
    """Whether the server responds to each order."""

    IN_ONLY = "in-only"
    IN_OUT = "in-out"


def demo(
    store: Annotated[Store, typer.Option(help="Where Mercury's messages are stored; see above.")] = Store.XA,
    mode: Annotated[Mode, typer.Option(help="in-out: the server responds to each order.")] = Mode.IN_ONLY,
    orders: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of rows in the client's table.")] = 500,
    kills: Annotated[
        int, typer.Option(min=0, max=1000, help="Number of times that the client or the server is killed.")
    ] = 6,
    loss: Annotated[float, typer.Option(min=0, max=0.9, help="Share of HTTP exchanges that are lost.")] = 0.1,
    duplicate: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of HTTP requests that are delivered twice.")
    ] = 0.1,
    seed: Annotated[
        int, typer.Option(help="Seed of the rows, the network and the kills; the moment of a kill varies.")
    ] = 1,
    compare: Annotated[bool, typer.Option("--compare", help="Run with all four stores, one after the other.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the databases and logs.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the report.")] = None,
    client_postgres: Annotated[
        str | None, typer.Option(metavar="URL", help="A PostgreSQL for the client; default: an embedded one.")
    ] = None,
    server_postgres: Annotated[
        str | None, typer.Option(metavar="URL", help="A PostgreSQL for the server; default: an embedded one.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Move orders from one database to another while processes are killed and the network fails; prove the result.

    A client and a server have a database each. A proxy between them loses, repeats, delays and cuts requests. At the
    end the reconciler compares both tables and writes a report. --store selects where Mercury stores its messages:

    \b
    memory   in the processes
    sql      in a database of their own; the application commits, then Mercury
    same-db  in the application's database: one commit
    xa       in a database of their own: two-phase commit

    Exit code 0: the result is what the store guarantees. With memory and sql, orders may be lost or repeated when a
    process is killed; with same-db and xa each arrives exactly once. 1: the result violates the guarantee. 2: the
    demonstration could not run.
    """
    if loss + duplicate > 0.9:
        fail(UNUSABLE, "--loss and --duplicate together must leave a tenth of the requests undisturbed")
    for name, url in (("--client-postgres", client_postgres), ("--server-postgres", server_postgres)):
        if url is not None:
            _check(name, url)
    given = {
        "--store": store.value,
        "--mode": mode.value,
        "--orders": orders,
        "--kills": kills,
        "--loss": loss,
        "--duplicate": duplicate,
        "--seed": seed,
        "--out": out,
        "--client-postgres": client_postgres,
        "--server-postgres": server_postgres,
        "--output": output.value,
    }
    arguments = [f"{name}={value}" for name, value in given.items() if value is not None]
    arguments += [name for name, chosen in (("--compare", compare), ("--keep", keep)) if chosen]
    path = os.pathsep.join(filter(None, (str(_folder()), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    # `execve` replaces this process, so that the program gets signals and the terminal directly.
    os.execve(sys.executable, [sys.executable, "-m", PROGRAM, *arguments], environment)  # noqa: S606  our own program


def _folder() -> Path:
    """The folder of the samples: in the installed package, or beside it in the source tree."""
    package = Path(__file__).resolve().parents[1]
    found = [folder for folder in (package / "_samples", package.parent) if (folder / FILE).exists()]
    if not found:
        fail(UNUSABLE, f"this installation of Mercury has no samples: {FILE} is missing")
    return found[0]


def _check(option: str, url: str) -> None:
    from mercury.postgres.databases import Databases

    try:
        Databases(url)
    except ConfigurationError as error:
        fail(UNUSABLE, f"{option}: {error}")
