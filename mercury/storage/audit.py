"""What was done by hand to a store: who, when, by which way, with the state before and after."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Via(enum.Enum):
    """The way by which an action came."""

    CLI = "cli"
    CONSOLE = "console"
    API = "api"


class TargetKind(enum.Enum):
    """What an action changes."""

    SEQUENCE = "sequence"
    SERVICE = "service"
    MESSAGE = "message"
    DEAD_LETTER = "dead letter"
    #: Many dead letters: an action that is made in pieces (`mercury.storage.bulk`).
    BULK = "bulk action"
    TRANSACTION = "transaction"
    DESTINATION = "destination"
    #: A comparison of two tables by the reconciler.
    COMPARISON = "comparison"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and by which way."""

    name: str
    via: Via = Via.API


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action. It is stored in the transaction that makes the change."""

    #: Seconds since the epoch.
    at: float
    actor: str
    via: Via
    #: What was done, for example ``suspend``.
    action: str
    kind: TargetKind
    #: The identifier of a sequence or dead letter, the name of a service, the id of a message or transaction.
    target: str
    #: What the action has changed, by name.
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)
    #: The reason that the actor gave.
    note: str = ""
    #: The bulk action that it is a part of; ``None`` = it was done by itself.
    bulk: int | None = None
    #: The order of insertion; the store sets it.
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A filter on actions: those that meet all conditions given here."""

    actor: str | None = None
    action: str | None = None
    kind: TargetKind | None = None
    target: str | None = None
    since: float | None = None
    #: Only the letters of this bulk action; ``None`` = without those of bulk actions, unless a target is given.
    bulk: int | None = None
