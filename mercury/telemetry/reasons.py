"""The reasons of dead letters, as a small number of names: the texts name errors, times and numbers."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """Why messages became dead letters."""

    #: It was transmitted as often or as long as the settings allow, or waited too long for a number.
    GIVEN_UP = "given_up"
    #: The handler failed as often as the policy allows, or answered a one-way message with a fault.
    HANDLER = "handler"
    #: Its sequence failed or ended without it.
    SEQUENCE = "sequence"
    #: The application ended the sequence without waiting.
    ABANDONED = "abandoned"
    #: The request has no response, or the response has no request that waits.
    RESPONSE = "response"
    #: It cannot be delivered in order any more.
    ORDER = "order"
    #: An operator parked it.
    PARKED = "parked"
    #: Its time to live is over.
    EXPIRED = "expired"
    #: Its row is damaged, or it cannot be read.
    DAMAGED = "damaged"
    OTHER = "other"


#: The begin of a text, and its name; the first that fits counts.
_BEGINS = (
    ("expired", Reason.EXPIRED),
    ("parked by an operator", Reason.PARKED),
    ("given up after", Reason.GIVEN_UP),
    ("given up, never sent", Reason.GIVEN_UP),
    ("given up: it waited", Reason.GIVEN_UP),
    ("given up", Reason.HANDLER),
    ("the handler refused it", Reason.HANDLER),
    ("its handler", Reason.HANDLER),
    ("the application ended", Reason.ABANDONED),
    ("the sequence failed", Reason.SEQUENCE),
    ("the sequence had ended", Reason.SEQUENCE),
    ("the sequence ended with a gap", Reason.ORDER),
    ("it came after", Reason.ORDER),
    ("its row in the store is damaged", Reason.DAMAGED),
    ("it cannot be read", Reason.DAMAGED),
    ("its response is lost", Reason.RESPONSE),
    ("its client ended the sequence", Reason.RESPONSE),
    ("its sequence ended before a response", Reason.RESPONSE),
    ("the client ended its sequence", Reason.RESPONSE),
    ("no request here waits", Reason.RESPONSE),
    ("the caller that waited", Reason.RESPONSE),
    ("no response came", Reason.RESPONSE),
)


def reason_of(text: str) -> Reason:
    """The name of the reason of a dead letter (`DeadLetter.reason`)."""
    return next((reason for begin, reason in _BEGINS if text.startswith(begin)), Reason.OTHER)
