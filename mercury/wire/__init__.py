"""Translates the bytes of messages to and from `mercury.wire.envelope.Envelope`, in each version of the protocols.

SOAP 1.1 and 1.2, WS-Addressing 2004/08 and 1.0, WS-ReliableMessaging 1.0 and 1.1/1.2, WS-MakeConnection 1.1. No module
here uses a clock, a socket or a store. `decode` checks the limits of a message before it builds objects from it, and
raises only `Undecodable`. The payload keeps its bytes: `decode` cuts it out, and `encode` writes it, unchanged.

Order of the modules: `ns`, `values` and `fault_names` (names and lexical forms), `scan` and `cut` (the one pass over
the bytes), `media` (the headers of HTTP), `multipart` and `xop` (MTOM messages), ``read_*`` and `decode`, ``write_*``
and `encode`, `payload` and `application_fault` (elements of the application). A module imports only modules that stand
before it in this list.
"""

from __future__ import annotations

from mercury.wire.application_fault import read_application_fault, write_application_fault
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import EMPTY, Body, Envelope, HttpMessage, Payload, Undecodable
from mercury.wire.fault_names import fault_action, fault_status
from mercury.wire.ns import MAKE_CONNECTION_ACTION, MC_ANONYMOUS, RmMessage, rm_action
from mercury.wire.payload import canonical, check_payload
from mercury.wire.scan import DEFAULT_LIMITS, Limits

__all__ = [
    "DEFAULT_LIMITS",
    "EMPTY",
    "MAKE_CONNECTION_ACTION",
    "MC_ANONYMOUS",
    "Body",
    "Envelope",
    "HttpMessage",
    "Limits",
    "Payload",
    "RmMessage",
    "Undecodable",
    "canonical",
    "check_payload",
    "decode",
    "encode",
    "fault_action",
    "fault_status",
    "read_application_fault",
    "rm_action",
    "write_application_fault",
]
