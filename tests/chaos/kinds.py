"""The parameters that the experiments vary."""

from __future__ import annotations

import enum


class Form(enum.Enum):
    """How a message and the application's rows are committed."""

    #: Mercury's tables are in the application's database: one local transaction.
    SAME_DATABASE = "same database"
    #: The application's branch is prepared, then the store commits with the decision.
    LAST_RESOURCE = "XA, last resource"
    #: The store is a prepared branch too; the decision is in a log of its own.
    TWO_PHASE = "XA, two-phase"
    #: A SQL store, and an application with commits of its own, for comparison.
    PLAIN = "plain SQL"
    #: The same with the in-memory store.
    MEMORY = "memory"

    @property
    def xa(self) -> bool:
        return self in (Form.LAST_RESOURCE, Form.TWO_PHASE)

    @property
    def separate(self) -> bool:
        """Whether Mercury and the application commit separately."""
        return self in (Form.PLAIN, Form.MEMORY)


#: The forms that guarantee exactly once.
SAFE = (Form.SAME_DATABASE, Form.LAST_RESOURCE, Form.TWO_PHASE)


class Mode(enum.Enum):
    """Whether orders have responses."""

    IN_ONLY = "in-only"
    IN_OUT = "in-out"


class Way(enum.Enum):
    """How acknowledgements and responses reach the client."""

    #: In the HTTP replies to the client's requests: it does not listen.
    FETCHED = "fetched"
    #: Posted to the client, which listens.
    POSTED = "posted"
    #: Posted to the client, which offers no sequence: the server creates one for its responses.
    CREATED = "created"


class Side(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


class Moment(enum.Enum):
    BEFORE = "before"
    AFTER = "after"


class Harm(enum.Enum):
    """The fault while the process is stopped at the point."""

    KILL = "kill"
    #: The database server is killed and restarted; the process is continued.
    KILL_POSTGRES = "kill PostgreSQL"
    #: Another process finishes the work; then the process is continued.
    PAUSE = "pause"
