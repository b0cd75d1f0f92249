"""What is due is looked for once for many turns, and no key waits longer than the search is worth."""

from __future__ import annotations

from mercury.engine.source.found_keys import FOUND, LONGEST, TIMES, FoundKeys
from mercury.storage.records import SequenceKey

TURN = 64


class Store:
    """A store that goes through all due keys at each query."""

    def __init__(self, due: int, *, seconds_each: float = 1e-5) -> None:
        self.due = [SequenceKey("http://destination", f"key {number}") for number in range(due)]
        self.clock = 0.0
        self.queries = 0
        self._each = seconds_each

    def find(self, _now: float, limit: int) -> list[SequenceKey]:
        self.queries += 1
        self.clock += self._each * len(self.due)
        return self.due[:limit]

    def found(self) -> FoundKeys:
        return FoundKeys(self.find, lambda: self.clock)

    def work_on(self, keys: list[SequenceKey]) -> None:
        gone = set(keys)
        self.due = [key for key in self.due if key not in gone]


def worked_off(store: Store, *, turn_seconds: float = 0.0) -> list[SequenceKey]:
    """All keys in the order in which they were worked on."""
    found, done, more = store.found(), list[SequenceKey](), True
    while more:
        keys, more = found.next(0.0, TURN)
        store.work_on(keys)
        store.clock += turn_seconds
        done += keys
    return done


def test_ten_times_as_many_keys_do_not_take_a_hundred_times_as_many_looks() -> None:
    looks = {}
    for due in (1000, 10_000):
        store = Store(due)
        expected = list(store.due)
        assert worked_off(store) == expected
        looks[due] = store.clock
    assert looks[10_000] / 10_000 < 8 * looks[1000] / 1000


def test_key_that_is_due_after_the_query_is_found_although_its_event_is_over() -> None:
    store = Store(TURN + 1)
    found = store.found()
    store.work_on(found.next(0.0, TURN)[0])
    late = SequenceKey("http://destination", "late")
    store.due.append(late)
    keys, more = found.next(0.0, TURN)
    store.work_on(keys)
    assert late not in keys
    assert more
    assert found.next(0.0, TURN) == ([late], False)


def test_found_keys_are_used_as_long_as_the_search_for_them_is_worth() -> None:
    store = Store(1000)
    found = store.found()
    found.next(0.0, TURN)
    store.clock += 0.9 * TIMES * 1000 * 1e-5
    found.next(0.0, TURN)
    assert store.queries == 1
    store.clock += 0.2 * TIMES * 1000 * 1e-5
    found.next(0.0, TURN)
    assert store.queries == 2


def test_slow_search_does_not_hold_back_new_keys_for_long() -> None:
    store = Store(1000, seconds_each=1.0)
    found = store.found()
    found.next(0.0, TURN)
    store.clock += LONGEST
    found.next(0.0, TURN)
    assert store.queries == 2


def test_each_turn_asks_if_asking_takes_no_time() -> None:
    store = Store(FOUND, seconds_each=0.0)
    found = store.found()
    for _ in range(3):
        found.next(0.0, TURN)
    assert store.queries == 3


def test_key_that_was_worked_on_elsewhere_since_the_query_is_left_out_until_the_next_one() -> None:
    store = Store(2 * TURN)
    found = store.found()
    first, _ = found.next(0.0, TURN)
    store.work_on(first)
    elsewhere = store.due[0]
    found.worked(elsewhere)
    second, more = found.next(0.0, TURN)
    assert elsewhere not in second
    assert len(second) == TURN - 1
    store.work_on(second)
    assert more
    assert found.next(0.0, TURN) == ([elsewhere], False), "it has become due again"


def test_key_that_is_worked_on_elsewhere_during_a_query_is_asked_for_once_more() -> None:
    store = Store(1)
    (key,) = store.due

    class Elsewhere(Store):
        def find(self, now: float, limit: int) -> list[SequenceKey]:
            keys = super().find(now, limit)
            if self.queries == 1:
                found.worked(key)
            return keys

    store = Elsewhere(1)
    found = store.found()
    assert found.next(0.0, TURN) == ([], True)
    assert found.next(0.0, TURN) == ([key], False)
