"""What commands that change a store have in common: who acts, why, and the operator's layer."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.output import FAILED, UNUSABLE, fail
from mercury.cli.stores import used_store
from mercury.errors import MercuryError

if TYPE_CHECKING:
    from mercury.operations.operator import Operations
    from mercury.storage.audit import Actor

By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who acts, for the audit; default: the user of this shell.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, for the audit.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number to show.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="PLACE", help="Go on behind the page before, which named the place.")
]


def actor(by: str | None) -> Actor:
    """The operator of this command."""
    from mercury.storage.audit import Actor, Via

    if by is None:
        try:
            by = getpass.getuser()
        except (OSError, KeyError):
            fail(UNUSABLE, "this user has no name: give one for the audit, --by NAME")
    return Actor(by, Via.CLI)


@contextlib.contextmanager
def operations(store: str | None, config: Path | None) -> Iterator[Operations]:
    """The operator's layer on an existing store, open until the end of the block. What is not possible, and a page that
    does not exist, ends the command."""
    from mercury.operations.acting import NotPossible
    from mercury.operations.operator import Operations
    from mercury.settings import load

    watch = load(config).watch
    with used_store(store, config) as opened:
        try:
            yield Operations(opened, time.time, watch)
        except NotPossible as error:
            fail(FAILED, str(error))
        except MercuryError:
            raise
        except ValueError as error:
            fail(UNUSABLE, f"--after: {error}")
