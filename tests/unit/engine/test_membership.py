"""The states of a member: each state by each event."""

from __future__ import annotations

import pytest

from mercury.engine.membership import TABLE, LeaseEvent, Member, MemberEffect, MemberRole, MemberState
from mercury.storage.claims import ACTIVE_MEMBER, NEVER_ACTIVE, Claim

FIRST, OTHERS, LATER = (Claim(ACTIVE_MEMBER, owner, epoch) for owner, epoch in (("me", 1), ("other", 2), ("me", 3)))


def in_state(state: MemberState) -> Member:
    member = Member()
    if state is not MemberState.STANDBY:
        member.answered(FIRST)
    if state is MemberState.ENDED:
        member.stopped()
    assert member.state is state
    return member


@pytest.mark.parametrize(
    ("state", "event", "next_state", "effect"),
    [
        (MemberState.STANDBY, LeaseEvent.HELD, MemberState.ACTIVE, MemberEffect.SERVE),
        (MemberState.STANDBY, LeaseEvent.LOST, MemberState.STANDBY, None),
        (MemberState.STANDBY, LeaseEvent.UNANSWERED, MemberState.STANDBY, None),
        (MemberState.STANDBY, LeaseEvent.STOPPED, MemberState.ENDED, None),
        (MemberState.ACTIVE, LeaseEvent.HELD, MemberState.ACTIVE, None),
        (MemberState.ACTIVE, LeaseEvent.LOST, MemberState.STANDBY, MemberEffect.CEASE),
        (MemberState.ACTIVE, LeaseEvent.UNANSWERED, MemberState.ACTIVE, None),
        (MemberState.ACTIVE, LeaseEvent.STOPPED, MemberState.ENDED, MemberEffect.CEASE),
        (MemberState.ENDED, LeaseEvent.HELD, MemberState.ENDED, None),
        (MemberState.ENDED, LeaseEvent.LOST, MemberState.ENDED, None),
        (MemberState.ENDED, LeaseEvent.UNANSWERED, MemberState.ENDED, None),
        (MemberState.ENDED, LeaseEvent.STOPPED, MemberState.ENDED, None),
    ],
)
def test_each_state_by_each_event(
    state: MemberState, event: LeaseEvent, next_state: MemberState, effect: MemberEffect | None
) -> None:
    member = in_state(state)
    does = {
        LeaseEvent.HELD: lambda: member.answered(FIRST),
        LeaseEvent.LOST: lambda: member.answered(None),
        LeaseEvent.UNANSWERED: member.unanswered,
        LeaseEvent.STOPPED: member.stopped,
    }
    assert does[event]() is effect
    assert member.state is next_state
    assert TABLE.get((state, event), (state, None)) == (next_state, effect)
    assert member.claim == (FIRST if next_state is MemberState.ACTIVE else NEVER_ACTIVE)


def test_a_claim_that_another_member_had_meanwhile_is_lost() -> None:
    member = in_state(MemberState.ACTIVE)
    assert member.answered(LATER) is MemberEffect.CEASE
    assert member.status.epoch is None
    assert member.answered(LATER) is MemberEffect.SERVE
    assert member.status.epoch == 3


def test_status_names_role_state_and_epoch() -> None:
    member = Member()
    assert member.status.as_dict() == {"role": MemberRole.ACTIVE_STANDBY.value, "member": "standby", "epoch": None}
    member.answered(FIRST)
    assert member.status.as_dict() == {"role": "active-standby", "member": "active", "epoch": 1}
