"""An action on many dead letters: in pieces, each once whatever ends it, over what there was when it began."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from mercury.client.dead_letters import BATCH
from mercury.operations.acting import NotPossible
from mercury.operations.letter_actions import PIECE_BYTES
from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Actor, AuditFilter, TargetKind
from mercury.storage.bulk import FOLLOWING, SILENCE, BulkAction, BulkState
from mercury.storage.letters import EVERY_LETTER, DeadLetter, Direction, LetterFilter
from mercury.storage.opening import open_sql_store
from mercury.storage.searching import MessageFilter
from mercury.storage.sql.codec import dead_letter
from mercury.storage.sql.dead_letters import SqlDeadLetters
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock
from mercury.testing.contract.builders import NOW

from .test_dead_letters import add_letters, inbound, outbound, waiting

ADA, GRACE = Actor("ada"), Actor("grace")
REDRIVE, DISCARD = BulkAction.REDRIVE, BulkAction.DISCARD


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    with closing(open_sql_store(sql_url)) as opened:
        yield opened


@pytest.fixture
def operations(store: SqlStore, clock: FakeClock) -> Operations:
    return Operations(store, clock)


def add_many(store: SqlStore, many: int, **more: Any) -> None:
    add_letters(store, *(outbound(f"{number:04}", number=number + 1, **more) for number in range(many)))


def left(operations: Operations) -> list[str]:
    return [each.id for each in operations.letters.find(EVERY_LETTER, 10_000)]


def to_its_end(operations: Operations, identifier: int) -> int:
    """How many transactions it needs."""
    for pieces in range(1, 30):
        if operations.bulk_actions.advance(identifier).state is not BulkState.RUNNING:
            return pieces
    raise AssertionError("it does not end")


def test_many_letters_are_redriven_in_their_order_in_pieces_that_say_how_far_it_is(
    store: SqlStore, operations: Operations
) -> None:
    add_many(store, 2 * BATCH + 50)
    add_letters(store, outbound("unknown", certainty=Certainty.UNKNOWN))
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    assert (bulk.total, bulk.handled, bulk.state) == (2 * BATCH + 51, 0, BulkState.RUNNING)
    first = operations.bulk_actions.advance(bulk.id)
    assert (first.done, first.state) == (BATCH, BulkState.RUNNING)
    assert to_its_end(operations, bulk.id) == 2
    ended = operations.bulk_actions.one(bulk.id)
    assert ended is not None
    assert (ended.done, ended.refused, ended.state) == (2 * BATCH + 50, 1, BulkState.DONE)
    assert [name for name, _ in ended.refusals] == ["unknown"]
    assert waiting(store) == [f"message {number:04}" for number in range(2 * BATCH + 50)]
    assert left(operations) == ["unknown"]


def test_the_audit_has_one_line_with_counts_that_leads_to_a_line_for_each_letter(
    store: SqlStore, operations: Operations
) -> None:
    add_many(store, BATCH + 20)
    bulk = operations.bulk_actions.begin(DISCARD, LetterFilter(reason="given"), ADA, reason="paid by hand")
    operations.bulk_actions.advance(bulk.id)
    (line,) = operations.audit().items
    assert (line.kind, line.target, line.action, line.actor) == (TargetKind.BULK, str(bulk.id), "discard", "ada")
    assert line.before == {"dead letters": BATCH + 20, "reason": "given"}
    assert line.after == {"done": BATCH, "refused": 0, "state": "running"}, "also if its process is killed now"
    operations.bulk_actions.advance(bulk.id)
    (line,) = operations.audit().items
    assert line.after == {"done": BATCH + 20, "refused": 0, "state": "done"}
    assert line.note == "paid by hand"
    each = operations.audit(AuditFilter(bulk=bulk.id), limit=1000).items
    assert len(each) == BATCH + 20
    (found,) = operations.audit(AuditFilter(target="0007")).items
    assert (found.bulk, found.before["message_id"]) == (bulk.id, "message 0007")


def test_a_letter_that_dies_meanwhile_is_not_in_the_selection(store: SqlStore, operations: Operations) -> None:
    add_many(store, BATCH + 1)
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    operations.bulk_actions.advance(bulk.id)
    add_letters(store, outbound("again"))
    assert to_its_end(operations, bulk.id) == 1
    assert left(operations) == ["again"]


def test_another_process_goes_on_where_one_was_killed_and_nothing_is_done_twice(
    store: SqlStore, sql_url: str, operations: Operations, clock: FakeClock
) -> None:
    add_many(store, 3 * BATCH, certainty=Certainty.UNKNOWN)
    add_letters(store, *(outbound(f"x{number:03}", number=1000 + number) for number in range(BATCH)))
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    killed = operations.bulk_actions.advance(bulk.id, 2)
    assert (killed.done, killed.refused) == (0, 2 * BATCH)
    clock.now += SILENCE + 1
    assert killed.is_silent(clock.now)
    with closing(open_sql_store(sql_url)) as other:
        there = Operations(other, clock)
        resumed = there.bulk_actions.resume(bulk.id, GRACE)
        assert not resumed.is_silent(clock.now)
        assert to_its_end(there, bulk.id) == 2
    ended = operations.bulk_actions.one(bulk.id)
    assert ended is not None
    assert (ended.done, ended.refused, ended.handled) == (BATCH, 3 * BATCH, ended.total)
    assert waiting(store) == [f"message x{number:03}" for number in range(BATCH)]
    assert [(each.action, each.actor) for each in operations.audit().items] == [
        ("resume", "grace"),
        ("redrive", "ada"),
    ]


def test_a_piece_whose_commit_fails_leaves_its_letters_and_its_counts(
    store: SqlStore, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_many(store, 2 * BATCH)
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    operations.bulk_actions.advance(bulk.id)
    with monkeypatch.context() as broken:
        broken.setattr("mercury.operations.bulk_actions.bulks.save", _fail)
        with pytest.raises(OSError, match="killed"):
            operations.bulk_actions.advance(bulk.id)
    now = operations.bulk_actions.one(bulk.id)
    assert now is not None
    assert (now.done, len(left(operations)), len(waiting(store))) == (BATCH, BATCH, BATCH)
    assert to_its_end(operations, bulk.id) == 1
    assert len(waiting(store)) == 2 * BATCH


def _fail(*_given: object) -> None:
    raise OSError("killed")


def test_two_processes_share_the_pieces_of_one_action(store: SqlStore, sql_url: str, operations: Operations) -> None:
    add_many(store, 5 * BATCH)
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    with closing(open_sql_store(sql_url)) as other, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(to_its_end, each, bulk.id) for each in (operations, Operations(other, lambda: NOW))]
        assert sum(each.result() for each in both) <= 5 + 2
    ended = operations.bulk_actions.one(bulk.id)
    assert ended is not None
    assert (ended.done, ended.refused, ended.state) == (5 * BATCH, 0, BulkState.DONE)
    assert waiting(store) == [f"message {number:04}" for number in range(5 * BATCH)]


def test_a_cancelled_action_does_nothing_more_and_keeps_what_is_done(store: SqlStore, operations: Operations) -> None:
    add_many(store, 2 * BATCH)
    bulk = operations.bulk_actions.begin(DISCARD, EVERY_LETTER, ADA)
    operations.bulk_actions.advance(bulk.id)
    operations.bulk_actions.cancel(bulk.id, GRACE, reason="wrong filter")
    ended = operations.bulk_actions.advance(bulk.id)
    assert (ended.state, ended.done, len(left(operations))) == (BulkState.CANCELLED, BATCH, BATCH)
    for refused in (operations.bulk_actions.resume, operations.bulk_actions.cancel):
        with pytest.raises(NotPossible, match="is cancelled: it does nothing any more"):
            refused(bulk.id, ADA)
    with pytest.raises(NotPossible, match="is cancelled"):
        operations.bulk_actions.stop(bulk.id)
    assert operations.audit().items[0].note == "wrong filter"


def test_a_stopped_action_waits_until_it_is_let_go_on(store: SqlStore, operations: Operations) -> None:
    add_many(store, BATCH + 1)
    bulk = operations.bulk_actions.begin(DISCARD, EVERY_LETTER, ADA)
    assert operations.bulk_actions.stop(bulk.id).state is BulkState.STOPPED
    assert operations.bulk_actions.advance(bulk.id).done == 0
    operations.bulk_actions.resume(bulk.id, ADA)
    assert to_its_end(operations, bulk.id) == 2
    assert left(operations) == []


def test_an_ended_action_has_no_state_that_follows() -> None:
    assert {state for state, following in FOLLOWING.items() if not following} == {BulkState.DONE, BulkState.CANCELLED}


def test_letters_of_one_window_are_handled_by_number_and_windows_follow_each_other(
    store: SqlStore, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.storage.sql.reads.letters.MOST_ROWS", 150)
    monkeypatch.setattr("mercury.operations.letter_actions.BATCH", 40)
    add_letters(store, *(outbound(f"{number:04}", number=number + 1) for number in reversed(range(150))))
    add_letters(store, *(outbound(f"{number:04}", number=number + 1) for number in reversed(range(150, 400))))
    bulk = operations.bulk_actions.begin(REDRIVE, LetterFilter(direction=Direction.OUTBOUND), ADA)
    assert to_its_end(operations, bulk.id) == 4 + 4 + 3
    assert left(operations) == [], "none has moved into the window before, behind the place that was reached there"
    sent = [*range(150), *range(250, 400), *range(150, 250)]
    assert waiting(store) == [f"message {number:04}" for number in sent]


def test_a_piece_with_large_letters_has_fewer_of_them(store: SqlStore, operations: Operations) -> None:
    body = b"<a>%s</a>" % (b"x" * (PIECE_BYTES // 3))
    add_letters(store, *(replace(outbound(f"{number}"), payload=body) for number in range(5)))
    bulk = operations.bulk_actions.begin(DISCARD, EVERY_LETTER, ADA)
    assert [operations.bulk_actions.advance(bulk.id).done for _ in range(2)] == [3, 5]


def test_large_letters_that_are_named_are_locked_in_pieces_too(
    store: SqlStore, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"<a>%s</a>" % (b"x" * (PIECE_BYTES // 3))
    names = [f"{number}" for number in range(5)]
    add_letters(store, *(replace(outbound(name, number=9 - int(name)), payload=body) for name in names))
    read, pieces = SqlDeadLetters.locked, []

    def locked(letters: SqlDeadLetters, some: Sequence[str]) -> list[DeadLetter]:
        pieces.append(len(some))
        return read(letters, some)

    monkeypatch.setattr(SqlDeadLetters, "locked", locked)
    done = operations.letter_actions.redrive([*names, "nobody"], ADA).done
    assert (done, pieces) == (tuple(reversed(names)), [3, 2])


def test_a_letter_that_another_action_has_taken_is_not_counted(store: SqlStore, operations: Operations) -> None:
    add_many(store, 3)
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    assert operations.letter_actions.discard(["0001"], GRACE).done == ("0001",)
    ended = operations.bulk_actions.advance(bulk.id)
    assert (ended.done, ended.refused, ended.total, ended.state) == (2, 0, 3, BulkState.DONE)


def test_of_two_letters_with_one_message_id_one_is_redriven(store: SqlStore, operations: Operations) -> None:
    add_letters(store, outbound("a", message_id="same"), outbound("b", message_id="same"), inbound("c"))
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    ended = operations.bulk_actions.advance(bulk.id)
    assert (ended.done, ended.refusals) == (2, (("b", "a message with its MessageID is waiting already"),))
    assert waiting(store) == ["same"]


def test_letters_are_redirected_and_what_is_no_url_is_refused(store: SqlStore, operations: Operations) -> None:
    add_letters(store, outbound("a"), inbound("b"))
    with pytest.raises(NotPossible, match="is not an endpoint"):
        operations.bulk_actions.begin(BulkAction.REDIRECT, EVERY_LETTER, ADA, endpoint="nowhere")
    with pytest.raises(NotPossible, match="no dead letter matches"):
        operations.bulk_actions.begin(DISCARD, LetterFilter(key="none"), ADA)
    bulk = operations.bulk_actions.begin(BulkAction.REDIRECT, EVERY_LETTER, ADA, endpoint="http://other/services/a")
    ended = operations.bulk_actions.advance(bulk.id)
    assert (ended.done, ended.refused) == (1, 1)
    (sent,) = operations.messages.page(Direction.OUTBOUND, MessageFilter()).items
    assert (sent.endpoint, sent.message_id) == ("http://other/services/a", "message a")
    with pytest.raises(NotPossible, match="there is no bulk action 999"):
        operations.bulk_actions.advance(999)


def test_a_letter_is_read_with_its_body_once(
    store: SqlStore, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_many(store, BATCH)
    bulk = operations.bulk_actions.begin(REDRIVE, EVERY_LETTER, ADA)
    read: list[str] = []

    def counted(row: Any) -> Any:
        read.append(row["id"])
        return dead_letter(row)

    monkeypatch.setattr("mercury.storage.sql.dead_letters.dead_letter", counted)
    assert operations.bulk_actions.advance(bulk.id).done == BATCH
    assert len(read) == BATCH


def test_old_bulk_actions_are_removed_with_the_audit(store: SqlStore, operations: Operations) -> None:
    add_many(store, 1)
    operations.bulk_actions.begin(DISCARD, EVERY_LETTER, ADA)
    store.sweep(kept_before=0.0, idle_before=0.0, limit=10, audit_before=NOW)
    assert len(operations.bulk_actions.newest()) == 1
    store.sweep(kept_before=0.0, idle_before=0.0, limit=10, audit_before=NOW + 1)
    assert operations.bulk_actions.newest() == []
