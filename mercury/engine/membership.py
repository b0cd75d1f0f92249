"""A member of a store that several processes share: what it does, by its role and by the answers to its lease.

Where the role is active-standby, the active member is the one that has the claim `ACTIVE_MEMBER`. The claim's epoch
grows with every take-over, and every commit of the member is conditional on it (`StorageManager.guard_all`), so a
member that has lost the claim without knowing it changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.storage.claims import NEVER_ACTIVE, Claim


class MemberRole(enum.Enum):
    """Which of the processes on a store serve."""

    #: Every one of them serves.
    ACTIVE_ACTIVE = "active-active"
    #: One of them serves; the others wait to take over.
    ACTIVE_STANDBY = "active-standby"


class MemberState(enum.Enum):
    """What a member of the role active-standby does now."""

    STANDBY = "standby"
    ACTIVE = "active"
    ENDED = "ended"


class LeaseEvent(enum.Enum):
    """What a member learns of the claim on being active."""

    #: The claim is the member's: taken, or prolonged with the epoch that it had.
    HELD = "held"
    #: Another member has it, or has had it meanwhile.
    LOST = "lost"
    #: The store does not answer: the claim may be the member's or not, and nothing can be written.
    UNANSWERED = "unanswered"
    #: The process ends.
    STOPPED = "stopped"


class MemberEffect(enum.Enum):
    """What follows from a change of the state."""

    #: Start to serve, under the claim.
    SERVE = "serve"
    #: Stop to serve.
    CEASE = "cease"


_S, _E = MemberState, LeaseEvent

#: The next state, and the effect, by state and event. In an event that is missing nothing changes.
TABLE: Mapping[tuple[MemberState, LeaseEvent], tuple[MemberState, MemberEffect | None]] = MappingProxyType(
    {
        (_S.STANDBY, _E.HELD): (_S.ACTIVE, MemberEffect.SERVE),
        (_S.ACTIVE, _E.LOST): (_S.STANDBY, MemberEffect.CEASE),
        (_S.STANDBY, _E.STOPPED): (_S.ENDED, None),
        (_S.ACTIVE, _E.STOPPED): (_S.ENDED, MemberEffect.CEASE),
    }
)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member as health and status show it."""

    role: MemberRole
    state: MemberState
    #: The epoch of its claim; ``None`` = it has none.
    epoch: int | None

    def as_dict(self) -> dict[str, object]:
        return {"role": self.role.value, "member": self.state.value, "epoch": self.epoch}


class Member:
    """The state of one member of the role active-standby. It has no clock and no store."""

    def __init__(self) -> None:
        self.state = MemberState.STANDBY
        #: The claim that it serves under; `NEVER_ACTIVE` while it does not.
        self.claim = NEVER_ACTIVE

    @property
    def status(self) -> MemberStatus:
        active = self.state is MemberState.ACTIVE
        return MemberStatus(MemberRole.ACTIVE_STANDBY, self.state, self.claim.epoch if active else None)

    def answered(self, claim: Claim | None) -> MemberEffect | None:
        """The store has answered the question for the claim: with the claim, or ``None`` = another member has it.

        A claim with another epoch than the member serves under was another member's meanwhile.
        """
        if claim is None or (self.state is MemberState.ACTIVE and claim != self.claim):
            return self._on(LeaseEvent.LOST)
        effect = self._on(LeaseEvent.HELD)
        if self.state is MemberState.ACTIVE:
            self.claim = claim
        return effect

    def unanswered(self) -> MemberEffect | None:
        """The store did not answer."""
        return self._on(LeaseEvent.UNANSWERED)

    def stopped(self) -> MemberEffect | None:
        """The process ends in an orderly way."""
        return self._on(LeaseEvent.STOPPED)

    def _on(self, event: LeaseEvent) -> MemberEffect | None:
        self.state, effect = TABLE.get((self.state, event), (self.state, None))
        if self.state is not MemberState.ACTIVE:
            self.claim = NEVER_ACTIVE
        return effect
