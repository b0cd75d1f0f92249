"""What the experiments vary."""

from __future__ import annotations

import enum


class Form(enum.Enum):
    """How a message and the application's rows come together."""

    #: Mercury's tables stand in the application's database: one local transaction.
    SAME_DATABASE = "same database"
    #: The application's branch is prepared, then the store commits with the decision.
    LAST_RESOURCE = "XA, last resource"
    #: The store is a prepared branch too; the decision is in a log of its own.
    TWO_PHASE = "XA, two-phase"
    #: A SQL store, and an application that commits by itself: what Mercury is compared with.
    PLAIN = "plain SQL"
    #: The same with the in-memory store.
    MEMORY = "memory"

    @property
    def xa(self) -> bool:
        return self in (Form.LAST_RESOURCE, Form.TWO_PHASE)

    @property
    def separate(self) -> bool:
        """Mercury and the application commit each for itself."""
        return self in (Form.PLAIN, Form.MEMORY)


#: The forms that promise exactly once.
SAFE = (Form.SAME_DATABASE, Form.LAST_RESOURCE, Form.TWO_PHASE)


class Mode(enum.Enum):
    """Whether orders are answered."""

    IN_ONLY = "in-only"
    IN_OUT = "in-out"


class Way(enum.Enum):
    """How what the server says reaches the client."""

    #: On the connections of the client's requests: it does not listen.
    FETCHED = "fetched"
    #: Posted to the client, which listens.
    POSTED = "posted"
    #: The same, but the client offers no sequence: the server makes one for its responses.
    CREATED = "created"


class Side(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


class Moment(enum.Enum):
    BEFORE = "before"
    AFTER = "after"


class Harm(enum.Enum):
    """What is done when the process stands at the point."""

    KILL = "kill"
    #: The database server is killed and started again; the process goes on.
    KILL_POSTGRES = "kill PostgreSQL"
    #: Another process does its work to the end; then it goes on.
    PAUSE = "pause"
