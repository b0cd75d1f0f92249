"""Several threads find the same buffers due: each buffer is worked on by one of them, and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

from mercury.engine.cool_down import CoolDown
from mercury.engine.delivery.turns import Turns
from tests.acceptance.processes import eventually

DUE = {f"urn:{letter}": "peer" for letter in "abcd"}


def turns() -> Turns:
    store = SimpleNamespace(due_invoker=lambda _now, limit, _filter: dict(list(DUE.items())[:limit]))
    context = SimpleNamespace(
        store=store,
        claims=SimpleNamespace(owner="me"),
        application=SimpleNamespace(services=frozenset),
        settings=SimpleNamespace(sequence_batch=2),
        rates=None,
    )
    return Turns(cast("Any", context))


def test_buffer_that_a_thread_works_on_is_not_given_to_another() -> None:
    both = turns()
    with both.next(0.0, CoolDown()) as due, both.alone(["urn:a"], due) as mine, both.alone(due.sequences, due) as other:
        assert (mine, other) == (["urn:a"], ["urn:b"])


def test_query_finds_as_many_more_as_others_work_on() -> None:
    both = turns()
    with both.next(0.0, CoolDown()) as due, both.alone(due.sequences, due), both.next(0.0, CoolDown()) as more:
        assert (list(due.sequences), list(more.sequences)) == (["urn:a", "urn:b"], list(DUE))
        assert not due.complete


def test_buffer_that_was_served_since_the_query_is_not_worked_on_again() -> None:
    both = turns()
    with both.next(0.0, CoolDown()) as early, both.next(0.0, CoolDown()) as late:
        with both.alone(["urn:a"], early):
            both.served(["urn:a"])
        with both.alone(["urn:a"], late) as again:
            assert again == []
        assert both.is_past("urn:a", late)
        with both.next(0.0, CoolDown()) as new, both.alone(["urn:a"], new) as mine:
            assert mine == ["urn:a"]
    assert both._served == {}, "no query remembers it"


def test_buffer_on_which_nothing_was_done_is_given_to_another_thread() -> None:
    both = turns()
    with both.next(0.0, CoolDown()) as due:
        with both.alone(["urn:a"], due):
            pass
        with both.alone(["urn:a"], due) as mine:
            assert mine == ["urn:a"]


def test_thread_that_goes_on_is_not_waited_for_and_the_next_one_is() -> None:
    both = turns()
    with both.alone(["urn:a"]), ThreadPoolExecutor() as threads:
        assert not both.wait_for(["urn:a"], 0.0)
        waits = threads.submit(both.wait_for, ["urn:a", "urn:b"], 20.0)
        eventually(lambda: both.is_wanted("urn:b"), "arrivals wait")
        both.go_on("urn:a", goes_on=True)
        assert waits.result(10.0), "they are told at once"
        both.go_on("urn:a", goes_on=False)
        assert not both.wait_for(["urn:a"], 0.0)
        both.go_on("urn:a", goes_on=True)
    with both.alone(["urn:a"]):
        assert not both.wait_for(["urn:a"], 0.0)
