"""Storing a record loses and changes none of its fields."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from mercury.storage.api import StorageManager
from mercury.storage.records import InboundKind
from mercury.testing.contract.builders import (
    FULL_CHANNEL,
    FULL_INBOUND,
    FULL_LETTER,
    LISTENING,
    NOW,
    TEXT,
    buffer,
    full_buffer,
    full_rmd,
    full_rms,
    full_row,
    inbound,
    made_from,
    marker,
    rmd_record,
    row,
)
from mercury.testing.contract.outbox import Outbox

#: Fields that the store sets or derives; the tests do not set them directly.
GIVEN = MappingProxyType(
    {
        "OutboundMessage": frozenset(
            ("position", "sequence_id", "number", "attempts", "due", "acknowledged", "answered", "damaged", "unread")
        ),
        "InboundMessage": frozenset(("position", "kind", "damaged")),
        "InvokerBuffer": frozenset(("buffered",)),
    }
)


def at_default(value: Any) -> list[str]:
    """The fields of a record that have their defaults: a test would not detect that a store loses them."""
    name = type(value).__name__
    found = []
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if own == default and field.name not in GIVEN.get(name, frozenset()):
            found.append(f"{name}.{field.name}")
        elif dataclasses.is_dataclass(own):
            found += at_default(own)
    return found


@pytest.mark.parametrize(
    "record",
    [full_row(), full_rms(), full_rmd(), full_buffer(), FULL_INBOUND, FULL_LETTER],
    ids=lambda each: type(each).__name__,
)
def test_the_full_records_leave_nothing_at_its_default(record: Any) -> None:
    assert at_default(record) == []


def test_a_source_sequence_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rms.lock([FULL_CHANNEL.key])
        tx.rms.insert(full_rms())
    with store.transaction() as tx:
        assert tx.rms.peek(FULL_CHANNEL.key) == [full_rms()]
        assert tx.rms.all() == [full_rms()]
        tx.rms.lock([FULL_CHANNEL.key])
        assert tx.rms.records(FULL_CHANNEL.key) == [full_rms()]
        tx.rms.save(full_rms())
    with store.transaction() as tx:
        assert tx.rms.peek(FULL_CHANNEL.key) == [full_rms()]


def test_an_outbound_row_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rms.append(full_row())
    with store.transaction() as tx:
        stored = tx.rms.row(full_row().message_id)
        tx.rms.lock([FULL_CHANNEL.key])
        unnumbered = tx.rms.unnumbered(FULL_CHANNEL.key, 10)
    assert stored is not None
    assert replace(stored, position=0) == full_row()
    assert unnumbered == [stored]


def test_verdict_of_a_row_is_recorded(store: StorageManager) -> None:
    outbox = Outbox(store)
    (numbered,) = outbox.send("a", expects_response=True, callback=TEXT, correlation="c")
    (due,) = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 1))
    assert due == numbered
    due.attempts, due.due = 3, NOW + 7.25
    outbox.locked(lambda tx: tx.rms.transmitted([due]))
    assert outbox.row("a") == due
    outbox.acknowledge(1)
    outbox.answered("a")
    assert outbox.row("a") == replace(due, acknowledged=True, answered=True)
    assert outbox.take() == [replace(due, acknowledged=True, answered=True)]


def test_a_destination_sequence_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(full_rmd())
        assert tx.rmd.read(full_rmd().identifier) == full_rmd()
    with store.transaction() as tx:
        assert tx.rmd.read(full_rmd().identifier) == full_rmd()
        assert tx.rmd.all() == [full_rmd()]
        assert tx.rmd.lock([full_rmd().identifier]) == {full_rmd().identifier: full_rmd()}
        tx.rmd.save(full_rmd())
    with store.transaction() as tx:
        assert tx.rmd.read(full_rmd().identifier) == full_rmd()
        assert tx.rmd.read_many([full_rmd().identifier, "urn:nobody"]) == {full_rmd().identifier: full_rmd()}


def test_optional_elements_that_are_absent_stay_absent(store: StorageManager) -> None:
    record, empty = rmd_record(), buffer()
    with store.transaction() as tx:
        tx.rmd.insert(record)
        tx.invoker.insert(empty)
        tx.rms.append(row("a", LISTENING, action="", payload=b""))
    with store.transaction() as tx:
        stored = tx.rms.row("a")
        assert tx.rmd.read(record.identifier) == record
        assert tx.invoker.read(empty.sequence) == empty
    assert stored is not None
    assert replace(stored, position=0) == row("a", LISTENING, action="", payload=b"")


def test_an_invoker_buffer_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(full_buffer())
        assert tx.invoker.read(full_buffer().sequence) == full_buffer()
    with store.transaction() as tx:
        assert tx.invoker.read(full_buffer().sequence) == full_buffer()
        assert tx.invoker.all() == [full_buffer()]
        tx.invoker.save_delivered(full_buffer(), consumed=())
    with store.transaction() as tx:
        assert tx.invoker.read(full_buffer().sequence) == replace(full_buffer(), version=full_buffer().version + 1)


def test_the_numbers_that_wait_are_derived_from_the_rows_and_not_kept_twice(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1), inbound(2)])
    with store.transaction() as tx:
        record = tx.invoker.read("urn:rmd:1")
        assert record is not None
        record.machine.buffered.add(1, 2)
        record.machine.passed.add(1)
        tx.invoker.save_delivered(record, consumed=[1])
    with store.transaction() as tx:
        record = tx.invoker.read("urn:rmd:1")
        assert record is not None
        assert (list(record.machine.buffered), list(record.machine.passed)) == ([], [(1, 1)])
        assert list(tx.invoker.numbers("urn:rmd:1")) == [(2, 2)]


def test_an_inbound_message_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(full_buffer())
        tx.invoker.add([FULL_INBOUND])
    with store.transaction() as tx:
        found = tx.invoker.messages(full_buffer().sequence, [FULL_INBOUND.number])
    assert {number: replace(message, position=0) for number, message in found.items()} == {
        FULL_INBOUND.number: FULL_INBOUND
    }


def test_markers_come_back_as_they_were(store: StorageManager) -> None:
    end, cut = marker(InboundKind.END, 2**62), marker(InboundKind.CUT)
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([end, cut])
    with store.transaction() as tx:
        found = tx.invoker.markers("urn:rmd:1")
    assert [replace(each, position=0) for each in found] == [end, cut]


def test_a_dead_letter_comes_back_as_it_was(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([FULL_LETTER])
    with store.transaction() as tx:
        assert tx.dead_letters.all() == [FULL_LETTER]
        assert tx.dead_letters.delete(FULL_LETTER.id) == FULL_LETTER


def test_a_body_of_a_megabyte_comes_back_as_it_was(store: StorageManager) -> None:
    body = bytes(range(256)) * 4096
    outbox = Outbox(store)
    outbox.send("large", payload=body)
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1, payload=body)])
        tx.dead_letters.add([replace(FULL_LETTER, payload=body)])
    (large,) = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 1))
    assert large.payload == body
    with store.transaction() as tx:
        assert tx.invoker.messages("urn:rmd:1", [1])[1].payload == body
        assert tx.dead_letters.all()[0].payload == body


def test_a_record_that_was_read_is_a_copy(store: StorageManager) -> None:
    """A change of a record is stored only by saving it, and changes after that do not affect the stored record."""
    outbox = Outbox(store)
    outbox.send("a")
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
    with store.transaction() as tx:
        for rmd in (tx.rmd.read("urn:rmd:1"), tx.rmd.all()[0], tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]):
            assert rmd is not None
            rmd.ack_failures = 9
            rmd.machine.received.add(1, 9)
        for kept in (tx.invoker.read("urn:rmd:1"), tx.invoker.all()[0]):
            assert kept is not None
            kept.attempts = 9
            kept.machine.passed.add(1, 9)
        tx.rms.lock([outbox.key])
        for rms in (tx.rms.peek(outbox.key)[0], tx.rms.all()[0], tx.rms.records(outbox.key)[0]):
            rms.last_error = "not saved"
            rms.machine.acknowledged.add(1, 9)
        for own in (tx.rms.row("a"), *tx.rms.unsettled(outbox.record, 1)):
            assert own is not None
            own.attempts = 9
    with store.transaction() as tx:
        assert tx.rmd.all() == [rmd_record()]
        assert tx.invoker.all() == [buffer()]
        assert tx.rms.all() == [outbox.record]
        unchanged = tx.rms.row("a")
    assert unchanged is not None
    assert unchanged.attempts == 0


def test_a_record_may_be_used_again_once_it_is_stored(store: StorageManager) -> None:
    rmd, kept, message = rmd_record(), buffer(), row("a")
    outbox = Outbox(store)
    with store.transaction() as tx:
        tx.rmd.insert(rmd)
        tx.invoker.insert(kept)
        tx.rms.append(message)
        rmd.machine.received.add(1)
        kept.machine.passed.add(1)
        message.action = "changed"
        tx.rms.lock([outbox.key])
        saved = outbox.record.copy()
        tx.rms.save(saved)
        saved.machine.acknowledged.add(1)
    with store.transaction() as tx:
        assert tx.rmd.all() == [rmd_record()]
        assert tx.invoker.all() == [buffer()]
        assert tx.rms.all() == [outbox.record]
        stored = tx.rms.row("a")
    assert stored is not None
    assert stored.action == row("a").action


def test_several_sequences_are_inserted_and_found_together(store: StorageManager) -> None:
    records = [rmd_record(f"urn:{number}", create_message_id=f"create {number}") for number in range(3)]
    keys = {made_from(f"create {number}"): f"urn:{number}" for number in range(3)}
    with store.transaction() as tx:
        assert tx.rmd.find_created() == {}
        tx.rmd.insert(*records[:2])
        tx.invoker.insert(*(buffer(each.identifier) for each in records[:2]))
        assert tx.rmd.find_created(*keys, made_from("another")) == dict(list(keys.items())[:2])
    with store.transaction() as tx:
        tx.rmd.insert(records[2])
        assert tx.rmd.find_created(*keys, made_from("another")) == keys
        assert [each.sequence for each in tx.invoker.all()] == ["urn:0", "urn:1"]
