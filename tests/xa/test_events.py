"""A branch in doubt emits one event for the whole time it is in doubt."""

from __future__ import annotations

from mercury.engine.events import BranchInDoubt
from mercury.storage.xa.coordinator import Timing
from mercury.storage.xa.recovery import InDoubtBranch
from tests.acceptance.processes import eventually

from .pausing import paused
from .places import Places
from .test_processes import running


def test_branch_that_cannot_be_finished_is_an_event_at_the_first_attempt_only(places: Places) -> None:
    found: list[tuple[InDoubtBranch, float]] = []
    with places.process() as coordinator, places.process(timing=Timing(lease=3600.0, grace=0.0)) as other:
        other.recovery.on_in_doubt = lambda branch, now: found.append((branch, now))
        with paused(coordinator, "prepare") as stopped:
            for _ in range(3):
                other.recovery.run_once(other.clock())
            assert sorted(branch.gid for branch, _ in found) == places.prepared() != []
            assert all("has not decided yet" in branch.why for branch, _ in found)
            stopped.go_on()
        other.recovery.run_once(other.clock())
        assert len({branch.gid for branch, _ in found}) == len(found)
    assert places.state == ([1], [1], [])


def test_branch_that_is_finished_at_the_first_attempt_is_no_event(places: Places) -> None:
    found: list[InDoubtBranch] = []
    with places.process() as coordinator, places.process() as other:
        other.recovery.on_in_doubt = lambda branch, _now: found.append(branch)
        with paused(coordinator, "commit_decision") as stopped:
            other.recovery.run_once(other.clock())
            stopped.go_on()
    assert found == []
    assert places.state == ([1], [1], [])


def test_observers_of_another_process_see_a_branch_in_doubt_once_while_recovery_repeats(
    places: Places,
) -> None:
    seen: list[BranchInDoubt] = []
    with running(places, lease=3600.0) as living, running(places, lease=3600.0) as other:
        other.subscribe(seen.append, BranchInDoubt)
        assert living.coordinator is not None
        with paused(living.coordinator, "prepare") as stopped:
            left = len(places.prepared())
            eventually(lambda: len(seen) == left, "every branch is seen")
            for _ in range(3):
                assert other.coordinator is not None
                other.coordinator.recovery.run_once(other.clock())  # beside its own threads
            stopped.go_on()
        eventually(lambda: places.prepared() == [], "it is finished")
        assert {event.gid for event in seen} == {event.gid for event in seen[:left]}
        assert len(seen) == left
    event = next(event for event in seen if event.resource == "app")
    assert event.since <= event.at
    assert "has not decided yet" in event.why
    assert places.state == ([1], [1], [])
