"""Commits say to which keys they have appended messages: the worker searches the store only if that is not enough, and
the messages of a stream gather behind those that are on their way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mercury.engine.appended import (
    GATHERED,
    LONGEST_PAUSE,
    MOST_KEYS,
    MOST_KNOWN,
    PAUSE,
    PAUSE_OF_KEY,
    STREAM,
    AppendedKeys,
)
from mercury.engine.exchange import Outgoing, Purpose, Step
from mercury.errors import TransientStorageError
from mercury.storage.claims import WorkFilter
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.records import SequenceKey
from tests.storage.pair import Pair

NOW = 1_800_000_000.0
BATCH = 10


class Sending:
    """A client whose worker hears of its commits. Its sequence exists, and nothing is on its way."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, batch: int = BATCH) -> None:
        self.store = open_sql_store(f"sqlite:///{folder}/client.db")
        self.pair = Pair(self.store, MemoryStore())
        self.source = self.pair.client.engine.source
        self._batch = batch
        self.send("first")
        self.pair.run(NOW)
        self.store.listen(lambda _: None, keys=self.source.appended.announce)
        self.source.run_once(NOW)
        #: How often the store was searched for due keys.
        self.searches = 0
        self.last = Step()
        search = self.store.due_rms

        def counted(now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
            self.searches += 1
            return search(now, limit, work_filter)

        monkeypatch.setattr(self.store, "due_rms", counted)

    def send(self, *texts: str, key: str = "till") -> None:
        self.pair.send(list(texts), key, batch=self._batch)

    def turn(self, now: float = NOW) -> list[Outgoing]:
        self.last = self.source.run_once(now)
        return self.last.posts

    def acknowledged(self, posts: list[Outgoing], now: float = NOW) -> list[Outgoing]:
        """Carry posts to the server; what the transaction of their acknowledgements sends."""
        return self.pair.client.receive(self.pair.carry(posts, now), now)


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sending]:
    made = Sending(tmp_path, monkeypatch)
    yield made
    made.store.close()


def numbers(posts: list[Outgoing]) -> list[tuple[int | None, int | None]]:
    """The numbers of messages, or the first and the last ones of batches."""
    return [(post.number, post.last) for post in posts if post.purpose is Purpose.MESSAGE]


def test_a_message_to_a_known_key_leaves_without_a_search(sending: Sending) -> None:
    sending.send("second")
    assert numbers(sending.turn()) == [(2, None)]
    assert sending.searches == 0
    assert sending.last.drained


def test_a_message_to_a_key_that_is_not_known_is_searched_for(sending: Sending) -> None:
    sending.send("elsewhere", key="another till")
    assert [post.purpose for post in sending.turn()] == [Purpose.CREATE]
    assert sending.searches == 1


def test_a_turn_that_nothing_was_said_for_searches(sending: Sending) -> None:
    sending.turn()
    assert sending.searches == 1


def test_retransmissions_are_not_late_because_of_new_messages(sending: Sending) -> None:
    sending.send("second")
    sending.turn()
    later = NOW + 60
    sending.send("third")
    posts = sending.turn(later)
    assert sending.searches == 1
    assert 2 in {number for number, _ in numbers(posts)}


def test_work_that_a_turn_could_not_do_is_found_by_the_next_one(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> NoReturn:
        raise TransientStorageError("the database is away")

    sending.send("there", key="another till")
    sending.pair.run(NOW)
    sending.turn()
    sending.searches = 0
    sending.send("second")
    with monkeypatch.context() as while_away:
        while_away.setattr(sending.store, "transaction", away)
        assert sending.turn() == []
    sending.send("elsewhere", key="another till")
    posts = sending.turn(NOW + 0.1)
    assert sending.searches == 1, "a commit has named another key meanwhile"
    posts += sending.turn(NOW + 60)
    assert (2, None) in numbers(posts)


def test_work_of_another_kind_in_the_commit_is_not_overlooked(sending: Sending) -> None:
    """The commit has both a message and a sequence of another key that is due."""
    sending.send("elsewhere", key="another till")
    sending.pair.run(NOW)
    sending.turn()
    with sending.store.transaction() as tx:
        other = next(record for record in tx.rms.all() if record.channel.key.name == "another till")
        tx.rms.lock([other.channel.key])
        other.due = NOW
        tx.rms.save(other)
    sending.searches = 0
    sending.turn()
    assert sending.searches == 1


def test_messages_gather_while_others_are_on_their_way_and_the_acknowledgement_takes_them_along(
    sending: Sending,
) -> None:
    sending.send("second")
    posts = sending.turn()
    for text in ("third", "fourth", "fifth"):
        sending.send(text)
        assert sending.turn(NOW + 0.001) == []
    assert sending.last.drained
    assert sending.last.due() == pytest.approx(NOW + GATHERED)
    more = sending.acknowledged(posts, NOW + 0.01)
    assert numbers(more) == [(3, 5)], "one batch"
    assert sending.turn(NOW + 0.01) == []
    assert sending.searches == 0, "a worker that was woken for them finds out without the store"
    sending.acknowledged(more, NOW + 0.02)
    sending.pair.run(NOW + 0.02)
    assert sending.pair.server.handled == [
        f"<order>{each}</order>" for each in ("first", "second", "third", "fourth", "fifth")
    ]


def test_messages_do_not_gather_for_long_if_no_acknowledgement_comes(sending: Sending) -> None:
    sending.send("second")
    sending.turn()
    sending.send("third")
    assert sending.turn(NOW + 0.9 * GATHERED) == []
    assert numbers(sending.turn(NOW + 1.1 * GATHERED)) == [(3, None)]


def test_a_part_of_the_acknowledgements_takes_nothing_along(sending: Sending) -> None:
    sending.send("second")
    first = sending.turn()
    sending.send("third")
    second = sending.turn(NOW + 2 * GATHERED)
    sending.send("fourth")
    assert sending.turn(NOW + 2 * GATHERED) == []
    at = NOW + 2.1 * GATHERED
    assert sending.acknowledged(first, at) == []
    assert numbers(sending.acknowledged(second, at)) == [(4, None)]


# --- streams ---------------------------------------------------------------------------------------------------------


def streamed(sending: Sending, count: int = STREAM) -> list[Outgoing]:
    """Messages that were appended one by one and leave together."""
    for number in range(count):
        sending.send(f"of the stream {number}")
    return sending.turn()


def test_a_stream_makes_acknowledgements_wait_for_more_messages(sending: Sending) -> None:
    assert sending.source.appended.pause == 0.0
    streamed(sending)
    assert sending.source.appended.pause == PAUSE


class SeveralKeys:
    """Keys whose sequences exist; nothing is on its way under any of them."""

    def __init__(self, sending: Sending, count: int) -> None:
        self._sending = sending
        self.keys = [f"till {number}" for number in range(count)]
        self.send()
        for _ in range(2):  # the creation of a sequence, and its first message
            posts = sending.turn()
            while posts:
                posts = sending.acknowledged(posts)
        sending.send("alone")  # it ends the stream of first messages
        sending.acknowledged(sending.turn())
        assert sending.source.appended.pause == 0.0

    def send(self) -> None:
        """A message under each key, in a transaction of its own."""
        for key in self.keys:
            self._sending.send("of the stream", key=key)


@pytest.mark.parametrize(("keys", "pause"), [(4, 4 * PAUSE_OF_KEY), (8, LONGEST_PAUSE)])
def test_messages_under_several_keys_are_a_stream_too_with_longer_pauses(
    sending: Sending, keys: int, pause: float
) -> None:
    """A transaction on many keys takes longer, and may find few messages under each of them."""
    several = SeveralKeys(sending, keys)
    several.send()
    posts = sending.turn()
    assert {post.key.name for post in posts if post.key is not None} == set(several.keys)
    assert sending.source.appended.pause == pytest.approx(pause)
    several.send()
    assert sending.turn(NOW + 1.9 * pause) == []
    assert len(sending.turn(NOW + 2.1 * pause)) == keys


def test_acknowledgements_of_several_keys_go_on_with_the_stream(sending: Sending) -> None:
    several = SeveralKeys(sending, 4)
    several.send()
    posts = sending.turn()
    several.send()
    assert len(sending.acknowledged(posts, NOW + 0.01)) == 4
    assert sending.source.appended.pause == pytest.approx(4 * PAUSE_OF_KEY)


def test_a_request_under_one_of_several_keys_ends_the_stream(sending: Sending) -> None:
    several = SeveralKeys(sending, 8)
    several.send()
    sending.pair.send(["a question"], several.keys[0], batch=BATCH, ask=True)
    assert len(sending.turn()) >= 8
    assert sending.source.appended.pause == 0.0


def test_transaction_that_works_on_no_key_does_not_end_a_stream(sending: Sending) -> None:
    """The claim on the key has to be renewed."""
    posts = streamed(sending)
    sending.send("another")
    sending.pair.client.engine.source.not_refilled([post.key for post in posts if post.key is not None])
    assert sending.acknowledged(posts) == []
    assert sending.source.appended.pause == PAUSE


def test_few_messages_are_no_stream(sending: Sending) -> None:
    streamed(sending, STREAM - 1)
    assert sending.source.appended.pause == 0.0


def test_requests_are_no_stream(sending: Sending) -> None:
    """Who waits for the responses may have more to ask then: to wait for that would be in vain."""
    sending.pair.send([str(number) for number in range(STREAM)], "till", batch=BATCH, ask=True)
    assert numbers(sending.turn()) != []
    assert sending.source.appended.pause == 0.0


def test_messages_that_a_full_window_holds_back_are_no_stream(sending: Sending) -> None:
    """Each acknowledgement makes room for some of them."""
    streamed(sending)
    sending.source.appended.forget(SequenceKey("http://server.example/services/shop", "till"))
    assert sending.source.appended.pause == 0.0


def test_each_acknowledgement_of_a_stream_takes_along_what_has_gathered(sending: Sending) -> None:
    """Also if it is not the last one: otherwise another transaction would follow for the messages."""
    first = streamed(sending)
    sending.send("another")
    second = sending.turn(NOW + 3 * PAUSE)
    assert numbers(second) == [(STREAM + 2, None)]
    for number in range(STREAM):
        sending.send(f"later {number}")
    streaming = sending.turn(NOW + 6 * PAUSE)
    sending.send("the last")
    assert sending.turn(NOW + 6.1 * PAUSE) == []
    assert numbers(sending.acknowledged(first, NOW + 6.2 * PAUSE)) == [(2 * STREAM + 3, None)]
    assert len(numbers(streaming)) == 1


def test_a_stream_does_not_wait_long_for_an_acknowledgement_that_does_not_come(sending: Sending) -> None:
    streamed(sending)
    sending.send("one more")
    assert sending.turn(NOW + 1.9 * PAUSE) == []
    assert numbers(sending.turn(NOW + 2.1 * PAUSE)) == [(STREAM + 2, None)]


def test_messages_to_a_destination_without_batches_do_not_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = Sending(tmp_path, monkeypatch, batch=1)
    sending.send("second")
    sending.turn()
    sending.send("third")
    assert numbers(sending.turn()) == [(3, None)]


def test_after_a_clock_was_set_back_messages_do_not_gather(sending: Sending) -> None:
    sending.send("second")
    sending.turn()
    sending.send("third")
    assert (3, None) in numbers(sending.turn(NOW - 3600))


def test_the_worker_is_woken_for_what_was_appended_in_the_last_moment_of_an_acknowledgement() -> None:
    key, appended, woken = SequenceKey("http://there", "till"), AppendedKeys(), list[None]()
    appended.wake = lambda: woken.append(None)
    appended.take(NOW)
    appended.worked(key, NOW, gathers=True)
    appended.acknowledged(key)
    assert woken == [], "nothing waits"
    appended.worked(key, NOW, gathers=True)
    appended.announce({key.digest})
    assert appended.take(NOW) == []
    appended.acknowledged(key)
    assert woken == [None]
    assert appended.take(NOW) == [key]


def test_many_keys_are_searched_for_and_not_remembered() -> None:
    appended = AppendedKeys()
    keys = [SequenceKey("http://there", str(number)) for number in range(MOST_KNOWN)]
    for key in keys:
        appended.worked(key, NOW, gathers=False)
    appended.take(NOW)
    appended.announce({key.digest for key in keys[:MOST_KEYS]})
    assert len(appended.take(NOW) or ()) == MOST_KEYS
    appended.announce({key.digest for key in keys[: MOST_KEYS + 1]})
    assert appended.take(NOW) is None
    appended.worked(SequenceKey("http://there", "one more"), NOW, gathers=False)
    appended.announce({keys[0].digest})
    assert appended.take(NOW) is None


def test_a_key_that_another_process_has_taken_is_searched_for_from_then_on(sending: Sending) -> None:
    sending.source.appended.forget(SequenceKey("http://server.example/services/shop", "till"))
    sending.send("second")
    sending.turn()
    assert sending.searches == 1
