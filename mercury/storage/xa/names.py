"""Names of distributed transactions and of their branches (decision 17)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mercury.errors import ConfigurationError

#: The store's own branch, where it is prepared too.
STORE_BRANCH = "store"
RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
GID = re.compile(r"mercury:([A-Za-z0-9_-]+):([A-Za-z0-9_-]+)\.([0-9]+)(?::([A-Za-z0-9_-]+))?")


@dataclass(frozen=True, slots=True, order=True)
class Gtrid:
    """One distributed transaction. Never used again: an incarnation is one start of one process, and it counts."""

    #: The id of the store whose Mercury coordinates it.
    store: str
    incarnation: str
    counter: int

    def __str__(self) -> str:
        return f"{prefix(self.store)}{self.incarnation}.{self.counter}"

    def gid(self, resource: str) -> str:
        """The name of its branch in a database, below PostgreSQL's 200 bytes."""
        return f"{self}:{resource}"


def prefix(store: str) -> str:
    """What all gids of a store begin with."""
    return f"mercury:{store}:"


def read_gid(gid: str) -> tuple[Gtrid, str] | None:
    """The transaction and the resource of a gid; ``None`` = it is not of Mercury's making."""
    match = GID.fullmatch(gid)
    if match is None or match[4] is None:
        return None
    return Gtrid(match[1], match[2], int(match[3])), match[4]


def read_gtrid(text: str) -> Gtrid:
    """The transaction that a text names.

    :raises ConfigurationError: it names none.
    """
    match = GID.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"not the name of a two-phase commit: {text!r} (mercury:STORE:INCARNATION.NUMBER)")
    return Gtrid(match[1], match[2], int(match[3]))


def checked_resource(name: str) -> str:
    """The name of a database that may take part, as it was given.

    :raises ConfigurationError: it cannot be part of a gid.
    """
    if not RESOURCE.fullmatch(name):
        raise ConfigurationError(f"resources: {name!r} is no name (a letter, then up to 39 letters, digits, _ and -)")
    if name == STORE_BRANCH:
        raise ConfigurationError(f"resources: {name!r} is the store's own name in a two-phase commit; take another one")
    return name
