"""From when on a store is degraded: what waits for longer than it should."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.bounds import above


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """From which age on what waits makes a store *degraded*. Times are seconds; ``None`` = never.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: Of the oldest message that is not acknowledged.
    unacknowledged: float | None = 600.0
    #: Of the oldest received message that no handler has consumed.
    unhandled: float | None = 600.0
    #: Of the oldest two-phase commit that is not finished in every database.
    in_doubt: float | None = 60.0

    def __post_init__(self) -> None:
        named = {"unacknowledged": self.unacknowledged, "unhandled": self.unhandled, "in_doubt": self.in_doubt}
        above(0, **{name: age for name, age in named.items() if age is not None})


@dataclass(frozen=True, slots=True)
class Ages:
    """Since when the oldest of each kind waits, in seconds since the epoch; ``None`` = none does."""

    unacknowledged: float | None = None
    unhandled: float | None = None
    in_doubt: float | None = None


def lateness(ages: Ages, settings: WatchSettings, now: float) -> list[str]:
    """What waits for longer than it should, in words; nothing = all is well."""
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
