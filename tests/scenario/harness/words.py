"""Constants and helpers of the tests: a service with two operations, policies without jitter, bodies."""

from __future__ import annotations

from typing import Any

from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy

EPOCH = 1_000_000.0
SERVICE = "orders"
NOTE, ASK = "urn:test:Note", "urn:test:Ask"
#: No jitter, and simple intervals: 1, 2, 4, 8, 8, ... seconds.
PATIENT = RetransmissionPolicy(base=1.0, factor=2.0, cap=8.0, jitter=0.0)
DESTINATION = DestinationPolicy(
    acknowledgement_interval=0.2,
    redelivery=RetransmissionPolicy(base=0.5, cap=4.0, jitter=0.0),
    tombstone=3600.0,
    batches=False,  # most tests name messages on the wire; tests/scenario/test_batches.py has the batches
)


def source(protocol: Protocol | None = None, **changes: Any) -> SourcePolicy:
    """A source's policy without jitter; ``changes`` are fields of `SourcePolicy`."""
    given = {"retransmission": PATIENT, "idle_timeout": None, "tombstone": 3600.0, **changes}
    return SourcePolicy(protocol=protocol or Protocol(), **given)


def body(text: str) -> bytes:
    return f'<t:entry xmlns:t="urn:test">{text}</t:entry>'.encode()


def text_of(xml: bytes) -> str:
    return xml.partition(b">")[2].rpartition(b"<")[0].decode()
