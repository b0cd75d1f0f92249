"""The --store option of commands that open a store directly, whether or not a process uses it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mercury.storage.sql.store import SqlStore

StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store; default: the one of the settings.")
]


def store_url(store: str | None, config: Path | None) -> str:
    """The URL of the store: the option's, or the settings'.

    :raises ConfigurationError: the settings are invalid.
    """
    from mercury.settings import load

    return load(config).store if store is None else store


@contextlib.contextmanager
def used_store(store: str | None, config: Path | None) -> Iterator[SqlStore]:
    """An existing store, open until the end of the block.

    :raises ConfigurationError: the URL is not that of a durable store, or the store does not exist yet.
    :raises StorageError: the database does not answer.
    """
    from mercury.storage.administration import open_used_store

    with contextlib.closing(open_used_store(store_url(store, config))) as opened:
        yield opened
