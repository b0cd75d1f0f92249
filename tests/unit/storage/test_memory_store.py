"""Properties of the in-memory store: deleted records use no memory, and committed state survives a simulated crash."""

from __future__ import annotations

import threading

import pytest

from mercury.errors import Conflict, StorageError, TransientStorageError
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import EndpointReference, IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.storage.api import LockOrderError
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.locks import HeldLocks, LockTable
from mercury.storage.order import INVOKER, RMD, RMS
from mercury.storage.records import (
    Channel,
    InboundKind,
    InboundMessage,
    InvokerRecord,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
    SequenceKey,
)
from tests.acceptance.processes import eventually

NOW = 1_000_000.0
CHANNEL = Channel(key=SequenceKey("http://peer.example/", "key"))
EVERYTHING = ((1, 100),)


def source() -> RmsRecord:
    machine = RMSSequence.start(RmVersion.RM11, NOW)
    machine.identifier = "urn:rms"
    return RmsRecord(id="rms", channel=CHANNEL, machine=machine, created_at=NOW, create_message_id="create", due=NOW)


def destination(identifier: str = "urn:rmd") -> RmdRecord:
    return RmdRecord(
        machine=RMDSequence(identifier=identifier, rm=RmVersion.RM11, last_heard=NOW),
        protocol=Protocol(),
        acks_to=EndpointReference("http://client.example/"),
        created_at=NOW,
        create_message_id=f"create {identifier}",
        due=NOW,
    )


def buffer() -> InvokerRecord:
    machine = InvokerBuffer(
        in_order=True,
        assurance=DeliveryAssurance.EXACTLY_ONCE,
        behavior=IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP,
    )
    return InvokerRecord(sequence="urn:rmd", machine=machine)


def fill(store: MemoryStore) -> None:
    """Everything of one conversation."""
    with store.transaction() as tx:
        tx.rmd.insert(destination())
        tx.invoker.insert(buffer())
        tx.invoker.add([InboundMessage(sequence="urn:rmd", number=1)])
        tx.invoker.add([InboundMessage(sequence="urn:rmd", number=1, kind=InboundKind.END)])
        tx.rms.insert(source())
        for name in ("a", "b", "c"):
            tx.rms.append(OutboundMessage(message_id=name, channel=CHANNEL, relates_to="urn:r", request="1 urn:s"))
    with store.transaction() as tx:
        tx.rms.lock([CHANNEL.key])
        rows = tx.rms.unnumbered(CHANNEL.key, 2)
        for number, row in enumerate(rows, 1):
            row.sequence_id, row.number = "rms", number
        tx.rms.number(source(), rows)


def containers(store: MemoryStore) -> dict[str, int]:
    """How much is in everything that the store keeps committed data or locks in."""
    kept = store.committed
    parts = {"rmd": kept.rmd, "invoker": kept.invoker, "rms": kept.rms, "committed": kept}
    parts |= {"locks": store.lock_table, "store": store}
    return {
        f"{name}.{attribute}": len(value)
        for name, part in parts.items()
        for attribute, value in vars(part).items()
        if isinstance(value, dict | list | set)
    }


def test_nothing_is_left_of_a_deleted_sequence() -> None:
    store = MemoryStore()
    empty = containers(store)
    assert set(empty.values()) == {0}
    fill(store)
    claim = store.claim("rms", "me", NOW, 30)
    assert list(store.due_invoker(NOW, 10)) == ["urn:rmd"]
    with store.transaction() as tx:
        tx.rmd.lock(["urn:rmd"])
        tx.rmd.delete("urn:rmd")
        tx.invoker.delete("urn:rmd")
        tx.rms.lock([CHANNEL.key])
        tx.rms.acknowledge(source(), ((1, 1),))
        tx.rms.release(source(), EVERYTHING)
        tx.rms.take(source(), EVERYTHING)
        tx.rms.discard(tx.rms.unnumbered(CHANNEL.key, 10))
        tx.rms.delete(source())
    assert store.due_invoker(NOW, 10) == {}
    assert claim is not None
    store.release(claim)
    assert containers(store) == empty


def test_peers_that_name_what_is_not_there_leave_nothing_behind() -> None:
    store = MemoryStore()
    for number in range(1000):
        with store.transaction() as tx:
            assert tx.rmd.lock([f"urn:invented:{number}"]) == {}
            tx.rms.lock([SequenceKey("http://peer.example/", f"invented {number}")])
        with pytest.raises(Conflict), store.transaction() as tx:
            tx.invoker.save_delivered(buffer(), consumed=[])
    assert set(containers(store).values()) == {0}


def test_generated_values_are_forgotten_after_a_rollback() -> None:
    store = MemoryStore()

    def fail() -> None:
        with store.transaction() as tx:
            tx.rmd.insert(destination())
            tx.rms.insert(source())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(containers(store).values()) == {0}


# --- a crash ---------------------------------------------------------------------------------------------------------


def test_a_crash_keeps_what_was_committed_and_nothing_else() -> None:
    store = MemoryStore()
    fill(store)
    held = store.claim("rms", "me", NOW, 30)
    heard: list[object] = []
    store.listen(heard.append)
    survivors: list[MemoryStore] = []

    def die() -> None:
        with store.transaction() as tx:
            tx.rms.append(OutboundMessage(message_id="lost", channel=CHANNEL))
            survivors.append(store.crashed())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        die()
    (survivor,) = survivors
    with survivor.transaction() as tx:
        assert tx.rmd.all() == [destination()]
        assert [record.id for record in tx.rms.all()] == ["rms"]
        assert tx.rms.backlog(CHANNEL.key) == 3
        assert tx.rms.row("lost") is None
        tx.rms.append(OutboundMessage(message_id="d", channel=CHANNEL))
    with survivor.transaction() as tx:
        tx.rms.lock([CHANNEL.key])
        assert [row.message_id for row in tx.rms.unnumbered(CHANNEL.key, 10)] == ["c", "d"]
    assert heard == []
    again = survivor.claim("rms", "me again", NOW, 30)
    assert held is not None
    assert again is not None
    assert again.epoch > held.epoch
    with pytest.raises(StorageError):
        store.transaction()


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_lock_without_holder_and_waiter_is_removed() -> None:
    table = LockTable(timeout=0.01)
    first, second = HeldLocks(table), HeldLocks(table)
    first.acquire(RMD, ["a", "b"])
    with pytest.raises(TransientStorageError, match="RMD b was not unlocked within"):
        second.acquire(RMD, ["b"])
    assert first.holds(RMD, "b")
    assert not second.holds(RMD, "b")
    first.release()
    second.acquire(RMD, ["b"])
    second.release()
    assert table._locked == set()


def test_a_waiting_transaction_gets_the_lock_when_it_is_released() -> None:
    table = LockTable(timeout=60.0)
    first, second = HeldLocks(table), HeldLocks(table)
    first.acquire(RMD, ["a"])
    waiter = threading.Thread(target=second.acquire, args=(RMD, ["a"]), daemon=True)
    waiter.start()
    eventually(lambda: table._waiting == 1, "the second transaction waits")
    first.release()
    waiter.join(20.0)
    assert second.holds(RMD, "a")
    second.release()
    assert (table._locked, table._waiting) == (set(), 0)


def test_created_rows_are_locked_unless_another_transaction_has_them() -> None:
    table = LockTable(timeout=0.01)
    first, second = HeldLocks(table), HeldLocks(table)
    first.adopt(RMS, "a")
    first.adopt(RMS, "a")
    second.adopt(RMS, "a")
    assert first.holds(RMS, "a")
    assert not second.holds(RMS, "a")
    first.release()
    second.release()
    assert table._locked == set()


def test_created_rows_do_not_count_in_the_lock_order() -> None:
    """A batch makes a response sequence before it locks the keys it knows."""
    held = HeldLocks(LockTable(timeout=0.01))
    held.adopt(RMS, "z")
    held.acquire(RMD, ["a"])
    held.acquire(RMS, ["a"])
    with pytest.raises(LockOrderError, match="InvokerBuffer a is locked after RMS a"):
        held.acquire(INVOKER, ["a"])
    held.release()
