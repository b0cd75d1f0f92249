"""Users of the console and their roles."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from mercury.service.identity import HttpRequest

#: Characters of a user's name that are kept.
MAX_NAME = 80


class ConsoleRole(enum.Enum):
    """What a user of the console may do."""

    #: See all pages.
    READER = "reader"
    #: See all pages and use all actions.
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class ConsoleUser:
    """A user of the console. The name is written to the audit table with each action."""

    name: str
    role: ConsoleRole


#: An application's own check of who may use the console: the user of a request, only the role of a user without a name,
#: or ``None`` for a request that is refused. It is called for each request, in a thread, and may read a database.
ConsoleAccess = Callable[[HttpRequest], ConsoleUser | ConsoleRole | None]


def clean_name(text: str) -> str:
    """A name as the audit table keeps it: one line of printable characters, not too long."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:MAX_NAME]


def user_of(granted: ConsoleUser | ConsoleRole | None) -> ConsoleUser | None:
    """The user that an application's check means."""
    if isinstance(granted, ConsoleRole):
        return ConsoleUser(granted.value, granted)
    if granted is not None:
        return ConsoleUser(clean_name(granted.name) or granted.role.value, granted.role)
    return None
