"""Commands that work on a store itself, whether or not a process runs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store; left out, the one that the settings name.")
]


def store_url(store: str | None, config: Path | None) -> str:
    """The URL of the store that is meant: the option's, or the settings'.

    :raises ConfigurationError: the settings can not be used.
    """
    from mercury.settings import load

    return load(config).store if store is None else store
