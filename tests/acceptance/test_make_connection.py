"""A client that cannot listen fetches its responses by MakeConnection, over real sockets."""

from __future__ import annotations

from mercury import Mercury, SourcePolicy
from mercury.statemachine.retransmission import Backoff
from tests.acceptance.app import Ask, Note, Said, Slow
from tests.acceptance.processes import PATIENCE, Serving


def test_responses_that_come_late_are_fetched() -> None:
    # MC-05, MC-07
    policy = SourcePolicy(make_connection=True, polling=Backoff(base=0.05, cap=0.2))
    with Serving() as serving, Mercury("memory:") as mercury:
        desk = mercury.to(f"{serving.url}/services/desk", policy=policy)
        quick = [desk.request(Ask(f"{number}"), response=Said) for number in range(5)]
        slow = desk.request(Slow("late", 1.0), response=Said)
        desk.send(Note("noted"))
        assert [each.result(PATIENCE).text for each in quick] == [f"you said {number}" for number in range(5)]
        assert slow.result(PATIENCE) == Said("late")
        desk.close()
        assert desk.wait(PATIENCE)
