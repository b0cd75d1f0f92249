"""The ages from which on waiting messages and transactions make a store degraded."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.bounds import above


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """The ages from which on a waiting message or transaction makes a store *degraded*, in seconds; ``None`` = never.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: The age of the oldest unacknowledged message.
    unacknowledged: float | None = 600.0
    #: The age of the oldest received message that no handler has consumed.
    unhandled: float | None = 600.0
    #: The age of the oldest two-phase commit that is not finished in every database.
    in_doubt: float | None = 60.0

    def __post_init__(self) -> None:
        named = {"unacknowledged": self.unacknowledged, "unhandled": self.unhandled, "in_doubt": self.in_doubt}
        above(0, **{name: age for name, age in named.items() if age is not None})


@dataclass(frozen=True, slots=True)
class Ages:
    """Since when the oldest item of each kind waits, in seconds since the epoch; ``None`` = nothing waits."""

    unacknowledged: float | None = None
    unhandled: float | None = None
    in_doubt: float | None = None


def lateness(ages: Ages, settings: WatchSettings, now: float) -> list[str]:
    """One text for each kind that waits longer than its setting allows; empty = the store is not degraded."""
    found = (
        ("a message is not acknowledged", ages.unacknowledged, settings.unacknowledged),
        ("a received message is not handled", ages.unhandled, settings.unhandled),
        ("a two-phase commit is not finished", ages.in_doubt, settings.in_doubt),
    )
    return [
        f"{what} after {now - since:.0f} s (watched from {limit:g} s on)"
        for what, since, limit in found
        if since is not None and limit is not None and now - since > limit
    ]
