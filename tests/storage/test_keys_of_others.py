"""A process hears of each message under the keys of another one, and searches the store for few of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mercury.engine.appended import ELSEWHERE, GATHERED, MOST_KEYS, MOST_KNOWN, AppendedKeys
from mercury.engine.exchange import Outgoing
from mercury.storage.claims import WorkFilter
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.records import SequenceKey

from .pair import URL, Pair, Side

NOW = 1_800_000_000.0
#: Messages of a key leave in batches, so that they gather.
BATCH = 10
THEIRS, MINE = "theirs", "mine"


class Processes:
    """Two processes on a client's store; each key has a sequence and a process, and nothing is on its way."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()  # claims end by the clock of the database
        self.pair = Pair(open_sql_store(url), MemoryStore())
        self.other, self.this = self.pair.client, Side(open_sql_store(url))
        self.appended = self.this.engine.source.appended
        #: How often this process has searched its store.
        self.searches = 0
        search = self.this.store.due_rms

        def counted(now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
            self.searches += 1
            return search(now, limit, work_filter)

        monkeypatch.setattr(self.this.store, "due_rms", counted)
        for side, key in ((self.other, THEIRS), (self.this, MINE)):
            side.engine.note_others(True)
            self.pair.send(["order"], key, batch=BATCH)
            while posts := side.turn(self.now)[1]:
                self.carry(side, posts)
        self.turn()
        self.searches = 0

    def close(self) -> None:
        for side in (self.this, self.other):
            side.store.close()

    def send(self, key: str) -> None:
        """Commit a message, of which this process hears at once."""
        self.pair.send(["order"], key, batch=BATCH)
        self.appended.announce({SequenceKey(URL, key).digest})

    def carry(self, side: Side, posts: list[Outgoing]) -> None:
        while posts:
            posts = side.receive(self.pair.carry(posts, self.now), self.now)

    def turn(self, now: float | None = None) -> list[str]:
        """A turn of this process: the keys that it has sent under."""
        self.step = self.this.engine.source.run_once(self.now if now is None else now)
        return [post.key.name for post in self.step.posts if post.key is not None]


@pytest.fixture
def processes(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    made = Processes(postgres_url, monkeypatch)
    yield made
    made.close()


def test_stream_of_another_process_is_searched_for_once_in_a_while(processes: Processes) -> None:
    for number in range(10):
        processes.send(THEIRS)
        assert processes.turn(processes.now + number * ELSEWHERE / 10) == []
    assert processes.searches == 1
    processes.turn(processes.now + ELSEWHERE)
    assert processes.searches == 2


def test_turn_of_its_own_follows_for_what_was_not_searched_for(processes: Processes) -> None:
    processes.send(THEIRS)
    processes.turn()
    assert processes.appended.due() is None, "it was searched for"
    processes.send(THEIRS)
    processes.turn(processes.now + 0.1)
    assert processes.step.drained
    assert processes.step.due() == processes.now + ELSEWHERE
    assert processes.this.engine.source.next_due() == processes.now + ELSEWHERE


def test_message_whose_process_has_stopped_leaves_after_a_moment(processes: Processes) -> None:
    processes.send(THEIRS)
    processes.turn()
    processes.other.engine.stop(processes.now)
    processes.send(THEIRS)
    assert processes.turn(processes.now + 0.1) == []
    assert processes.turn(processes.now + ELSEWHERE) == [THEIRS]
    processes.send(THEIRS)
    processes.searches = 0
    assert processes.turn(processes.now + ELSEWHERE + 2 * GATHERED) == [THEIRS]
    assert processes.searches == 0, "it is a key of this process now"


def test_messages_that_gather_do_not_leave_because_another_process_has_a_stream(processes: Processes) -> None:
    processes.send(THEIRS)
    processes.send(MINE)
    assert processes.turn() == [MINE]
    for _ in range(3):
        processes.send(THEIRS)
        processes.send(MINE)
        assert processes.turn(processes.now + GATHERED / 2) == []


def test_key_that_nobody_has_is_found_at_once_beside_the_stream_of_another_process(processes: Processes) -> None:
    processes.send(THEIRS)
    processes.turn()
    processes.send(THEIRS)
    processes.send("new")
    assert processes.turn(processes.now + 0.1) == ["new"]


def test_process_without_others_searches_for_each_key_that_it_does_not_know(processes: Processes) -> None:
    processes.this.engine.note_others(False)
    for _ in range(3):
        processes.send(THEIRS)
        processes.turn()
    assert processes.searches == 3


def test_search_that_has_not_found_all_says_nothing_of_other_processes(processes: Processes) -> None:
    """A key that it has left out may be free."""
    for number in range(100):
        processes.send(f"new {number}")
    left_out = {SequenceKey("http://there", "left out").digest}
    processes.appended.announce(left_out)
    assert processes.turn()
    assert processes.step.more
    processes.appended.take(processes.now)
    processes.appended.announce(left_out)
    assert processes.appended.take(processes.now) is None


def test_after_a_clock_was_set_back_the_keys_of_others_are_searched_for(processes: Processes) -> None:
    for _ in range(2):
        processes.send(THEIRS)
        processes.turn()
    assert processes.searches == 1
    processes.turn(processes.now - 3600)
    assert processes.searches == 2


# --- what is remembered ----------------------------------------------------------------------------------------------


def digests(count: int) -> set[str]:
    return {SequenceKey("http://there", str(number)).digest for number in range(count)}


def of_others(keys: set[str]) -> AppendedKeys:
    """These keys were searched for, and another process has them."""
    appended = AppendedKeys()
    appended.announce(keys)
    assert appended.take(NOW) is None
    appended.found([], NOW, lambda _: False)
    return appended


def test_many_keys_of_others_are_not_searched_for_either() -> None:
    appended = of_others(digests(2 * MOST_KEYS))
    appended.announce(digests(2 * MOST_KEYS))
    assert appended.take(NOW) == []
    appended.announce(digests(3 * MOST_KEYS + 1))
    assert appended.take(NOW) is None


def test_key_that_this_process_has_is_searched_for_although_nothing_was_due() -> None:
    """Something may hold its rows back, which ends at any time."""
    appended = AppendedKeys()
    appended.announce(digests(1))
    assert appended.take(NOW) is None
    appended.found([], NOW, lambda _: True)
    appended.announce(digests(1))
    assert appended.take(NOW) is None


def test_keys_of_others_are_forgotten_when_they_are_too_many() -> None:
    appended = of_others(digests(MOST_KNOWN))
    appended.announce({SequenceKey("http://there", "one more").digest})
    assert appended.take(NOW) is None
    appended.found([], NOW, lambda _: False)
    appended.announce(digests(1))
    assert appended.take(NOW) is None
