"""Each field of a record has a column, and each field of a message is kept in its dead letter."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.storage.letters import INBOUND, NEW, OUTBOUND, DeadLetter
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, RmsRecord
from mercury.storage.sql import record_columns
from mercury.storage.sql.fields import MACHINE, Described, Field

#: What a store gives, or works out when it reads.
GIVEN = {"position", "damaged", "unread", "buffered"}
#: What a dead letter has no need of: where its message stood in its sequence and in transmission.
PLACES = {
    *("position", "kind", "last", "sequence_id", "attempts", "due", "acknowledged", "answered", "unread"),
    *("received_at", "sent_at", "reply_to", "fault_to"),
    # A message that is redriven lasts, and is due at once.
    *("expires_at", "not_before"),
    # The dead letter has its certainty.
    "in_doubt",
}


def names(*kinds: type[Any]) -> set[str]:
    return {field.name for kind in kinds for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(
    ("record", "machine", "described"),
    [
        (RmdRecord, RMDSequence, record_columns.RMD),
        (InvokerRecord, InvokerBuffer, record_columns.INVOKER),
        (InboundMessage, None, record_columns.INBOUND),
        (RmsRecord, RMSSequence, record_columns.RMS),
        (OutboundMessage, None, (*record_columns.OUTBOUND, *record_columns.OUTBOUND_BODY)),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_every_field_of_a_record_has_a_column(
    record: type[Any], machine: type[Any] | None, described: tuple[Described, ...]
) -> None:
    kept = {each.of for each in described if isinstance(each, Field) and each.derived is None}
    of_machine = {of.removeprefix(MACHINE) for of in kept if of.startswith(MACHINE)}
    assert names(record) - {of for of in kept if not of.startswith(MACHINE)} - GIVEN - {"machine"} == set()
    if machine is not None:
        assert names(machine) - of_machine - GIVEN == set()


def test_every_field_of_a_dead_letter_has_a_column() -> None:
    fields = [each for each in record_columns.LETTER if isinstance(each, Field)]
    assert names(DeadLetter) == {each.of for each in fields if each.derived is None}


def test_every_field_of_a_message_that_says_something_goes_to_its_dead_letter() -> None:
    assert (names(OutboundMessage) - PLACES, names(InboundMessage) - PLACES) == (OUTBOUND, INBOUND)


def test_redriven_letter_keeps_nothing_of_its_first_life() -> None:
    again = {*("message_id", "action", "payload", "headers", "is_fault", "relates_to", "correlation")}
    again |= {"attachments", "trace"}
    outbound = {*("channel", "to_parameters", "request", "expects_response", "callback", "owner")}
    assert (again | outbound, again | {"element"}) == (OUTBOUND - NEW, INBOUND - NEW)
