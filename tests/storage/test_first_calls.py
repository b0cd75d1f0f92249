"""A process that has never called a handler learns how long that takes, although another process could deliver all."""

from __future__ import annotations

from collections.abc import Collection

from mercury.engine.delivery.call_times import QUICK, SLOW, CallTimes
from mercury.engine.delivery.on_arrival import FIRST_PAUSE
from mercury.engine.delivery.received import Received

from .test_delivery_on_arrival import NOW, TwoProcesses, store, two

__all__ = ["store", "two"]


class Slow(CallTimes):
    """Of calls that take as long as the first ones of a process that opens its connections in them."""

    def took(self, services: Collection[str | None], seconds: float, calls: int, buffers: int) -> None:
        del seconds
        super().took(services, 2 * SLOW * calls, calls, buffers)


def began(two: TwoProcesses, times: CallTimes, *keys: str) -> None:
    """The first process has called nothing yet, and has no claims. There is a sequence of each key."""
    for key in keys:
        two.send([f"first {key}"], key)
        two.run(NOW)
    two.calls.clear()
    two.first.engine._context.claims.release_all()
    assert two.first.engine.on_arrival is not None
    two.first.engine.on_arrival.savepoints.times = times
    two.first.engine.on_arrival._first.clear()


def test_no_other_process_takes_the_first_message_of_a_service_that_a_process_receives(two: TwoProcesses) -> None:
    began(two, CallTimes(), "new")
    two.bring("a", key="new")
    assert two.stored() == 1
    two.second.engine.invocation.run_once(NOW)
    assert two.calls == []
    two.first.engine.invocation.run_once(NOW)
    assert two.calls == ["a"]
    two.bring("b", key="new")
    assert two.calls == ["a", "b"]
    assert two.stored() == 0, "it has learned that calls are quick"


def test_other_buffers_that_fill_meanwhile_are_free_for_others(two: TwoProcesses) -> None:
    """Its calls may take long, and others are there to share the work."""
    began(two, CallTimes(), "one", "two")
    two.bring("a", key="one")
    two.bring("b", key="two")
    two.second.engine.invocation.run_once(NOW)
    assert two.calls == ["b"]


def test_process_whose_messages_another_one_delivers_asks_for_the_claim_now_and_then_only(two: TwoProcesses) -> None:
    """Behind a load balancer it may never have to call a handler."""
    began(two, CallTimes(), "new")
    two.of(two.second).bring("a", key="new")  # it has the claim now
    claims, asked = two.first.engine._context.claims, list[str]()
    take = claims.take
    claims.take = lambda resource, now: asked.append(resource) or take(resource, now)  # type: ignore[method-assign, func-returns-value]
    clock = claims.monotonic()
    claims.monotonic = lambda: clock
    for name in ("b", "c", "d"):
        two.of(two.first).bring(name, key="new")
    assert len(asked) == 1
    clock += FIRST_PAUSE
    two.bring("e", key="new")
    assert len(asked) == 2


def test_process_alone_takes_no_claims_before_it_delivers(two: TwoProcesses) -> None:
    began(two, CallTimes(), "new")
    two.first.engine.note_others(False)
    two.bring("a", key="new")
    two.second.engine.invocation.run_once(NOW)
    assert two.calls == ["a"]


def test_claim_goes_to_the_process_that_receives_although_first_calls_have_taken_long(two: TwoProcesses) -> None:
    began(two, Slow(), "new")
    two.bring("a", key="new")
    two.first.engine.invocation.run_once(NOW)
    assert two.calls == ["a"]
    two.of(two.second).bring("b", key="new")
    assert (two.calls, two.stored()) == (["a"], 1), "the first one has the claim"
    two.first.engine.on_arrival._received = Received()  # it is long ago
    two.first.engine.invocation.run_once(NOW)
    two.bring("c", key="new")
    assert two.calls == ["a", "b", "c"], "on arrival"


def test_calls_may_be_quick_until_they_had_time_to_become_so() -> None:
    times = CallTimes()
    assert times.may_be_quick("orders")
    assert not times.knows("orders")
    times.took(["orders"], 2 * SLOW, 1, 1)
    assert times.knows("orders")
    assert times.may_be_quick("orders")
    assert not times.is_quick("orders")
    times.took(["orders"], 0.0, 1, 1)
    assert times.may_be_quick("orders")
    times.took(["orders"], 10 * QUICK, 1, 1)
    assert not times.may_be_quick("orders"), "they have become slow"
