"""Dead letters: made of messages, and messages of them, by fields of the same name; and which of them are meant."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mercury.statemachine.effects import Certainty
from mercury.storage.records import DeadLetter, Direction, InboundMessage, OutboundMessage

#: The reason of a dead letter that an operator took out of the way.
PARKED = "parked by an operator"


def _in_both(message: type[Any]) -> frozenset[str]:
    letter = {field.name for field in dataclasses.fields(DeadLetter)}
    return frozenset(field.name for field in dataclasses.fields(message) if field.name in letter)


#: What a letter has of its message.
OUTBOUND, INBOUND = _in_both(OutboundMessage), _in_both(InboundMessage)
#: What a redriven message does not have of its letter: it is of another sequence, and as old as its redrive.
NEW = frozenset({"number", "sequence", "created_at", "damaged"})


def outbound_letter(row: OutboundMessage, identifier: str, reason: str, certainty: Certainty, now: float) -> DeadLetter:
    """The dead letter of a message that was taken from the RMS buffer.

    :param identifier: of the dead letter.
    :param now: seconds since the epoch.
    """
    return DeadLetter(
        id=identifier,
        direction=Direction.OUTBOUND,
        reason=reason,
        certainty=certainty,
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

    :param service: that it was sent to; ``None`` = it is a response.
    :param identifier: of the dead letter.
    :param now: seconds since the epoch.
    :param disowned: see `DeadLetter.disowned`.
    :param owner: the peer that has caused it (`RmdRecord.owner`).
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
    """The message of an outbound letter whose channel and MessageID are known, to be sent again.

    :param now: seconds since the epoch; its age is counted from here, or it would die of it again.
    """
    return OutboundMessage(created_at=now, **{name: getattr(letter, name) for name in OUTBOUND - NEW})


def redriven_inbound(letter: DeadLetter, sequence: str, now: float) -> InboundMessage:
    """The message of an inbound letter, to be delivered as the only one of a sequence.

    :param now: seconds since the epoch.
    """
    fields = {name: getattr(letter, name) for name in INBOUND - NEW}
    return InboundMessage(sequence=sequence, number=1, last=True, received_at=now, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which dead letters are meant: those for which everything is true that is given here."""

    #: One of these; ``None`` = any.
    ids: frozenset[str] | None = None
    direction: Direction | None = None
    certainty: Certainty | None = None
    #: An outbound message's endpoint or an inbound one's service, whole.
    endpoint: str | None = None
    #: The internal key, whole.
    key: str | None = None
    message_id: str | None = None
    correlation: str | None = None
    #: A part of the reason, in small or capital letters.
    reason: str | None = None
    #: Seconds since the epoch: it died before this.
    dead_before: float | None = None
    #: Seconds since the epoch: it died at this time or later.
    dead_since: float | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        wanted = (
            (self.direction, letter.direction),
            (self.certainty, letter.certainty),
            (self.endpoint, letter.endpoint),
            (self.key, letter.key),
            (self.message_id, letter.message_id),
            (self.correlation, letter.correlation),
        )
        return (
            all(asked is None or asked == found for asked, found in wanted)
            and (self.ids is None or letter.id in self.ids)
            and (self.reason is None or self.reason.lower() in letter.reason.lower())
            and (self.dead_before is None or letter.dead_at < self.dead_before)
            and (self.dead_since is None or letter.dead_at >= self.dead_since)
        )


EVERY_LETTER = LetterFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterBytes:
    """What dead letters take (`DeadLetter.size`) that peers have caused: that have an owner."""

    of_sequence: int = 0
    #: How many one owner has caused, and their bytes.
    count: int = 0
    of_owner: int = 0
    every: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """How many dead letters are alike."""

    count: int
    direction: Direction
    endpoint: str
    key: str
    reason: str
    certainty: Certainty

    def order(self) -> tuple[int, str, str, str, str, str]:
        """To sort by: the most first."""
        return -self.count, self.direction.value, self.endpoint, self.key, self.reason, self.certainty.value
