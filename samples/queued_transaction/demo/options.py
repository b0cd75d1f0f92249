"""The options of a run."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Store(enum.Enum):
    """Where Mercury stores its messages, and how they are committed."""

    #: In the memory of each process, beside the application's database.
    MEMORY = "memory"
    #: In a database of their own: the application commits, then Mercury does.
    SQL = "sql"
    #: In the application's database: one commit.
    SAME_DB = "same-db"
    #: In a database of their own, by two-phase commit.
    XA = "xa"

    @property
    def two_commits(self) -> bool:
        """Whether the application and Mercury commit separately, so that a process may be killed in between."""
        return self in (Store.MEMORY, Store.SQL)

    @property
    def separate(self) -> bool:
        """Whether Mercury has a database of its own on each side."""
        return self in (Store.SQL, Store.XA)


class Mode(enum.Enum):
    """Whether the server responds to each order."""

    IN_ONLY = "in-only"
    IN_OUT = "in-out"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one run."""

    store: Store
    mode: Mode
    orders: int
    kills: int
    #: The shares of HTTP exchanges that are lost, and that are repeated.
    loss: float
    duplicate: float
    seed: int
    #: Keep the databases, the logs and the embedded server.
    keep: bool
    #: PostgreSQL servers on which databases may be created; ``None`` = an embedded one.
    client_postgres: str | None
    server_postgres: str | None
    #: The folder of the report; ``None`` = a temporary folder.
    out: Path | None
