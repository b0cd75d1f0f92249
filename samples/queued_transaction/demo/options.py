"""What a run is asked to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Store(enum.Enum):
    """Where Mercury keeps its messages, and what a client or a server does with them."""

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
        """The application's commit and Mercury's are two, and a process may die in between."""
        return self in (Store.MEMORY, Store.SQL)

    @property
    def separate(self) -> bool:
        """Mercury has a database of its own on each side."""
        return self in (Store.SQL, Store.XA)


class Mode(enum.Enum):
    """Whether the server answers."""

    IN_ONLY = "in-only"
    IN_OUT = "in-out"


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run."""

    store: Store
    mode: Mode
    orders: int
    kills: int
    #: Shares of exchanges.
    loss: float
    duplicate: float
    seed: int
    #: Leave databases, logs and the server for a look.
    keep: bool
    #: PostgreSQL servers where databases may be made; ``None`` = an embedded one.
    client_postgres: str | None
    server_postgres: str | None
    #: Where the report goes; ``None`` = a temporary folder.
    out: Path | None
