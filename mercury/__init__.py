"""WS-ReliableMessaging middleware with a transactional store: exactly once, in order, between two applications.

The names here are the public ones; they are loaded when they are first used, so that a part of Mercury can be
imported without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercury.client.asynchronous import AsyncTransaction
    from mercury.client.results import Receipt, Waited
    from mercury.client.sender import Sender
    from mercury.contract import Contract, OneWay, TwoWay, operation
    from mercury.engine import events
    from mercury.engine.addresses import AddressPolicy
    from mercury.engine.application import MessageContext
    from mercury.engine.peers import Peer
    from mercury.errors import (
        ApplicationFault,
        ConfigurationError,
        MercuryError,
        NotAuthenticated,
        OutcomeUnknown,
        Overloaded,
        PayloadError,
        ProtocolFault,
        SequenceFailed,
        StorageError,
        TransportError,
    )
    from mercury.facade import Mercury
    from mercury.service.definition import Service
    from mercury.service.identity import Authenticate, HttpRequest
    from mercury.settings import Settings
    from mercury.statemachine.effects import Certainty
    from mercury.statemachine.policy import (
        AcknowledgeAt,
        DeliveryAssurance,
        DestinationPolicy,
        OnFailure,
        SourcePolicy,
    )
    from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
    from mercury.statemachine.retransmission import RetransmissionPolicy
    from mercury.storage.application import Transaction
    from mercury.storage.letters import LetterFilter
    from mercury.storage.records import DeadLetter, Direction
    from mercury.wire.mapping import Attribute, Xml

_WHERE = {
    "AcknowledgeAt": "mercury.statemachine.policy",
    "AddressPolicy": "mercury.engine.addresses",
    "Peer": "mercury.engine.peers",
    "AddressingVersion": "mercury.statemachine.protocol",
    "ApplicationFault": "mercury.errors",
    "AsyncTransaction": "mercury.client.asynchronous",
    "Attribute": "mercury.wire.mapping",
    "Authenticate": "mercury.service.identity",
    "Certainty": "mercury.statemachine.effects",
    "ConfigurationError": "mercury.errors",
    "Contract": "mercury.contract",
    "OneWay": "mercury.contract",
    "TwoWay": "mercury.contract",
    "operation": "mercury.contract",
    "DeadLetter": "mercury.storage.records",
    "DeliveryAssurance": "mercury.statemachine.policy",
    "DestinationPolicy": "mercury.statemachine.policy",
    "Direction": "mercury.storage.records",
    "HttpRequest": "mercury.service.identity",
    "LetterFilter": "mercury.storage.letters",
    "Mercury": "mercury.facade",
    "MercuryError": "mercury.errors",
    "MessageContext": "mercury.engine.application",
    "NotAuthenticated": "mercury.errors",
    "OnFailure": "mercury.statemachine.policy",
    "OutcomeUnknown": "mercury.errors",
    "Overloaded": "mercury.errors",
    "PayloadError": "mercury.errors",
    "Protocol": "mercury.statemachine.protocol",
    "ProtocolFault": "mercury.errors",
    "Receipt": "mercury.client.results",
    "RetransmissionPolicy": "mercury.statemachine.retransmission",
    "RmVersion": "mercury.statemachine.protocol",
    "Sender": "mercury.client.sender",
    "SequenceFailed": "mercury.errors",
    "Service": "mercury.service.definition",
    "Settings": "mercury.settings",
    "SoapVersion": "mercury.statemachine.protocol",
    "SourcePolicy": "mercury.statemachine.policy",
    "StorageError": "mercury.errors",
    "Transaction": "mercury.storage.application",
    "TransportError": "mercury.errors",
    "Waited": "mercury.client.results",
    "Xml": "mercury.wire.mapping",
    "events": "mercury.engine",
}

__all__ = [
    "AcknowledgeAt",
    "AddressPolicy",
    "AddressingVersion",
    "ApplicationFault",
    "AsyncTransaction",
    "Attribute",
    "Authenticate",
    "Certainty",
    "ConfigurationError",
    "Contract",
    "DeadLetter",
    "DeliveryAssurance",
    "DestinationPolicy",
    "Direction",
    "HttpRequest",
    "LetterFilter",
    "Mercury",
    "MercuryError",
    "MessageContext",
    "NotAuthenticated",
    "OnFailure",
    "OneWay",
    "OutcomeUnknown",
    "Overloaded",
    "PayloadError",
    "Peer",
    "Protocol",
    "ProtocolFault",
    "Receipt",
    "RetransmissionPolicy",
    "RmVersion",
    "Sender",
    "SequenceFailed",
    "Service",
    "Settings",
    "SoapVersion",
    "SourcePolicy",
    "StorageError",
    "Transaction",
    "TransportError",
    "TwoWay",
    "Waited",
    "Xml",
    "events",
    "operation",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'mercury' has no attribute {name!r}")
    if name == "events":
        return import_module("mercury.engine.events")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
