"""What a message of one direction acknowledges of the other direction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mercury.engine.source.pair_acknowledgements import of_pair
from mercury.statemachine.faults import Ranges
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.storage.memory import MemoryStore
from mercury.testing.contract.builders import channel, rmd_record, rms_record

DELIVERY, ACCEPTANCE = AcknowledgeAt.DELIVERY, AcknowledgeAt.ACCEPTANCE


@pytest.mark.parametrize(
    ("at", "ends", "expected"),
    [
        (DELIVERY, False, ((1, 1),)),
        (DELIVERY, True, ((1, 2), (5, 5))),
        (ACCEPTANCE, False, ((1, 2), (5, 5))),
        (ACCEPTANCE, True, ((1, 2), (5, 5))),
    ],
)
def test_stored_messages_are_acknowledged_before_their_delivery_only_by_policy_or_at_the_end(
    at: AcknowledgeAt, ends: bool, expected: Ranges
) -> None:
    context: Any = SimpleNamespace(
        application=SimpleNamespace(policy=lambda _service: DestinationPolicy(acknowledge_at=at))
    )
    requests = rmd_record("urn:requests", acks_to=EndpointReference(channel().to))
    machine = requests.machine
    machine.used = True
    machine.received.update(((1, 2), (5, 5)))
    machine.consumed.add(1)
    responses = rms_record(on=channel("responses", pair="urn:requests"))
    store = MemoryStore()
    with store.transaction() as tx:
        tx.rmd.insert(requests)
    with store.transaction() as tx:
        (acknowledgement,) = of_pair(context, tx, responses, ends=ends)
    assert acknowledgement.identifier == "urn:requests"
    assert acknowledgement.ranges == expected


def test_a_sequence_without_a_pair_acknowledges_nothing() -> None:
    context: Any = None
    with MemoryStore().transaction() as tx:
        assert of_pair(context, tx, rms_record()) == ()
