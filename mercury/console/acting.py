"""What all actions of the console have in common: the actor and the reason for the audit."""

from __future__ import annotations

from mercury.console.visits import Visit
from mercury.storage.audit import Actor, Via

#: Characters of a reason that are kept.
MAX_REASON = 200


def actor_of(visit: Visit) -> Actor:
    """The user as the audit names it."""
    return Actor(visit.user.name, Via.CONSOLE)


def reason_of(visit: Visit) -> str:
    """The reason that the user gave."""
    return visit.text("why")[:MAX_REASON]
