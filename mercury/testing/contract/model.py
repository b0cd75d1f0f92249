"""Compares the rows of a key with a model made of dictionaries, in random sequences of operations.

A random run opens transactions and savepoints, does in them the operations of the worker and of reception, and commits
them or rolls them back. After each operation the store must agree with the model: a transaction sees its own changes,
and all other transactions see the committed rows.
"""

from __future__ import annotations

import contextlib
import copy
from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mercury.statemachine.faults import Ranges
from mercury.statemachine.settled import is_settled, may_go, replays
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import Channel, RmsRecord
from mercury.testing.contract.builders import FETCHING, LISTENING, NOW, rms_record, row
from mercury.testing.contract.outbox import ids
from mercury.testing.contract.stores import StoreFactory

CHANNELS = (LISTENING, FETCHING)
SEQUENCES = ("first", "second")


def limits() -> st.SearchStrategy[int]:
    return st.integers(1, 4)


def some_ranges() -> st.SearchStrategy[Ranges]:
    pairs = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=3)
    return pairs.map(lambda found: tuple((low, low + more) for low, more in found))


class Undo(Exception):
    """Rolls a savepoint or a transaction back."""


@dataclass
class Row:
    """A row of the model."""

    message_id: str
    place: int
    expects: bool
    request: str | None
    sequence: str | None = None
    number: int | None = None
    attempts: int = 0
    due: float = 0.0
    acknowledged: bool = False
    answered: bool = False

    def settled(self, channel: Channel) -> bool:
        repeats = replays(expects_response=self.expects, fetches=channel.reply_to.anonymous)
        return is_settled(acknowledged=self.acknowledged, answered=self.answered, replays=repeats)

    @property
    def may_go(self) -> bool:
        return may_go(acknowledged=self.acknowledged, expects_response=self.expects)


@dataclass
class Model:
    """The rows and sequences of one key."""

    rows: dict[str, Row] = field(default_factory=dict)
    next_number: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SEQUENCES, 1))
    full: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(SEQUENCES, False))

    def waiting(self) -> list[Row]:
        return sorted((each for each in self.rows.values() if each.number is None), key=lambda each: each.place)

    def numbered(self, sequence: str) -> list[Row]:
        own = (each for each in self.rows.values() if each.sequence == sequence)
        return sorted(own, key=lambda each: each.number or 0)

    def within(self, sequence: str, ranges: Ranges) -> list[Row]:
        return [each for each in self.numbered(sequence) if any(a <= (each.number or 0) <= b for a, b in ranges)]


class RowsOfAKey(RuleBasedStateMachine):
    """One random run. The test sets `store`."""

    store: StorageManager

    def __init__(self) -> None:
        super().__init__()
        self.committed = Model()
        #: The model inside the open transaction, and before each of its savepoints.
        self.own: Model | None = None
        self.saved: list[Model] = []
        self.stacks: list[ExitStack] = []
        self.tx: Transaction | None = None
        self.appended = 0

    @initialize(channel=st.sampled_from(CHANNELS))
    def make_sequences(self, channel: Channel) -> None:
        self.channel = channel
        self.key = channel.key
        with self.store.transaction() as tx:
            tx.rms.lock([self.key])
            for name in SEQUENCES:
                tx.rms.insert(self.record(name))

    def record(self, name: str) -> RmsRecord:
        model = self.own or self.committed
        return rms_record(name, self.channel, window_full=model.full[name])

    # --- transactions ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.tx is None)
    @rule()
    def begin(self) -> None:
        stack = ExitStack()
        self.tx = stack.enter_context(self.store.transaction())
        self.tx.rms.lock([self.key])
        self.stacks, self.saved = [stack], []
        self.own = copy.deepcopy(self.committed)

    @precondition(lambda self: self.tx is not None and len(self.stacks) < 4)
    @rule()
    def set_savepoint(self) -> None:
        assert self.tx is not None
        stack = ExitStack()
        stack.enter_context(self.tx.savepoint())
        self.stacks.append(stack)
        self.saved.append(copy.deepcopy(self.model))

    @precondition(lambda self: len(self.stacks) > 1)
    @rule(undo=st.booleans())
    def leave_savepoint(self, undo: bool) -> None:
        saved = self.saved.pop()
        self.leave(self.stacks.pop(), undo)
        if undo:
            self.own = saved

    @precondition(lambda self: self.tx is not None)
    @rule(undo=st.booleans())
    def end(self, undo: bool) -> None:
        while self.stacks:
            self.leave(self.stacks.pop(), undo)
        if not undo:
            self.committed = self.model
        self.tx, self.own, self.saved = None, None, []

    @staticmethod
    def leave(stack: ExitStack, undo: bool) -> None:
        if not undo:
            stack.close()
            return
        with contextlib.suppress(Undo):
            stack.__exit__(Undo, Undo(), None)

    def teardown(self) -> None:
        if self.tx is not None:
            self.end(undo=True)

    @property
    def model(self) -> Model:
        assert self.own is not None
        return self.own

    # --- operations --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.tx is None)
    @rule(count=limits(), expects=st.booleans(), responds=st.booleans())
    def append(self, count: int, expects: bool, responds: bool) -> None:
        with self.store.transaction() as tx:
            for _ in range(count):
                self.appended += 1
                name = f"row {self.appended}"
                request = f"request {self.appended % 3}" if responds else None
                tx.rms.append(row(name, self.channel, expects_response=expects, request=request))
                self.committed.rows[name] = Row(name, self.appended, expects, request)

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), limit=limits(), due=st.integers(0, 5))
    def number(self, sequence: str, limit: int, due: int) -> None:
        assert self.tx is not None
        rows = self.tx.rms.unnumbered(self.key, limit)
        expected = self.model.waiting()[:limit]
        assert ids(rows) == [each.message_id for each in expected]
        for stored, each in zip(rows, expected, strict=True):
            number = self.model.next_number[sequence]
            self.model.next_number[sequence] += 1
            stored.sequence_id = each.sequence = sequence
            stored.number = each.number = number
            stored.due = each.due = NOW + due
        self.tx.rms.number(self.record(sequence), rows)

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), limit=limits(), due=st.integers(0, 5))
    def transmit(self, sequence: str, limit: int, due: int) -> None:
        assert self.tx is not None
        rows = self.tx.rms.unsettled(self.record(sequence), limit)
        expected = [each for each in self.model.numbered(sequence) if not each.settled(self.channel)][:limit]
        assert [(each.message_id, each.number, each.attempts, each.due) for each in rows] == [
            (each.message_id, each.number, each.attempts, each.due) for each in expected
        ]
        for stored, each in zip(rows, expected, strict=True):
            stored.attempts = each.attempts = each.attempts + 1
            stored.due = each.due = NOW + due
        self.tx.rms.transmitted(rows)

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), ranges=some_ranges())
    def acknowledge(self, sequence: str, ranges: Ranges) -> None:
        assert self.tx is not None
        self.tx.rms.acknowledge(self.record(sequence), ranges)
        for each in self.model.within(sequence, ranges):
            each.acknowledged = True

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), ranges=some_ranges())
    def release(self, sequence: str, ranges: Ranges) -> None:
        assert self.tx is not None
        self.tx.rms.release(self.record(sequence), ranges)
        for each in self.model.within(sequence, ranges):
            if each.may_go:
                del self.model.rows[each.message_id]

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), numbers=st.lists(st.integers(1, 12), max_size=3))
    def resend(self, sequence: str, numbers: list[int]) -> None:
        assert self.tx is not None
        self.tx.rms.resend(self.record(sequence), numbers, NOW + 9)
        for each in self.model.within(sequence, tuple((number, number) for number in numbers)):
            each.due = NOW + 9

    @precondition(lambda self: self.tx is not None)
    @rule(data=st.data())
    def answered(self, data: st.DataObject) -> None:
        assert self.tx is not None
        each = self.choose(data)
        before = self.tx.rms.answered(each.message_id)
        if each.message_id not in self.model.rows:
            assert before is None
            return
        assert before is not None
        assert (before.answered, before.number, before.sequence_id) == (each.answered, each.number, each.sequence)
        each.answered = True

    @precondition(lambda self: self.tx is not None)
    @rule(data=st.data())
    def consumed(self, data: st.DataObject) -> None:
        assert self.tx is not None
        each = self.choose(data)
        self.tx.rms.consumed(each.message_id)
        each.answered, each.expects = True, False
        if each.may_go:
            self.model.rows.pop(each.message_id, None)

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), ranges=some_ranges())
    def unnumber(self, sequence: str, ranges: Ranges) -> None:
        assert self.tx is not None
        moved = self.tx.rms.unnumber(self.record(sequence), ranges)
        expected = self.model.within(sequence, ranges)
        assert sorted(ids(moved)) == sorted(each.message_id for each in expected)
        for each in expected:
            each.sequence = each.number = None
            each.attempts, each.acknowledged = 0, False

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), ranges=some_ranges())
    def take(self, sequence: str, ranges: Ranges) -> None:
        assert self.tx is not None
        taken = self.tx.rms.take(self.record(sequence), ranges)
        expected = self.model.within(sequence, ranges)
        assert ids(taken) == [each.message_id for each in expected]
        for each in expected:
            del self.model.rows[each.message_id]

    @precondition(lambda self: self.tx is not None)
    @rule(limit=limits())
    def discard(self, limit: int) -> None:
        assert self.tx is not None
        rows = self.tx.rms.unnumbered(self.key, limit)
        self.tx.rms.discard(rows)
        for each in rows:
            del self.model.rows[each.message_id]

    @precondition(lambda self: self.tx is not None)
    @rule(sequence=st.sampled_from(SEQUENCES), full=st.booleans())
    def fill_the_window(self, sequence: str, full: bool) -> None:
        assert self.tx is not None
        self.model.full[sequence] = full
        self.tx.rms.save(self.record(sequence))

    def choose(self, data: st.DataObject) -> Row:
        """A row that exists, or one that does not."""
        rows = sorted(self.model.rows.values(), key=lambda each: each.place)
        return data.draw(st.sampled_from([*rows, Row("unknown", 0, expects=False, request=None)]))

    # --- comparisons -------------------------------------------------------------------------------------------------

    @invariant()
    def others_see_what_is_committed(self) -> None:
        if not hasattr(self, "key"):
            return
        model = self.committed
        with self.store.transaction() as tx:
            assert tx.rms.backlog(self.key) == len(model.rows)
            for number in range(1, self.appended + 1):
                each, stored = model.rows.get(f"row {number}"), tx.rms.row(f"row {number}")
                assert (each is None) == (stored is None)
                assert (each is not None) == bool(tx.rms.rows([f"row {number}"]))
                if each is None or stored is None:
                    continue
                assert (
                    *(stored.sequence_id, stored.number, stored.attempts, stored.due),
                    *(stored.acknowledged, stored.answered, stored.expects_response),
                ) == (
                    *(each.sequence, each.number, each.attempts, each.due),
                    *(each.acknowledged, each.answered, each.expects),
                )
            requests = [f"request {number}" for number in range(2)]
            open_ones = {
                each.message_id
                for each in model.rows.values()
                if each.request in requests and each.number is not None and not each.acknowledged
            }
            assert {response.message_id for response in tx.rms.responses_to(requests, 1_000_000)} == open_ones
        due = bool(model.waiting()) and not any(model.full.values())
        assert (self.key in self.store.due_rms(NOW, 10)) == due

    @invariant()
    def the_transaction_sees_what_it_did(self) -> None:
        if self.tx is None:
            return
        model = self.model
        assert ids(self.tx.rms.unnumbered(self.key, 1000)) == [each.message_id for each in model.waiting()]
        for name in SEQUENCES:
            unsettled = [each for each in model.numbered(name) if not each.settled(self.channel)]
            stored = self.tx.rms.unsettled(self.record(name), 1000)
            assert [(each.message_id, each.number) for each in stored] == [
                (each.message_id, each.number) for each in unsettled
            ]
        assert [record.window_full for record in self.tx.rms.records(self.key)] == list(model.full.values())


def test_a_store_agrees_with_the_model(store_factory: StoreFactory) -> None:
    class Walk(RowsOfAKey):
        walks = 0

        def __init__(self) -> None:
            super().__init__()
            Walk.walks += 1
            self.store = store_factory(f"walk {Walk.walks}")

        def teardown(self) -> None:
            super().teardown()
            self.store.close()

    steps = settings(max_examples=store_factory.traits.walks, stateful_step_count=40, deadline=None, derandomize=True)
    run_state_machine_as_test(Walk, settings=steps)
