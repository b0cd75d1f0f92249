"""The faults of WS-ReliableMessaging, WS-MakeConnection, WS-Addressing and SOAP as values.

A fault is named by a code, never by its text: the texts may change, the codes are API (FLT-11).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

Ranges = tuple[tuple[int, int], ...]


class FaultCode(enum.Enum):
    """What is wrong. The value is the local name of the code on the wire."""

    #: WS-RM: the sequence came to an unrecoverable end (FLT-01).
    SEQUENCE_TERMINATED = "SequenceTerminated"
    #: WS-RM: the identifier names no sequence that is known here (FLT-02).
    UNKNOWN_SEQUENCE = "UnknownSequence"
    #: WS-RM: an acknowledgement breaks the rules of section 3.9 (FLT-03).
    INVALID_ACKNOWLEDGEMENT = "InvalidAcknowledgement"
    #: WS-RM: the message number is above the highest number that the destination takes (FLT-04).
    MESSAGE_NUMBER_ROLLOVER = "MessageNumberRollover"
    #: WS-RM: the destination does not make the sequence (FLT-05).
    CREATE_SEQUENCE_REFUSED = "CreateSequenceRefused"
    #: WS-RM 1.0 only: a number above the last message's (FLT-06).
    LAST_MESSAGE_NUMBER_EXCEEDED = "LastMessageNumberExceeded"
    #: WS-RM 1.1 only: a new number on a closed sequence (FLT-07).
    SEQUENCE_CLOSED = "SequenceClosed"
    #: WS-RM 1.1 only: the endpoint takes no message without WS-RM (FLT-08).
    WSRM_REQUIRED = "WSRMRequired"
    #: WS-MakeConnection: a selection extension is not understood (FLT-09).
    UNSUPPORTED_SELECTION = "UnsupportedSelection"
    #: WS-MakeConnection: nothing is selected (FLT-10).
    MISSING_SELECTION = "MissingSelection"
    #: WS-Addressing: a header is wrong (WSA-05, WSA-06).
    INVALID_ADDRESSING_HEADER = "InvalidAddressingHeader"
    #: WS-Addressing: a header is missing (WSA-06).
    ADDRESSING_HEADER_REQUIRED = "MessageAddressingHeaderRequired"
    #: WS-Addressing: nothing is served at this address.
    DESTINATION_UNREACHABLE = "DestinationUnreachable"
    #: WS-Addressing: the endpoint has no operation for the action.
    ACTION_NOT_SUPPORTED = "ActionNotSupported"
    #: WS-Addressing: the endpoint cannot take the message now.
    ENDPOINT_UNAVAILABLE = "EndpointUnavailable"
    #: WS-Security: the message is not taken as secure. There is no finer code: it would help to guess (SEC-06).
    INVALID_SECURITY = "InvalidSecurity"
    #: SOAP: a header with mustUnderstand is not understood (FLT-15).
    MUST_UNDERSTAND = "MustUnderstand"
    #: SOAP: the envelope is neither 1.1 nor 1.2.
    VERSION_MISMATCH = "VersionMismatch"
    #: SOAP: the message is wrong in another way (1.1 Client, 1.2 Sender).
    SENDER = "Sender"
    #: SOAP: the receiver cannot handle the message now (1.1 Server, 1.2 Receiver).
    RECEIVER = "Receiver"


class Subcode(enum.Enum):
    """The finer code of an invalid WS-Addressing header (WS-Addressing 1.0 SOAP binding, section 6.4.1)."""

    INVALID_ADDRESS = "InvalidAddress"
    INVALID_EPR = "InvalidEPR"
    INVALID_CARDINALITY = "InvalidCardinality"
    MISSING_ADDRESS_IN_EPR = "MissingAddressInEPR"
    DUPLICATE_MESSAGE_ID = "DuplicateMessageID"
    ACTION_MISMATCH = "ActionMismatch"
    ONLY_ANONYMOUS = "OnlyAnonymousAddressSupported"
    ONLY_NON_ANONYMOUS = "OnlyNonAnonymousAddressSupported"


#: Faults about a sequence: in SOAP 1.1 they travel in a SequenceFault header (docs/protocol.md, section 8).
ABOUT_A_SEQUENCE = frozenset(
    {
        FaultCode.SEQUENCE_TERMINATED,
        FaultCode.UNKNOWN_SEQUENCE,
        FaultCode.INVALID_ACKNOWLEDGEMENT,
        FaultCode.MESSAGE_NUMBER_ROLLOVER,
        FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED,
        FaultCode.SEQUENCE_CLOSED,
    }
)

#: Codes of WS-ReliableMessaging.
OF_RM = ABOUT_A_SEQUENCE | {FaultCode.CREATE_SEQUENCE_REFUSED, FaultCode.WSRM_REQUIRED}

#: Codes of WS-MakeConnection.
OF_MAKE_CONNECTION = frozenset({FaultCode.UNSUPPORTED_SELECTION, FaultCode.MISSING_SELECTION})

#: Codes of WS-Addressing.
OF_ADDRESSING = frozenset(
    {
        FaultCode.INVALID_ADDRESSING_HEADER,
        FaultCode.ADDRESSING_HEADER_REQUIRED,
        FaultCode.DESTINATION_UNREACHABLE,
        FaultCode.ACTION_NOT_SUPPORTED,
        FaultCode.ENDPOINT_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, with everything that is needed to write it in any version and to handle it."""

    code: FaultCode
    #: Text for people, in English.
    reason: str
    #: Who caused the error: true = the sender (1.1 Client), false = the receiver, or it is temporary (1.1 Server).
    sender: bool = True
    subcode: Subcode | None = None
    #: The Identifier of the sequence that the fault is about.
    identifier: str | None = None
    #: The ranges of the acknowledgement that is refused (InvalidAcknowledgement).
    ranges: Ranges = ()
    #: The highest number that the destination takes (MessageNumberRollover, WS-RM 1.1).
    max_message_number: int | None = None
    #: The qualified name in Clark notation that the fault is about (a header, a selection, an action).
    subject: str | None = None
    #: The sender should try again later: the receiver is busy, and nothing is wrong with the message.
    busy: bool = False
