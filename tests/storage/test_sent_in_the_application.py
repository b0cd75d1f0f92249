"""A lone message gets its number, and leaves, in the transaction of the application that sends it (decision 111)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import text

from mercury.engine.appended import BUSY, FEW_KEYS
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.settings import EngineSettings
from mercury.engine.source.worker import BYTES_AT_ONCE, MOST_AT_ONCE
from mercury.errors import StorageError, TransientStorageError
from mercury.storage.api import Topic, Transaction
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_store
from mercury.storage.records import OutboundKind, OutboundMessage, SequenceKey

from .pair import ACTION, URL, Pair, channel
from .round_trips import relay

KEY = SequenceKey(URL, "till")
#: Longer than any interval of retransmission.
LATER = 1000.0


class Shop:
    """A client whose application sends, and whose worker hears of its commits. Its sequence exists; nothing is on its
    way."""

    def __init__(self, url: str) -> None:
        self.now = time.time()  # claims end by the clock of the database
        self.store = open_store(url)
        self.pair = Pair(self.store, MemoryStore())
        self.side = self.pair.client
        self.source = self.side.engine.source
        #: Whether the worker hears of commits.
        self.hears = True
        self.open()
        self.store.listen(lambda _: None, keys=self._committed)
        self.source.run_once(self.now)

    def _committed(self, digests: frozenset[str]) -> None:
        if self.hears:
            self.source.appended.announce(digests)

    def open(self, key: str = "till") -> None:
        """Make the sequence of a key, with a first message."""
        self.pair.send(["first"], key)
        self.pair.run(self.now)

    def row(self, name: str, key: str = "till") -> OutboundMessage:
        row = OutboundMessage(message_id=self.side.ids.new(), channel=channel(key), action=ACTION)
        row.payload = f"<order>{name}</order>".encode()
        return row

    def send(self, *names: str, key: str = "till") -> list[Outgoing]:
        """Send in a transaction of the application. Returns what leaves behind its commit."""
        posts: list[Outgoing] = []
        with self.store.transaction(partial(self.send_in, posts)) as tx:
            for name in names:
                tx.rms.append(self.row(name, key))
        return posts

    def send_in(self, posts: list[Outgoing], tx: Transaction) -> None:
        step = self.source.send_in(tx, self.now)
        if step is not None:
            for action in (*step.actions, partial(posts.extend, step.posts)):
                tx.after_commit(action)

    def turn(self, later: float = 0.0) -> list[Outgoing]:
        return self.source.run_once(self.now + later).posts

    def deliver(self, posts: list[Outgoing]) -> list[str]:
        """Carry posts, and what follows them. Returns what is handled."""
        self.side.receive(self.pair.carry(posts, self.now), self.now)
        self.pair.run(self.now)
        return self.pair.server.handled[1:]


def numbers(posts: list[Outgoing]) -> list[int | None]:
    assert {post.purpose for post in posts} <= {Purpose.MESSAGE}
    return [post.number for post in posts]


@pytest.fixture
def shop(any_url: str) -> Iterator[Shop]:
    made = Shop(any_url)
    yield made
    made.store.close()


def orders(*names: str) -> list[str]:
    return [f"<order>{name}</order>" for name in names]


def test_lone_message_leaves_behind_the_commit_of_its_application(shop: Shop) -> None:
    posts = shop.send("second")
    assert numbers(posts) == [2]
    assert shop.turn() == [], "it leaves once"
    assert shop.deliver(posts) == orders("second")
    assert numbers(shop.send("third")) == [3], "all that was sent before is acknowledged"


def test_messages_of_one_transaction_leave_in_their_order(shop: Shop) -> None:
    posts = shop.send("second", "third")
    assert numbers(posts) == [2, 3]
    assert shop.deliver(posts) == orders("second", "third")


def test_message_that_is_lost_on_its_way_is_sent_again(shop: Shop) -> None:
    shop.send("second")
    again = shop.turn(LATER)
    assert numbers(again) == [2]
    assert shop.deliver(again) == orders("second")


def test_transaction_that_is_rolled_back_uses_no_number(shop: Shop) -> None:
    def fail(tx: Transaction) -> None:
        assert shop.source.send_in(tx, shop.now) is not None
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), shop.store.transaction(fail) as tx:
        tx.rms.append(shop.row("never"))
    assert shop.turn() == []
    posts = shop.send("second")
    assert numbers(posts) == [2]
    assert shop.deliver(posts) == orders("second")


def test_message_behind_one_that_is_on_its_way_is_left_to_a_turn(shop: Shop) -> None:
    on_its_way = shop.send("second")
    assert shop.send("third") == []
    rest = shop.turn()
    assert numbers(rest) == [3]
    assert shop.deliver(on_its_way + rest) == orders("second", "third")


def test_message_behind_one_that_waits_for_a_turn_is_left_to_it_too(shop: Shop) -> None:
    shop.pair.send(["second"])
    assert shop.send("third") == []
    assert shop.deliver(shop.turn()) == orders("second", "third")


def test_message_that_nothing_was_said_of_leaves_before_the_lone_one(shop: Shop) -> None:
    shop.hears = False  # the notification of another process is lost
    shop.pair.send(["second"])
    posts = shop.send("third")
    assert numbers(posts) == [2, 3]
    assert shop.deliver(posts) == orders("second", "third")


def test_first_message_of_a_key_is_left_to_a_turn(shop: Shop) -> None:
    assert shop.send("first", key="new") == []
    assert [post.purpose for post in shop.turn()] == [Purpose.CREATE]


def test_messages_to_several_keys_are_left_to_a_turn(shop: Shop) -> None:
    shop.open("other")
    posts: list[Outgoing] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        tx.rms.append(shop.row("second"))
        tx.rms.append(shop.row("second", "other"))
    assert posts == []
    assert numbers(shop.turn()) == [2, 2]


def test_many_messages_of_one_transaction_are_left_to_a_turn(shop: Shop) -> None:
    names = [str(number) for number in range(2, 3 + MOST_AT_ONCE)]
    assert shop.send(*names) == []
    assert shop.deliver(shop.turn()) == orders(*names)


def test_large_message_is_left_to_a_turn(shop: Shop) -> None:
    assert shop.send("x" * BYTES_AT_ONCE) == []
    assert numbers(shop.turn()) == [2]


def test_message_with_the_end_of_its_sequence_is_left_to_a_turn(shop: Shop) -> None:
    posts: list[Outgoing] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        tx.rms.append(shop.row("second"))
        tx.rms.append(OutboundMessage(message_id=shop.side.ids.new(), channel=channel(), kind=OutboundKind.END))
    assert posts == []
    assert shop.deliver(shop.turn()) == orders("second")


@pytest.mark.parametrize("name", ["expires_at", "not_before"])
def test_message_with_a_time_is_left_to_a_turn(shop: Shop, name: str) -> None:
    row, posts = shop.row("second"), list[Outgoing]()
    setattr(row, name, shop.now + 1)
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        tx.rms.append(row)
    assert posts == []


def test_message_of_a_key_whose_sequence_is_being_created_is_left_to_a_turn(shop: Shop) -> None:
    shop.pair.send(["first"], "new")
    assert [post.purpose for post in shop.turn()] == [Purpose.CREATE]
    assert not shop.source.appended.is_quiet(SequenceKey(URL, "new"), shop.now)


def test_message_after_a_long_pause_is_sent_under_the_claim_that_has_expired(shop: Shop) -> None:
    shop.now += 1.5 * EngineSettings().lease
    assert shop.side.engine._context.claims.current(f"rms {KEY.digest}", shop.now) is None
    posts = shop.send("second")
    assert numbers(posts) == [2]
    assert shop.deliver(posts) == orders("second")


def test_messages_share_transactions_while_several_keys_are_busy(shop: Shop) -> None:
    keys = [f"busy {number}" for number in range(FEW_KEYS)]
    for key in keys:
        shop.open(key)
    on_their_way = [shop.send("second", key=key) for key in keys]
    assert [numbers(posts) for posts in on_their_way] == [[2]] * FEW_KEYS
    assert shop.send("second") == []
    shared = shop.turn()
    assert numbers(shared) == [2]
    shop.deliver([*on_their_way[0], *shared])
    assert numbers(shop.send("third")) == [3]


def test_keys_whose_destinations_are_away_do_not_count_as_busy(shop: Shop) -> None:
    keys = [f"busy {number}" for number in range(FEW_KEYS)]
    for key in keys:
        shop.open(key)
    for key in keys:
        shop.send("second", key=key)
    shop.now += BUSY
    assert numbers(shop.send("second")) == [2]


# SQLite has one writer, so no other transaction has a lock.
@pytest.mark.parametrize("any_urls", ["memory", "postgres"], indirect=True)
def test_key_that_another_transaction_has_locked_is_not_waited_for(shop: Shop) -> None:
    with shop.store.transaction() as tx:
        tx.rms.lock([KEY])
        assert shop.send("second") == []
    assert shop.deliver(shop.turn()) == orders("second")


def test_message_under_a_claim_that_is_lost_is_left(shop: Shop) -> None:
    claim = shop.side.engine._context.claims.current(f"rms {KEY.digest}", shop.now)
    assert claim is not None
    shop.store.release(claim)
    assert shop.store.claim(claim.resource, "another", shop.now, LATER) is not None
    assert shop.send("second") == []
    assert shop.turn() == []


def test_message_whose_work_fails_is_committed_and_left_to_a_turn(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("mercury.engine.source.transmission.count_transmission", fail)
        said: list[object] = []
        shop.store.listen(said.append)
        assert shop.send("second") == []
        assert said == [{Topic.RMS}], "a turn follows"
    posts = shop.turn()
    assert numbers(posts) == [2]
    assert shop.deliver(posts) == orders("second")


def test_store_that_does_not_answer_fails_the_transaction(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TransientStorageError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr("mercury.engine.source.transmission.count_transmission", fail)
        with pytest.raises(TransientStorageError, match="the connection is lost"):
            shop.send("second")
    assert shop.turn() == []


def test_key_whose_work_has_failed_is_left_to_a_turn(shop: Shop) -> None:
    shop.source._cool_down.add(str(KEY), shop.now)
    assert shop.send("second") == []


def test_commit_announces_nothing_that_has_left(sql_url: str) -> None:
    shop = Shop(sql_url)
    said: list[object] = []
    shop.store.listen(said.append)
    assert numbers(shop.send("second")) == [2]
    assert said == []
    shop.store.close()


def test_message_in_a_database_of_the_application_takes_one_round_trip_more(postgres_url: str) -> None:
    with relay(postgres_url) as between:
        shop = Shop(between.url)
        with shop.store.engine.begin() as connection:  # type: ignore[attr-defined]
            connection.execute(text("create table orders (name text)"))
        counts: list[int] = []
        for name in ("second", "third", "fourth"):
            posts: list[Outgoing] = []
            with between.counted() as found, shop.store.transaction(partial(shop.send_in, posts)) as tx:
                tx.execute_later("insert into orders values (:name)", {"name": name})
                tx.rms.append(shop.row(name))
            counts += found
            shop.deliver(posts)
        assert counts[-1] == 2
        assert shop.pair.server.handled[1:] == orders("second", "third", "fourth")
        shop.store.close()


def test_transaction_that_sees_an_older_state_leaves_its_message_to_a_turn(postgres_url: str) -> None:
    shop = Shop(postgres_url)
    posts: list[Outgoing] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        connection = tx.connection()
        connection.execute(text("set transaction isolation level repeatable read"))
        connection.execute(text("select 1"))
        shop.deliver(shop.send("second"))
        tx.rms.append(shop.row("third"))
    assert posts == []
    assert shop.deliver(shop.turn()) == orders("second", "third")
    shop.store.close()


def test_transaction_whose_commit_may_wait_leaves_its_message_to_a_turn(postgres_url: str) -> None:
    shop = Shop(postgres_url)
    with shop.store.transaction() as tx:
        tx.connection().execute(text("create table checked (id int unique deferrable initially deferred)"))
    assert shop.send("second") == []
    assert shop.deliver(shop.turn()) == orders("second")
    shop.store.close()


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_transaction_whose_commit_may_be_lost_leaves_its_message_to_a_turn(postgres_url: str, later: bool) -> None:
    """After a crash the next message would get the number of one that has left, and be taken for a copy of it."""
    shop = Shop(postgres_url)
    posts: list[Outgoing] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        if later:
            tx.execute_later("set local synchronous_commit = off")
        else:
            tx.connection().execute(text("set local synchronous_commit = off"))
        tx.rms.append(shop.row("second"))
    assert posts == []
    assert shop.deliver(shop.turn()) == orders("second")
    shop.store.close()


def test_statement_that_the_application_has_left_fails_as_at_the_commit(postgres_url: str) -> None:
    shop = Shop(postgres_url)
    with (
        pytest.raises(StorageError, match=r"insert into nowhere values"),
        shop.store.transaction(partial(shop.send_in, [])) as tx,
    ):
        tx.execute_later("insert into nowhere values (1)")
        tx.rms.append(shop.row("never"))
    assert shop.turn() == []
    shop.store.close()


def test_lone_message_leaves_before_the_actions_of_its_application(shop: Shop) -> None:
    """They may be slow."""
    posts: list[Outgoing] = []
    seen: list[list[int | None]] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        tx.rms.append(shop.row("second"))
        tx.after_commit(lambda: seen.append(numbers(posts)))
    assert seen == [[2]]


def test_worker_hears_of_a_commit_before_the_actions_of_its_application(shop: Shop) -> None:
    posts: list[Outgoing] = []
    told: list[frozenset[Topic]] = []
    shop.store.listen(told.append)
    seen: list[bool] = []
    with shop.store.transaction(partial(shop.send_in, posts)) as tx:
        for number in range(MOST_AT_ONCE + 1):
            tx.rms.append(shop.row(f"message {number}"))
        tx.after_commit(lambda: seen.append(frozenset({Topic.RMS}) in told))
    assert posts == [], "they are left to a turn"
    assert seen == [True]


@pytest.mark.parametrize("leaves", [True, False], ids=["application", "engine"])
def test_action_that_fails_keeps_neither_the_worker_nor_other_actions_from_being_called(
    shop: Shop, leaves: bool
) -> None:
    told: list[frozenset[Topic]] = []
    shop.store.listen(told.append)
    called: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), shop.store.transaction((lambda _: None) if leaves else None) as tx:
        tx.rms.append(shop.row("second"))
        tx.after_commit(fail)
        tx.after_commit(partial(called.append, "the other one"))
    assert called == ["the other one"]
    assert told == [frozenset({Topic.RMS})]
