"""Dead letters; conversions between them and messages, by fields of the same name; filters on them."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

from mercury.statemachine.effects import Certainty
from mercury.statemachine.trace import Trace
from mercury.storage.attachments import Attachments
from mercury.storage.records import Channel, InboundMessage, OutboundMessage
from mercury.storage.sizes import LETTER, ROW, attached_size, stored_size

#: The reason of a dead letter that an operator parked.
PARKED = "parked by an operator"


class Direction(enum.Enum):
    """The side on which a message became a dead letter."""

    OUTBOUND = "outbound"
    INBOUND = "inbound"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that cannot be delivered: retained with its reason until an operator removes or redrives it."""

    id: str
    direction: Direction
    reason: str
    certainty: Certainty
    dead_at: float
    message_id: str | None = None
    #: The endpoint and key of an outbound message, the service and sequence of an inbound one.
    endpoint: str = ""
    key: str = ""
    sequence: str | None = None
    number: int | None = None
    action: str = ""
    payload: bytes = b""
    is_fault: bool = False
    correlation: str | None = None
    created_at: float = 0.0
    #: The name of an inbound payload's element in Clark notation.
    element: str = ""
    headers: tuple[bytes, ...] = ()
    relates_to: str | None = None
    #: Of an outbound message: the channel that is used when it is redriven.
    channel: Channel | None = None
    request: str | None = None
    to_parameters: tuple[bytes, ...] = ()
    expects_response: bool = False
    callback: str | None = None
    #: The peer received a fault for an inbound message: it may have sent it again, as another message.
    disowned: bool = False
    #: Its row in the store is damaged: it must be neither sent nor delivered.
    damaged: bool = False
    #: The peer that has caused it (`RmdRecord.owner`), whose limits its bytes count for; ``None`` = no peer.
    owner: str | None = None
    #: The binary parts of the payload that are stored in pieces; ``None`` = none is.
    attachments: Attachments | None = None
    #: The span that the message was sent in; it is the same when the message is redriven.
    trace: Trace | None = None

    @property
    def size(self) -> int:
        """Its size in a store, in bytes: `LETTER` and the contents that its peer has written."""
        channel = self.channel
        names = (self.message_id, self.action, self.element, self.relates_to, self.endpoint, self.key)
        more, reply_to = ((), None) if channel is None else (channel.names, channel.reply_to)
        size = stored_size(self.payload, self.headers, (reply_to,), (*names, *more), self.to_parameters)
        return LETTER - ROW + size + attached_size(self.attachments)


def _in_both(message: type[Any]) -> frozenset[str]:
    letter = {field.name for field in dataclasses.fields(DeadLetter)}
    return frozenset(field.name for field in dataclasses.fields(message) if field.name in letter)


#: Fields that a dead letter copies from its message.
OUTBOUND, INBOUND = _in_both(OutboundMessage), _in_both(InboundMessage)
#: Fields that a redriven message does not copy: it gets another sequence, and its age begins at the redrive.
NEW = frozenset({"number", "sequence", "created_at", "damaged"})


def outbound_letter(row: OutboundMessage, identifier: str, reason: str, certainty: Certainty, now: float) -> DeadLetter:
    """The dead letter of a message that was taken from the RMS buffer.

    :param identifier: of the dead letter.
    :param certainty: what its last sequence knows; before, the message may have been delivered nevertheless.
    :param now: seconds since the epoch.
    """
    return DeadLetter(
        id=identifier,
        direction=Direction.OUTBOUND,
        reason=reason,
        certainty=Certainty.UNKNOWN if row.in_doubt else certainty,
        dead_at=now,
        endpoint=row.channel.endpoint,
        key=row.channel.key.name,
        sequence=row.sequence_id,
        **{name: getattr(row, name) for name in OUTBOUND},
    )


def inbound_letter(
    message: InboundMessage,
    service: str | None,
    identifier: str,
    reason: str,
    certainty: Certainty,
    now: float,
    *,
    disowned: bool = False,
    owner: str | None = None,
) -> DeadLetter:
    """The dead letter of a message that was taken from the invoker buffer.

    :param service: that the message was sent to; ``None`` = the message is a response.
    :param identifier: of the dead letter.
    :param now: seconds since the epoch.
    :param disowned: see `DeadLetter.disowned`.
    :param owner: the peer that sent the message (`RmdRecord.owner`).
    """
    return DeadLetter(
        id=identifier,
        direction=Direction.INBOUND,
        reason=reason,
        certainty=certainty,
        dead_at=now,
        endpoint=service or "",
        created_at=message.received_at,
        disowned=disowned,
        owner=owner,
        **{name: getattr(message, name) for name in INBOUND},
    )


def redriven_outbound(letter: DeadLetter, now: float) -> OutboundMessage:
    """The message of an outbound dead letter, to be sent again. The letter must have a channel and a MessageID.

    :param now: seconds since the epoch; the age of the message begins here, or it would expire again.
    """
    in_doubt = letter.certainty is Certainty.UNKNOWN
    return OutboundMessage(
        created_at=now, in_doubt=in_doubt, **{name: getattr(letter, name) for name in OUTBOUND - NEW}
    )


def redriven_inbound(letter: DeadLetter, sequence: str, now: float) -> InboundMessage:
    """The message of an inbound dead letter, to be delivered as the only message of a sequence.

    :param now: seconds since the epoch.
    """
    fields = {name: getattr(letter, name) for name in INBOUND - NEW}
    return InboundMessage(sequence=sequence, number=1, last=True, received_at=now, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """A filter on dead letters: those that meet all conditions given here."""

    #: One of these identifiers; ``None`` = any.
    ids: frozenset[str] | None = None
    direction: Direction | None = None
    certainty: Certainty | None = None
    #: The endpoint of an outbound message, or the service of an inbound one; the whole text.
    endpoint: str | None = None
    #: The internal key; the whole text.
    key: str | None = None
    message_id: str | None = None
    correlation: str | None = None
    #: A part of the reason, case-insensitive.
    reason: str | None = None
    #: Dead-lettered before this time, in seconds since the epoch.
    dead_before: float | None = None
    #: Dead-lettered at this time or later, in seconds since the epoch.
    dead_since: float | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter meets all conditions."""
        wanted = (
            (self.direction, letter.direction),
            (self.certainty, letter.certainty),
            (self.endpoint, letter.endpoint),
            (self.key, letter.key),
            (self.message_id, letter.message_id),
            (self.correlation, letter.correlation),
        )
        return (
            all(value is None or value == found for value, found in wanted)
            and (self.ids is None or letter.id in self.ids)
            and (self.reason is None or self.reason.lower() in letter.reason.lower())
            and (self.dead_before is None or letter.dead_at < self.dead_before)
            and (self.dead_since is None or letter.dead_at >= self.dead_since)
        )


EVERY_LETTER = LetterFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """The number of dead letters that have these values in common."""

    count: int
    direction: Direction
    endpoint: str
    key: str
    reason: str
    certainty: Certainty

    def order(self) -> tuple[int, str, str, str, str, str]:
        """The key to sort by: the highest count first."""
        return -self.count, self.direction.value, self.endpoint, self.key, self.reason, self.certainty.value
