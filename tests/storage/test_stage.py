"""A stage in front of a store: what is acknowledged reaches the application once and in order, whatever fails."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from mercury.client.inbound_ends import end_at_destination
from mercury.client.overview import sequences
from mercury.engine.dead_letters import DAMAGED
from mercury.engine.exchange import Outgoing
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.engine.runtime.core import Engine
from mercury.engine.settings import EngineSettings
from mercury.engine.stage.mover import COUNT_INTERVAL, REFUSED_PAUSE, Target
from mercury.engine.stage.moving import CLOSED_IN_STORE, ENDED_IN_STORE, read, remove
from mercury.engine.stage_room import StageRoom, StageSettings
from mercury.errors import DataError, TransientStorageError
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.gauges import MOST_ROWS, Gauges
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_store
from mercury.storage.records import InboundKind, InboundMessage
from mercury.storage.sql.reads.sequences import destination
from mercury.testing.store import Crash, SimulatedStore

from .altering import flipped
from .pair import Pair, Side

NOW = 1_000_000.0
#: Longer than any pause after a failure of the store, and than a claim of a process that has crashed.
LATER = 60.0


class AwayStore(SimulatedStore):
    """A store that can be away: then every transaction fails."""

    away = False
    #: The body that it refuses, as a database refuses a value that is too long for an index.
    refused: bytes | None = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        if self.away:
            raise TransientStorageError("the database is away")
        with super().transaction() as tx:
            yield tx if self.refused is None else cast("Transaction", Refusing(tx, self.refused))


class Refusing:
    """A transaction, and its buffers, that refuse a body."""

    def __init__(self, inner: Any, refused: bytes) -> None:
        self._inner = inner
        self._refused = refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def invoker(self) -> Refusing:
        return Refusing(self._inner.invoker, self._refused)

    def add(self, rows: list[InboundMessage]) -> None:
        if any(self._refused in row.payload for row in rows):
            raise DataError("a value is too long for an index")
        self._inner.add(rows)


@dataclass
class Staged:
    """A client, a server's engine on a stage, and the engine on the store behind it."""

    pair: Pair
    stage: SimulatedStore
    behind: Side
    store: AwayStore
    settings: StageSettings
    now: float = NOW

    def start(self) -> None:
        """Begin or begin anew, with what is committed in the stage and in the store."""
        self.behind = Side(self.store, handled=self.behind.handled, policy=self.behind.policy)
        registry = Registry()
        served = self.behind.engine._context.application
        registry.add_service("shop", [served.operation("shop", "urn:shop/put")], policy=self.behind.policy)  # type: ignore[list-item]
        most = self.settings.max_bytes
        self.room = StageRoom(self.settings.max_messages)
        self.pair.server.engine = Engine(
            store=self.stage,
            application=registry,
            observers=Observers(),
            ids=self.behind.ids,
            settings=replace(EngineSettings(), max_backlog_bytes=most, max_backlog_bytes_per_peer=most),
            monotonic=lambda: 0.0,
            target=Target(self.store, self.settings, self.room),
        )

    def run(self) -> None:
        """Run all parts until nothing is left to do, and restart what crashes."""
        self._run(lambda: self.pair.run(self.now))

    def arrive(self, *posts: Outgoing) -> None:
        """Let these posts of the client arrive, and no others, and run the stage and the store as `run` does."""
        self.pair.carry(posts, self.now)
        self._run(lambda: self.pair.server.turn(self.now))

    def _run(self, turn: Callable[[], object]) -> None:
        for _ in range(100):
            try:
                turn()
                worked, posts = self.behind.turn(self.now)
                assert posts == []  # the store behind a stage says nothing to peers
            except Crash:
                self.start()
                self.now += LATER
                continue
            if not worked:
                return
        raise AssertionError("it never comes to rest")

    def run_into_crash(self) -> None:
        """Crash directly after the next commit at the store, before the stage learns of it, and begin anew."""
        self.store.crash_after(1)
        with pytest.raises(Crash):
            self.pair.run(self.now)
        self.start()

    @property
    def rows(self) -> int:
        """The rows of messages and of ends in the stage, also damaged ones."""
        with self.stage.inner.transaction() as tx:
            return len(tx.invoker.damaged("")) + self.waiting

    @property
    def waiting(self) -> int:
        with self.stage.inner.transaction() as tx:
            return sum(
                sum(high - low + 1 for low, high in tx.invoker.numbers(each.sequence).as_tuples())
                for each in tx.invoker.all()
            )


Make = Callable[..., Staged]


def staging(stage: StorageManager, store: StorageManager, settings: StageSettings, policy: DestinationPolicy) -> Staged:
    pair = Pair(MemoryStore(), MemoryStore())
    made = Staged(pair, SimulatedStore(stage), Side(MemoryStore(), policy=policy), AwayStore(store), settings)
    made.start()
    return made


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    opened = []

    def staged(settings: StageSettings | None = None, policy: DestinationPolicy | None = None) -> Staged:
        stage, store = (open_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("stage", "store"))
        opened.extend([stage, store])
        return staging(stage, store, settings or StageSettings(), policy or DestinationPolicy())

    yield staged
    for each in opened:
        each.close()


@pytest.fixture
def before_each_kind(any_url: str, tmp_path: Path) -> Iterator[Staged]:
    """A stage before a store of each kind."""
    with (
        contextlib.closing(open_store(f"sqlite:///{tmp_path}/stage.db")) as stage,
        contextlib.closing(open_store(any_url)) as store,
    ):
        yield staging(stage, store, StageSettings(), DestinationPolicy())


def orders(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def handled(staged: Staged) -> list[str]:
    return [text.removeprefix("<order>").removesuffix("</order>") for text in staged.behind.handled]


def end_in_store(staged: Staged, end: DestinationEnd) -> str:
    """Let an operator end the only sequence in the store. Returns its identifier."""
    with staged.store.transaction() as tx:
        (sequence,) = [record.identifier for record in tx.rmd.all()]
    end_at_destination(staged.store.inner, sequence, end)
    staged.behind.turn(staged.now)
    with staged.store.transaction() as tx:
        record = tx.rmd.read(sequence)
    assert record is not None
    assert record.machine.tombstone if end is DestinationEnd.TERMINATE else record.machine.closed
    return sequence


def letters(staged: Staged) -> list[tuple[int | None, str]]:
    """The number and the reason of each dead letter in the store."""
    with staged.store.transaction() as tx:
        return sorted((letter.number, letter.reason) for letter in tx.dead_letters.all())


def test_messages_go_through_the_stage_in_order_and_their_sequence_ends_in_both(make: Make) -> None:
    staged = make()
    staged.pair.send(orders(1, 40), end=True)
    staged.run()
    assert handled(staged) == orders(1, 40)
    assert staged.waiting == 0
    with staged.store.transaction() as tx:
        (record,) = tx.rmd.all()
        buffer = tx.invoker.read(record.identifier)
    assert record.machine.tombstone
    assert buffer is None or buffer.machine.finished


def test_while_the_store_is_away_messages_are_taken_and_acknowledged_and_sequences_created(make: Make) -> None:
    staged = make()
    staged.store.away = True
    staged.pair.send(orders(1, 30))
    staged.pair.send(orders(31, 60), key="another")
    staged.pair.run(NOW)
    assert staged.waiting == 60
    with staged.pair.client.store.transaction() as tx:  # all is acknowledged: the client has nothing left
        assert [tx.rms.backlog(record.channel.key) for record in tx.rms.all()] == [0, 0]
    staged.store.away = False
    staged.now += LATER
    staged.run()
    assert sorted(handled(staged), key=int) == orders(1, 60)
    assert [text for text in handled(staged) if int(text) <= 30] == orders(1, 30)
    assert staged.waiting == 0


def test_sequences_in_any_order_are_removed_from_the_stage_together(make: Make) -> None:
    """Buffers are locked in the order of their identifiers, whichever of them has waited longest."""
    staged = make()
    staged.store.away = True
    for number in range(1, 13):
        staged.pair.send(orders(number, number), key=f"key {number}")
    staged.pair.run(NOW)
    with staged.stage.inner.transaction() as tx:
        names = sorted((record.sequence for record in tx.invoker.all()), reverse=True)
        moves = read(tx, names, staged.settings)
    for move in moves:
        move.moved = move.messages  # as if the store had committed them
    with staged.stage.inner.transaction() as tx:
        assert remove(tx, moves, NOW) == 12
    assert staged.waiting == 0


def test_a_backlog_is_moved_in_few_transactions(make: Make) -> None:
    """The catch-up is counted: 1000 messages that came in many commits are moved by one commit at the store."""
    staged = make()
    staged.store.away = True
    for first in range(1, 1000, 50):
        staged.pair.send(orders(first, first + 49), window=1000)
        staged.pair.run(NOW)
    into_stage = staged.stage.commits
    staged.store.away = False
    staged.now += LATER
    before = staged.store.commits
    staged.pair.server.turn(staged.now)
    assert staged.waiting == 0
    assert staged.store.commits - before == 1
    assert into_stage > 3 * (staged.store.commits - before)
    staged.run()
    assert handled(staged) == orders(1, 1000)


@pytest.mark.parametrize("which", ["stage", "store"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_commit_of_a_move_loses_nothing_and_repeats_nothing(make: Make, which: str, moment: str) -> None:
    staged = make()
    staged.pair.send(orders(1, 12), end=True)
    staged.pair.run(NOW - 1)  # something is moved before, something after
    staged.pair.send(orders(13, 24), key="next", end=True)
    store: SimulatedStore = staged.stage if which == "stage" else staged.store
    crash = store.crash_before_commit if moment == "before" else store.crash_after_commit
    crash.update(range(store.commits + 1, store.commits + 60, 3))
    staged.run()
    assert sorted(handled(staged), key=int) == orders(1, 24)
    assert [text for text in handled(staged) if int(text) <= 12] == orders(1, 12)
    assert staged.waiting == 0


def test_nothing_is_acknowledged_before_the_stage_has_committed_it(make: Make) -> None:
    staged = make()
    staged.pair.send(orders(1, 1))
    staged.pair.run(NOW)
    staged.pair.send(orders(2, 5))
    staged.stage.fail(1)
    with staged.pair.client.store.transaction() as tx:
        key = tx.rms.all()[0].channel.key
    _, posts = staged.pair.client.turn(NOW)
    staged.stage.failing_commits.update(range(staged.stage.commits + 1, staged.stage.commits + 20))
    staged.pair.client.receive(staged.pair.carry(posts, NOW), NOW)
    with staged.pair.client.store.transaction() as tx:
        assert tx.rms.backlog(key) == 4
    staged.stage.failing_commits.clear()
    staged.now += 60
    staged.run()
    assert handled(staged) == orders(1, 5)


def test_a_stage_with_as_many_messages_as_it_may_hold_refuses_new_ones_as_busy(make: Make) -> None:
    staged = make(StageSettings(max_messages=10))
    staged.store.away = True
    staged.pair.send(orders(1, 30))
    staged.pair.run(NOW)
    assert staged.waiting == 10
    with staged.pair.client.store.transaction() as tx:
        assert tx.rms.backlog(tx.rms.all()[0].channel.key) >= 20  # refused, so the source keeps them
    staged.store.away = False
    for _ in range(30):
        staged.now += 60
        staged.run()
    assert handled(staged) == orders(1, 30)


def test_a_stage_that_is_full_at_the_start_of_a_process_takes_no_more(make: Make) -> None:
    staged = make(StageSettings(max_messages=10))
    staged.store.away = True
    staged.pair.send(orders(1, 10))
    staged.pair.run(NOW)
    staged.start()
    staged.pair.server.turn(NOW)
    staged.pair.send(orders(11, 30), key="another")
    staged.pair.run(NOW + LATER)
    assert staged.waiting <= 11  # the first message of a sequence is taken in any case


def test_messages_that_left_a_large_stage_are_not_counted_and_new_ones_are_not_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.engine.stage.mover.MOST_ROWS", 4)
    staged = make(StageSettings(max_messages=40))
    staged.store.refused = b"<order>stuck"
    for wave in range(6):  # each row that stays has a position above those of the rows that leave
        staged.now += LATER
        staged.pair.send(orders(20 * wave + 1, 20 * wave + 20))
        staged.pair.send([f"stuck {wave}"], key="stuck")
        staged.run()
        assert staged.room.waiting == staged.waiting == wave + 1
    assert handled(staged) == orders(1, 120)


def test_a_large_stage_is_counted_at_the_start_and_once_in_an_interval(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.engine.stage.mover.MOST_ROWS", 4)
    staged = make()
    staged.store.away = True
    staged.pair.send(orders(1, 10))
    staged.pair.run(staged.now)
    staged.store.away, staged.store.refused = False, b"<order>"
    staged.start()
    whole, inner = [], staged.stage.inner

    def gauges(now: float, most: int = MOST_ROWS) -> Gauges:
        whole.extend([most] if most > MOST_ROWS else [])
        return read_gauges(now, most)

    read_gauges = inner.gauges
    monkeypatch.setattr(inner, "gauges", gauges)
    staged.pair.server.turn(staged.now)
    assert (staged.room.waiting, len(whole)) == (10, 1)
    staged.room.change(7)  # as after a commit whose outcome was unknown
    for since, waiting in ((COUNT_INTERVAL / 2, 17), (COUNT_INTERVAL + 1, 10)):
        for _ in range(2):  # the first turn tries what was put off
            staged.pair.server.turn(staged.now + since)
        assert staged.room.waiting == waiting
    assert len(whole) == 2
    staged.room.change(7)
    for _ in range(2):
        staged.pair.server.turn(staged.now - 3600.0)  # the clock was set back
    assert staged.room.waiting == 10


def test_a_stage_with_as_many_bytes_as_it_may_hold_refuses_new_messages_as_busy(make: Make) -> None:
    staged = make(StageSettings(max_bytes=20_000))
    staged.store.away = True
    staged.pair.send([str(number) * 400 for number in range(1, 10)] * 10)
    staged.pair.run(NOW)
    with staged.stage.inner.transaction() as tx:
        assert sum(record.received_bytes for record in tx.rmd.all()) <= 20_000
    assert 0 < staged.waiting < 90
    staged.store.away = False
    for _ in range(60):
        staged.now += 60
        staged.run()
    assert len(handled(staged)) == 90


def test_a_stage_below_its_limit_refuses_nothing_although_one_sequence_has_more_than_its_policy_allows(
    make: Make,
) -> None:
    staged = make(policy=DestinationPolicy(max_backlog=5))
    staged.store.away = True
    staged.pair.send(orders(1, 30))
    staged.pair.run(NOW)
    assert staged.waiting == 30
    staged.store.away = False
    for _ in range(10):
        staged.now += LATER
        staged.run()
    assert handled(staged) == orders(1, 30)


def test_a_sequence_that_is_delivered_only_when_it_is_complete_is_moved_although_it_is_above_its_limit(
    make: Make,
) -> None:
    """Nothing of it leaves the store's buffer before all of it is there: at the limit it would wait forever."""
    entire = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    staged = make(policy=DestinationPolicy(max_backlog=5, incomplete_behavior=entire))
    staged.pair.send(orders(1, 30), end=True)
    for _ in range(10):
        staged.now += LATER
        staged.run()
    assert handled(staged) == orders(1, 30)


def test_the_store_gets_no_more_of_a_sequence_than_its_policy_allows(make: Make) -> None:
    staged = make(policy=DestinationPolicy(max_backlog=5))
    staged.pair.send(orders(1, 30))
    staged.pair.run(NOW)  # no handler runs
    with staged.store.transaction() as tx:
        (record,) = tx.rmd.all()
        assert tx.invoker.numbers(record.identifier).as_tuples() == ((1, 5),)
    assert staged.waiting == 25


def test_a_sequence_without_room_in_the_store_does_not_hold_back_the_others(make: Make) -> None:
    """Each is as long as many batches, and either may come first; a handler that fails for hours may be its reason."""
    staged = make(StageSettings(batch=10), policy=DestinationPolicy(max_backlog=5))
    staged.store.away = True
    for key in "a", "b":
        staged.pair.send(orders(1, 60), key=key, window=100)
        staged.pair.run(NOW)
    staged.store.away = False
    staged.pair.server.turn(NOW + LATER)  # one batch; no handler runs, so the store takes five of each
    with staged.store.transaction() as tx:
        taken = [tx.invoker.numbers(record.sequence).as_tuples() for record in tx.invoker.all()]
    assert taken == [((1, 5),), ((1, 5),)]
    assert staged.waiting == 110


def test_a_sequence_without_room_in_the_store_is_read_again_after_a_pause_only(make: Make) -> None:
    staged = make(policy=DestinationPolicy(max_backlog=5))
    staged.pair.send(orders(1, 30))
    staged.pair.run(NOW)
    due = staged.pair.server.engine.invocation.next_due()
    assert due is not None
    assert due >= NOW + REFUSED_PAUSE


def test_many_sequences_without_room_in_the_store_do_not_hold_back_another(make: Make) -> None:
    staged = make(policy=DestinationPolicy(max_backlog=1))
    many = EngineSettings().sequence_batch + 5
    for each in range(many):
        staged.pair.send(orders(1, 3), key=f"key {each}")
    staged.pair.run(NOW)
    staged.pair.send(orders(7, 7), key="other")
    for turn in range(10):
        staged.pair.run(NOW + 0.01 * turn)
    with staged.store.transaction() as tx:
        assert len(tx.invoker.all()) == many + 1


def test_a_sequence_that_the_store_refuses_stays_in_the_stage_and_the_others_are_moved(make: Make) -> None:
    staged = make()
    staged.store.refused = b"<order>107</order>"
    for key, last in ("a", 105), ("b", 107), ("c", 103):
        staged.pair.send(orders(101, last), key=key)
    staged.pair.run(NOW)
    assert staged.waiting == 7
    for _ in range(5):  # also while it is tried again
        staged.now += LATER
        staged.run()
    assert sorted(handled(staged)) == sorted(orders(101, 105) + orders(101, 103))
    staged.store.refused = None  # an operator has mended the table
    staged.now += LATER
    staged.run()
    assert staged.waiting == 0
    assert len(handled(staged)) == 15


def test_a_batch_that_was_moved_before_a_crash_adds_nothing_when_it_is_moved_again_after_its_delivery(
    make: Make,
) -> None:
    staged = make()
    staged.pair.send(orders(1, 6))
    staged.run_into_crash()
    staged.behind.turn(NOW)  # the store delivers before the stage moves again
    assert handled(staged) == orders(1, len(handled(staged)))
    staged.now += LATER
    staged.run()
    assert handled(staged) == orders(1, 6)
    with staged.store.transaction() as tx:
        (record,) = tx.rmd.all()
        buffer = tx.invoker.read(record.identifier)
        assert not tx.invoker.numbers(record.identifier)
    assert buffer is not None
    assert buffer.consumed_bytes == record.received_bytes  # each message is counted once


def test_the_end_of_a_sequence_is_moved_alone_so_that_no_message_is_moved_after_the_store_has_forgotten_it(
    make: Make,
) -> None:
    staged = make()
    staged.store.away = True
    staged.pair.send(orders(1, 6), end=True)
    staged.pair.run(NOW)
    staged.store.away = False
    staged.pair.server.turn(NOW + LATER)
    with staged.store.transaction() as tx:
        assert not tx.rmd.all()[0].machine.tombstone
    with staged.stage.inner.transaction() as tx:
        (buffer,) = tx.invoker.all()
        assert {marker.kind for marker in tx.invoker.markers(buffer.sequence)} == {InboundKind.END}
    staged.pair.server.turn(NOW + LATER)
    with staged.store.transaction() as tx:
        assert tx.rmd.all()[0].machine.tombstone


@pytest.mark.parametrize(
    ("column", "altered"),
    [
        ("payload", "flipped"),
        ("checksum", "flipped"),
        ("kind", "flipped"),
        ("sequence", "flipped"),
        ("number", "3"),  # another message has it
        ("number", "4"),
        ("number", "0"),
        ("number", "-5"),
        ("number", "9000"),
        ("payload", "deleted"),  # with its row
    ],
)
@pytest.mark.parametrize(("damaged", "batch"), [(1, 2000), (2, 1), (5, 2)])
def test_a_message_that_was_altered_in_the_stage_becomes_one_dead_letter_and_the_others_are_handled(
    make: Make, tmp_path: Path, column: str, altered: str, batch: int, damaged: int
) -> None:
    """It is acknowledged, so its source does not send it again; what comes after it must not wait for it."""
    staged = make(StageSettings(batch=batch))
    staged.store.away = True
    staged.pair.send(orders(1, 5), end=True)
    staged.pair.send(orders(11, 13), key="another", end=True)
    staged.pair.run(NOW)
    alter(tmp_path / "stage.db", damaged, column, altered)
    staged.store.away = False
    for _ in range(5):  # the store searches for the number of the dead letter
        staged.now += LATER
        staged.run()
    whole = [each for each in orders(1, 5) if each != str(damaged)]
    assert [text for text in handled(staged) if int(text) < 10] == whole
    assert sorted(handled(staged)) == sorted(whole + orders(11, 13))
    assert letters(staged) == [(damaged, DAMAGED)]
    assert staged.rows == staged.room.waiting == 0
    with staged.store.transaction() as tx:
        if column != "payload":
            assert [letter.payload for letter in tx.dead_letters.all()] == [f"<order>{damaged}</order>".encode()]
        assert all(record.machine.tombstone for record in tx.rmd.all())


@pytest.mark.parametrize(
    ("column", "altered"),
    [
        ("checksum", "flipped"),
        ("kind", "flipped"),
        ("kind", "message"),
        ("sequence", "flipped"),
        ("number", "1"),
        ("number", "0"),
        ("number", "-5"),
        ("number", "9000"),
    ],
)
@pytest.mark.parametrize("waits", [True, False], ids=["behind its messages", "alone"])
@pytest.mark.parametrize("kind", [InboundKind.END, InboundKind.CUT])
def test_an_end_that_was_altered_in_the_stage_ends_its_sequence_and_holds_up_no_other(
    make: Make, tmp_path: Path, kind: InboundKind, waits: bool, column: str, altered: str
) -> None:
    staged = make(policy=DestinationPolicy(incomplete_behavior=IncompleteSequenceBehavior.NO_DISCARD))
    staged.pair.send(orders(11, 12), key="another")  # a sequence that stays open
    staged.pair.send(orders(1, 1))
    staged.run()
    staged.store.away = waits
    staged.pair.send(orders(2, 4))
    if kind is InboundKind.CUT:
        arrived = [2, 4]
        staged.arrive(*(post for post in staged.pair.client.turn(NOW)[1] if post.number in arrived))
    else:
        arrived = [2, 3, 4]
        staged.run()
    staged.store.away = True
    staged.pair.end(abandon=kind is InboundKind.CUT)
    staged.pair.run(NOW)
    alter(tmp_path / "stage.db", kind, column, altered)
    staged.pair.send(orders(5, 6), end=True)  # in the sequence that follows
    staged.pair.run(NOW)
    staged.store.away = False
    for _ in range(3):
        staged.now += LATER
        staged.run()
    assert [int(text) for text in handled(staged) if int(text) < 10] == [1, *arrived, 5, 6]
    assert (letters(staged), staged.rows) == ([], 0)
    for store in staged.stage.inner, staged.store.inner:
        with store.transaction() as tx:
            states = {buffer.machine.state for buffer in tx.invoker.all()}
            assert [buffer.machine.finished for buffer in tx.invoker.all()].count(False) == 1, states
            assert [record.machine.tombstone for record in tx.rmd.all()].count(False) == 1


def test_rows_of_two_sequences_that_were_altered_in_the_stage_are_not_confused(make: Make, tmp_path: Path) -> None:
    """A row that names no sequence may belong to each of them; one that names a sequence is taken by that first."""
    staged = make()
    staged.store.away = True
    staged.pair.send(orders(11, 13), key="another", end=True)
    staged.pair.send(orders(1, 3), end=True)
    staged.pair.run(NOW)
    alter(tmp_path / "stage.db", 11, "sequence", "flipped")
    alter(tmp_path / "stage.db", 2, "number", "0")
    staged.store.away = False
    for _ in range(5):
        staged.now += LATER
        staged.run()
    with staged.store.transaction() as tx:
        found = {(letter.number, letter.payload) for letter in tx.dead_letters.all()}
    assert found == {(1, b"<order>11</order>"), (2, b"<order>2</order>")}
    assert staged.rows == 0


def alter(stage: Path, which: int | InboundKind, column: str, altered: str) -> None:
    """Alter the row of an order in a stage, or of an end."""
    with contextlib.closing(sqlite3.connect(stage)) as connection, connection:
        found = connection.execute(f"select position, payload, kind, {column} from mercury_invoker_message").fetchall()
        is_end = isinstance(which, InboundKind)
        (row,) = (row for row in found if (row[2] == which.value if is_end else f">{which}<".encode() in row[1]))
        if altered == "deleted":
            connection.execute("delete from mercury_invoker_message where position = ?", row[:1])
            return
        value = flipped(row[3]) if altered == "flipped" else int(altered) if column == "number" else altered
        connection.execute(f"update mercury_invoker_message set {column} = ? where position = ?", (value, row[0]))


def test_the_store_does_not_end_a_sequence_for_silence_that_the_stage_still_has(make: Make) -> None:
    staged = make(policy=DestinationPolicy(inactivity_timeout=100.0, unused_timeout=100.0))
    staged.pair.send(orders(1, 1))
    staged.run()
    assert staged.behind.turn(NOW + 1_000_000.0) == (0, [])
    with staged.store.transaction() as tx:
        assert not tx.rmd.all()[0].machine.tombstone


def test_a_sequence_that_ends_at_the_stage_with_a_gap_ends_so_in_the_store(make: Make) -> None:
    staged = make(policy=DestinationPolicy(inactivity_timeout=1000.0))
    staged.pair.send(orders(1, 3))
    staged.pair.run(NOW)
    _, posts = staged.pair.client.turn(NOW)
    assert posts == []
    staged.now += 2000.0  # the source is silent
    staged.pair.server.turn(staged.now)
    staged.pair.server.turn(staged.now)
    with staged.store.transaction() as tx:
        assert tx.rmd.all()[0].machine.tombstone
    staged.behind.turn(staged.now)
    assert handled(staged) == orders(1, 3)


REASONS = {DestinationEnd.CLOSE: CLOSED_IN_STORE, DestinationEnd.TERMINATE: ENDED_IN_STORE}


@pytest.mark.parametrize("end", DestinationEnd)
def test_an_operator_ends_a_sequence_in_the_store_and_neither_it_nor_others_wait_in_the_stage(
    make: Make, end: DestinationEnd
) -> None:
    staged = make()
    staged.pair.send(orders(1, 3))
    staged.run()
    sequence = end_in_store(staged, end)
    staged.pair.send(orders(4, 6), end=True)  # the stage knows nothing of it, and acknowledges them
    staged.pair.send(orders(11, 13), key="another")
    staged.run()
    assert staged.waiting == 0
    assert handled(staged) == orders(1, 3) + orders(11, 13)
    assert letters(staged) == [(number, REASONS[end]) for number in (4, 5, 6)]
    with staged.store.transaction() as tx:
        record, buffer = tx.rmd.read(sequence), tx.invoker.read(sequence)
    assert record is not None
    assert record.machine.tombstone
    assert record.machine.state.value == record.machine.predicate()
    assert buffer is None or buffer.machine.finished


def test_messages_of_a_closed_sequence_become_dead_letters_although_its_buffer_has_no_room(make: Make) -> None:
    """Nothing leaves the buffer while its handler fails: they would wait in the stage, and fill it."""
    staged = make(policy=DestinationPolicy(max_backlog=5))
    staged.pair.send(orders(1, 5))
    staged.pair.run(NOW)  # no handler runs
    with staged.store.transaction() as tx:
        (record,) = tx.rmd.all()
    end_at_destination(staged.store.inner, record.identifier, DestinationEnd.CLOSE)
    staged.behind.engine.destination.run_once(NOW)
    staged.pair.send(orders(6, 30))
    staged.pair.run(NOW)
    assert staged.waiting == 0
    assert [number for number, _ in letters(staged)] == list(range(6, 31))
    staged.run()
    assert handled(staged) == orders(1, 5)


#: What the application gets of 1, 3 and 5, if 2 and 4 never reach it.
WITH_GAPS = {
    IncompleteSequenceBehavior.NO_DISCARD: ["1", "3", "5"],
    IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP: ["1"],
    IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE: [],
}


@pytest.mark.parametrize("behavior", IncompleteSequenceBehavior)
@pytest.mark.parametrize("crash", [0, 1, 2])
def test_gaps_of_a_sequence_that_was_closed_in_the_store_are_no_damage_and_are_settled_by_its_behavior(
    make: Make, caplog: pytest.LogCaptureFixture, behavior: IncompleteSequenceBehavior, crash: int
) -> None:
    """The store searches a buffer that waits for a message for damaged rows: a number that it has received and that has
    no row would be a lost one. A dead letter of a closed sequence leaves such a number."""
    staged = make(policy=DestinationPolicy(incomplete_behavior=behavior))
    staged.pair.send(orders(1, 1))
    staged.run()
    staged.pair.send(orders(2, 5))
    posts = {post.number: post for post in staged.pair.client.turn(NOW)[1]}
    staged.arrive(posts[3], posts[5])
    sequence = end_in_store(staged, DestinationEnd.CLOSE)
    if crash:
        staged.store.crash_after(crash)
    for number in 2, 4:
        staged.now += LATER  # the store searches again
        staged.arrive(posts[number])
    staged.now += LATER
    staged.arrive()
    assert handled(staged) == WITH_GAPS[behavior]
    staged.pair.send([], end=True)
    staged.now += LATER
    staged.run()
    assert handled(staged) == WITH_GAPS[behavior]
    assert letters(staged) == [(2, CLOSED_IN_STORE), (4, CLOSED_IN_STORE)]
    assert "damaged" not in caplog.text
    assert [status.waiting for status in sequences(staged.store)] == [0], "dead letters and discarded messages do not"
    with staged.store.inner.transaction() as tx:
        record, buffer, seen = tx.rmd.read(sequence), tx.invoker.read(sequence), destination(tx, sequence)  # type: ignore[arg-type]
    assert record is not None
    assert record.machine.tombstone
    assert buffer is None or buffer.machine.finished
    assert seen is not None
    assert seen.waiting == 0


@pytest.mark.parametrize("end", DestinationEnd)
def test_messages_that_were_delivered_before_a_crash_and_the_end_of_their_sequence_get_no_dead_letter(
    before_each_kind: Staged, end: DestinationEnd
) -> None:
    """A redrive of such a dead letter would deliver the message a second time."""
    staged = before_each_kind
    staged.pair.send(orders(1, 6))
    staged.run_into_crash()
    staged.behind.turn(NOW)
    assert (handled(staged), staged.waiting) == (orders(1, 6), 6)
    end_in_store(staged, end)
    staged.now += LATER
    staged.run()
    assert (letters(staged), staged.waiting) == ([], 0)
    assert handled(staged) == orders(1, 6)


@pytest.mark.parametrize("end", DestinationEnd)
def test_a_crash_after_dead_letters_of_an_ended_sequence_were_committed_makes_no_second_ones(
    before_each_kind: Staged, end: DestinationEnd
) -> None:
    staged = before_each_kind
    staged.pair.send(orders(1, 3))
    staged.run()
    end_in_store(staged, end)
    staged.pair.send(orders(4, 6))
    staged.run_into_crash()
    once = letters(staged)
    assert once == [(number, REASONS[end]) for number in (4, 5, 6)]
    assert staged.waiting == 3
    staged.now += LATER
    staged.run()
    assert (letters(staged), staged.waiting) == (once, 0)
    assert handled(staged) == orders(1, 3)
