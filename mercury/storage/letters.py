"""Dead letters: made of the rows they stood in, and which of them are meant."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.effects import Certainty
from mercury.storage.records import DeadLetter, Direction, OutboundMessage

#: The reason of a dead letter that an operator took out of the way.
PARKED = "parked by an operator"


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
        message_id=row.message_id,
        endpoint=row.channel.endpoint,
        key=row.channel.key.name,
        sequence=row.sequence_id,
        number=row.number,
        action=row.action,
        payload=row.payload,
        is_fault=row.is_fault,
        correlation=row.correlation,
        created_at=row.created_at,
        headers=row.headers,
        relates_to=row.relates_to,
        channel=row.channel,
        request=row.request,
        to_parameters=row.to_parameters,
        expects_response=row.expects_response,
        callback=row.callback,
        damaged=row.damaged,
        owner=row.owner,
    )


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
