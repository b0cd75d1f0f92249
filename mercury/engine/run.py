"""What one transaction does of one invoker buffer, as it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mercury.engine.call import Call, CallFailed
from mercury.statemachine import effects, events
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy
from mercury.storage.records import Channel, InboundMessage, InvokerRecord, OutboundMessage, RmdRecord


@dataclass(slots=True)
class Run:
    """One transaction's part of one buffer."""

    record: InvokerRecord
    request: RmdRecord | None
    policy: DestinationPolicy
    markers: list[InboundMessage] = field(default_factory=list)
    messages: list[InboundMessage] = field(default_factory=list)
    #: Numbers that are never given to the application, with the reason.
    dropped: list[tuple[int, str]] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    #: Requests of ours whose responses were consumed.
    requests: list[OutboundMessage] = field(default_factory=list)
    #: What is to be stored for peers.
    responses: list[OutboundMessage] = field(default_factory=list)
    failure: CallFailed | None = None

    def drop(self, asked: Iterable[effects.Dropped]) -> None:
        self.dropped += ((number, effect.reason) for effect in asked for number in effect.numbers)

    def give_up_interrupted(self) -> frozenset[int]:
        """What is left of a run under AtMostOnce that did not end is not called again. Returns its numbers."""
        asked = self.record.machine.handle(events.Interrupted())
        self.drop(asked)
        return frozenset(number for effect in asked for number in effect.numbers)

    def begun(self) -> None:
        """AtMostOnce: the transaction that comes before the calls is committed."""
        self.record.version += 1
        self.dropped, self.markers = [], []

    def forget(self) -> None:
        """What the calls have brought is rolled back."""
        self.consumed, self.requests, self.responses = [], [], []

    def remember(self, channel: Channel | None) -> None:
        """A response went this way; the channel ends with the requests."""
        if channel is not None and not channel.plain and channel not in self.record.response_channels:
            self.record.response_channels = (*self.record.response_channels, channel)

    def add(self, call: Call) -> None:
        """Keep what is to be written for a call that was made."""
        if call.request is not None:
            self.requests.append(call.request)
        if call.response is not None:
            self.responses.append(call.response)

    @property
    def at_most_once(self) -> bool:
        return self.policy.assurance is DeliveryAssurance.AT_MOST_ONCE
