"""Several processes that send from one store share its keys, instead of leaving all of them to the first one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.engine.exchange import Outgoing, Purpose
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store

from .pair import Pair, Side

NOW = 1_800_000_000.0


class TwoSenders:
    """A second process on the client's store. Each knows of the other."""

    def __init__(self, url: str) -> None:
        self.pair = Pair(open_sql_store(url), MemoryStore())
        self.first, self.second = self.pair.client, Side(open_sql_store(url))
        for side in (self.first, self.second):
            side.engine.note_others(True)

    def close(self) -> None:
        for side in (self.first, self.second):
            side.store.close()

    def send(self, keys: int) -> None:
        """Hand over a message under each of so many keys."""
        for number in range(keys):
            self.pair.send(["order"], key=f"till {number}")


@pytest.fixture
def two(postgres_url: str) -> Iterator[TwoSenders]:
    made = TwoSenders(postgres_url)
    yield made
    made.close()


def keys_of(posts: list[Outgoing]) -> set[str]:
    assert {post.purpose for post in posts} <= {Purpose.CREATE}
    return {post.key.name for post in posts if post.key is not None}


def test_keys_that_are_due_at_once_are_shared_by_two_processes(two: TwoSenders) -> None:
    two.send(8)
    first = keys_of(two.first.turn(NOW)[1])
    assert len(first) == 4
    second = {key for _ in range(3) for key in keys_of(two.second.turn(NOW)[1])}
    assert len(second) == 4
    assert not first & second


def test_process_takes_all_keys_that_the_other_one_leaves(two: TwoSenders) -> None:
    two.send(8)
    taken = []
    for left in (True, True, True, False):
        step = two.first.engine.source.run_once(NOW)
        taken.append(len(step.posts))
        assert step.more is left, "the next turn follows at once"
    assert taken == [4, 2, 1, 1]


def test_one_key_is_taken_at_once_and_stays_with_its_process(two: TwoSenders) -> None:
    two.send(1)
    assert len(two.first.turn(NOW)[1]) == 1
    assert two.second.turn(NOW)[1] == []


def test_messages_under_keys_that_a_process_has_leave_in_one_turn(two: TwoSenders) -> None:
    two.send(8)
    creations = [post for _ in range(4) for post in two.first.turn(NOW)[1]]
    posts = two.first.receive(two.pair.carry(creations, NOW), NOW)
    two.first.receive(two.pair.carry(posts, NOW), NOW)
    two.send(8)
    assert len(two.first.turn(NOW)[1]) == 8


def test_two_processes_that_look_at_the_same_time_prefer_different_keys() -> None:
    """Each has a store of its own here: neither sees what the other one takes."""
    taken = []
    for _ in range(2):
        pair = Pair(MemoryStore(), MemoryStore())
        pair.client.engine.note_others(True)
        for number in range(40):
            pair.send(["order"], key=f"till {number}")
        taken.append(keys_of(pair.client.turn(NOW)[1]))
    assert len(taken[0]) == len(taken[1]) == 20
    assert taken[0] != taken[1]
