"""Commands that work on a store itself, whether or not a process runs on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mercury.storage.sql.store import SqlStore

StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store; left out, the one that the settings name.")
]


def store_url(store: str | None, config: Path | None) -> str:
    """The URL of the store that is meant: the option's, or the settings'.

    :raises ConfigurationError: the settings cannot be used.
    """
    from mercury.settings import load

    return load(config).store if store is None else store


@contextlib.contextmanager
def used_store(store: str | None, config: Path | None) -> Iterator[SqlStore]:
    """The store that is meant, which somebody has used, opened for as long as the block.

    :raises ConfigurationError: it is none that can be looked at, or nobody has used it.
    :raises StorageError: it does not answer.
    """
    from mercury.storage.administration import open_used_store

    with contextlib.closing(open_used_store(store_url(store, config))) as opened:
        yield opened
