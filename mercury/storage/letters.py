"""Dead letters made of the rows they stood in."""

from __future__ import annotations

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
    )
