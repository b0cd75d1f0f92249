"""Names of distributed transactions and of their branches (decision 17)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mercury.errors import ConfigurationError
from mercury.masking import masked

#: The resource name of the store's own branch, in the two-phase form.
STORE_BRANCH = "store"
RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
GID = re.compile(r"mercury:([A-Za-z0-9_-]+):([A-Za-z0-9_-]+)\.([0-9]+)(?::([A-Za-z0-9_-]+))?")


@dataclass(frozen=True, slots=True, order=True)
class Gtrid:
    """The id of a distributed transaction. Unique: an incarnation is one start of one process, and counts upwards."""

    #: The id of the store whose Mercury coordinates it.
    store: str
    incarnation: str
    counter: int

    def __str__(self) -> str:
        return f"{prefix(self.store)}{self.incarnation}.{self.counter}"

    def gid(self, resource: str) -> str:
        """The name of its branch in a database; shorter than PostgreSQL's limit of 200 bytes."""
        return f"{self}:{resource}"


def prefix(store: str) -> str:
    """The common prefix of all gids of a store."""
    return f"mercury:{store}:"


def read_gid(gid: str) -> tuple[Gtrid, str] | None:
    """The transaction and the resource of a gid; ``None`` = the gid is not one of Mercury's."""
    match = GID.fullmatch(gid)
    if match is None or match[4] is None:
        return None
    return Gtrid(match[1], match[2], int(match[3])), match[4]


def read_gtrid(text: str) -> Gtrid:
    """Parse the name of a transaction.

    :raises ConfigurationError: the text is not such a name.
    """
    match = GID.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"not the name of a two-phase commit: {text!r} (mercury:STORE:INCARNATION.NUMBER)")
    return Gtrid(match[1], match[2], int(match[3]))


def checked_resource(name: str) -> str:
    """Check the name of a database that may take part; returns it.

    :raises ConfigurationError: the name cannot be part of a gid.
    """
    if not RESOURCE.fullmatch(name):
        raise ConfigurationError(
            f"resources: {masked(name)!r} is not a valid name (a letter, then up to 39 letters, digits, _ and -)"
        )
    if name == STORE_BRANCH:
        raise ConfigurationError(f"resources: {name!r} is the store's own name in a two-phase commit; take another one")
    return name
