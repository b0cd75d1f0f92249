"""The effects of a commit: actions that run after it, listeners that are called, and other stores that see the data."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from mercury.errors import Conflict, StorageError
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import StorageManager, Topic, Transaction
from mercury.storage.records import RmdRecord, RmsRecord
from mercury.testing.contract.builders import (
    KEY,
    NOW,
    buffer,
    inbound,
    rmd_record,
    rms_record,
    row,
)
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids, single
from mercury.testing.contract.stores import StoreFactory, needs
from mercury.testing.contract.threads import EVENT_TIMEOUT, Threads, result
from mercury.testing.contract.transactions import Mistake, fill, seen, undone

# --- after the commit ------------------------------------------------------------------------------------------------


def test_actions_run_after_the_commit_in_their_order_and_with_every_lock_free(store: StorageManager) -> None:
    outbox = Outbox(store)
    happened: list[object] = []

    def poll() -> None:
        happened.append(ids(outbox.locked(lambda tx: tx.rms.unnumbered(KEY, 10))))

    with store.transaction() as tx:
        tx.rms.lock([KEY])
        tx.rms.append(row("a"))
        tx.after_commit(lambda: happened.append("first"))
        tx.after_commit(poll)
        assert happened == []
    assert happened == ["first", ["a"]]


def test_actions_of_a_savepoint_that_failed_are_not_run(store: StorageManager) -> None:
    happened: list[str] = []
    with store.transaction() as tx:
        tx.after_commit(lambda: happened.append("before"))
        undone(tx, lambda: tx.after_commit(lambda: happened.append("inside")))
        with tx.savepoint():
            tx.after_commit(lambda: happened.append("another"))
    assert happened == ["before", "another"]


def test_actions_are_not_run_when_the_commit_fails(store: StorageManager) -> None:
    happened: list[str] = []
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    with ending(store.transaction(), Conflict) as tx:
        tx.after_commit(lambda: happened.append("after the commit"))
        tx.rms.append(row("a"))
    assert happened == []


# --- after the end ---------------------------------------------------------------------------------------------------


def test_transaction_that_has_ended_takes_no_message_and_no_action(store: StorageManager) -> None:
    with store.transaction() as committed:
        committed.rms.append(row("a"))
    refused: list[StorageError] = []

    def append_once_more(tx: Transaction) -> None:
        try:
            tx.rms.append(row("b"))
        except StorageError as error:
            refused.append(error)

    with pytest.raises(Mistake), store.transaction() as rolled_back:
        raise Mistake
    with store.transaction() as tx:
        tx.after_commit(lambda: append_once_more(tx))
    append_once_more(committed)
    append_once_more(rolled_back)
    assert len(refused) == 3
    for ended in (committed, rolled_back):
        with pytest.raises(StorageError, match="begin another"):
            ended.after_commit(lambda: None)
    assert ids(Outbox(store).locked(lambda tx: tx.rms.unnumbered(KEY, 10))) == ["a"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_cannot_use_the_store_of_its_parent(store: StorageManager) -> None:
    """Both would have the same connections, and the same name on their claims."""
    with store.transaction():
        pass
    child = os.fork()
    if child == 0:
        try:
            store.transaction()
        except StorageError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with store.transaction() as tx:
        tx.rms.append(row("a"))


# --- listeners -------------------------------------------------------------------------------------------------------


class RecordingListener:
    """A listener that records the topics of its calls."""

    def __init__(self, store: StorageManager) -> None:
        self._heard: set[Topic] = set()
        self._called = threading.Condition()
        store.listen(self._listen)

    def _listen(self, topics: frozenset[Topic]) -> None:
        with self._called:
            self._heard |= topics
            self._called.notify_all()

    def is_notified(self, topic: Topic) -> bool:
        """Whether the listener is called with a topic within `EVENT_TIMEOUT`. A store may call it in another thread."""
        with self._called:
            return self._called.wait_for(lambda: topic in self._heard, EVENT_TIMEOUT)

    @property
    def heard(self) -> set[Topic]:
        with self._called:
            return set(self._heard)


@pytest.mark.parametrize(
    ("topic", "work"),
    [
        pytest.param(Topic.RMS, lambda tx: tx.rms.append(row("a")), id="append"),
        pytest.param(Topic.RMS, lambda tx: tx.rms.save(_due(tx)), id="save a source sequence"),
        pytest.param(Topic.RMD, lambda tx: tx.rmd.insert(rmd_record("urn:rmd:2", due=NOW)), id="insert a destination"),
        pytest.param(Topic.RMD, lambda tx: tx.rmd.save(_due_destination(tx)), id="save a destination"),
        pytest.param(Topic.INVOKER, lambda tx: tx.invoker.add([inbound(1)]), id="add"),
        pytest.param(Topic.INVOKER, lambda tx: _save_delivered(tx), id="save the last delivery"),
        pytest.param(Topic.INVOKER, lambda tx: tx.invoker.delete("urn:rmd:1"), id="delete a buffer"),
    ],
)  # fmt: skip
def test_listeners_are_called_after_a_commit_with_new_work(
    store: StorageManager, topic: Topic, work: Callable[[Transaction], None]
) -> None:
    Outbox(store)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
    first, second = RecordingListener(store), RecordingListener(store)
    with store.transaction() as tx:
        work(tx)
        assert first.heard == set()
    assert first.is_notified(topic)
    assert second.is_notified(topic)


def test_the_only_keys_with_work_for_source_sequences_are_named(store: StorageManager) -> None:
    said: list[frozenset[str]] = []
    Outbox(store)
    store.listen(lambda _: None, keys=said.append)
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    with store.transaction() as tx:
        tx.rms.append(row("b"))
        tx.rms.save(_due(tx))
    with store.transaction() as tx:
        tx.rms.save(_due(tx))
    assert said == [frozenset((KEY.digest,)), frozenset(), frozenset()]


def _due(tx: Transaction) -> RmsRecord:
    tx.rms.lock([KEY])
    (record,) = tx.rms.records(KEY)
    record.due = NOW
    return record


def _save_delivered(tx: Transaction) -> None:
    record = tx.invoker.read("urn:rmd:1")
    assert record is not None
    record.machine.state = InvokerState.DONE  # so that the sequence that follows it may be delivered
    tx.invoker.save_delivered(record, consumed=())


def _due_destination(tx: Transaction) -> RmdRecord:
    record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
    record.due = NOW
    return record


def test_listeners_are_not_called_after_a_commit_without_new_work(store: StorageManager) -> None:
    ear = RecordingListener(store)
    with store.transaction() as tx:
        tx.rmd.read("urn:rmd:1")
        tx.rms.lock([KEY])
        tx.rms.unnumbered(KEY, 10)
    with ending(store.transaction(), Mistake) as tx:
        fill(tx)
        raise Mistake
    assert ear.heard == set()


def test_a_listener_that_reads_sees_the_commit(store: StorageManager) -> None:
    found: list[bool] = []
    called = threading.Event()

    def listen(_: frozenset[Topic]) -> None:
        found.append(store.due_rms(NOW, 10) == [KEY])
        called.set()

    store.listen(listen)
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    assert called.wait(EVENT_TIMEOUT)
    assert found == [True]


# --- the store -------------------------------------------------------------------------------------------------------


def test_a_closed_store_cannot_be_used(store: StorageManager) -> None:
    store.close()
    with pytest.raises(StorageError):
        seen(store)
    store.close()


def test_stores_of_different_names_share_no_data(store_factory: StoreFactory) -> None:
    one, other = store_factory("one"), store_factory("other")
    with one.transaction() as tx:
        fill(tx)
    assert all(seen(one))
    assert not any(seen(other))


@needs("durable")
def test_committed_rows_are_there_when_the_store_is_reopened(
    store: StorageManager, store_factory: StoreFactory
) -> None:
    outbox = Outbox(store)
    outbox.send("a", "b")
    outbox.append("c")
    with store.transaction() as tx:
        fill(tx, "old")
    with ending(store.transaction(), Mistake) as tx:
        fill(tx, "rolled back")
        raise Mistake
    claim = store.claim("rms 1", "me", NOW, 30)
    store.close()
    again = store_factory()
    assert all(seen(again, "old"))
    with again.transaction() as tx:
        assert tx.rmd.read("urn:rmd:rolled back") is None
        tx.rms.lock([KEY])
        assert ids(tx.rms.unsettled(outbox.record, 10)) == ["a", "b"]
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["c", "old"]
        tx.rms.acknowledge(outbox.record, single([1]))
    newer = again.claim("rms 1", "another", NOW + 31, 30)
    assert claim is not None
    assert newer is not None
    assert newer.epoch > claim.epoch


@needs("shared")
def test_a_second_process_sees_what_the_first_commits(
    store: StorageManager, store_factory: StoreFactory, threads: Threads
) -> None:
    other = store_factory()
    with store.transaction() as tx:
        fill(tx)
        assert not any(seen(other))
    assert all(seen(other))
    assert store.claim("rms 1", "me", NOW, 30) is not None
    assert other.claim("rms 1", "another", NOW, 30) is None
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        second = threads.start(lambda: Outbox(other, rms_record("rms second")))
        tx.rms.append(row("b"))
    result(second)
