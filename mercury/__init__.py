"""WS-ReliableMessaging middleware with a transactional store: exactly once, in order, between two applications.

The names here are the public ones; they are loaded when they are first used, so that a part of Mercury can be
imported without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercury.client.asynchronous import AsyncTransaction
    from mercury.client.dead_letters import Redriven
    from mercury.client.life import Life
    from mercury.client.results import Receipt, WaitResult
    from mercury.client.sender import Sender
    from mercury.client.zeep.public import AsyncZeepTransport, ZeepTransport
    from mercury.console.settings import ConsoleSettings
    from mercury.console.users import ConsoleAccess, ConsoleRole, ConsoleUser
    from mercury.contract import Contract, OneWay, TwoWay, operation
    from mercury.engine import events
    from mercury.engine.address_book import FailoverSettings
    from mercury.engine.addresses import AddressPolicy
    from mercury.engine.application import MessageContext
    from mercury.engine.discovery_settings import DiscoverySettings
    from mercury.engine.lateness import WatchSettings
    from mercury.engine.log_settings import LogSettings
    from mercury.engine.membership import MemberRole
    from mercury.engine.metrics_settings import MetricsSettings
    from mercury.engine.rates import RateSettings
    from mercury.engine.runtime.credentials import CredentialSettings
    from mercury.engine.runtime.peers import Peer, TlsSettings
    from mercury.engine.runtime.retention import RetentionSettings
    from mercury.engine.runtime.security_settings import SecuritySettings
    from mercury.engine.runtime.threads import RuntimeSettings
    from mercury.engine.settings import EngineSettings
    from mercury.engine.stage_room import StageSettings
    from mercury.engine.status import SequenceStatus
    from mercury.engine.traces_settings import TracesSettings
    from mercury.errors import (
        ApplicationFault,
        CapabilityError,
        ConfigurationError,
        Conflict,
        DataError,
        MercuryError,
        NotActive,
        NotAuthenticated,
        OutcomeUnknown,
        Overloaded,
        PayloadError,
        ProtocolFault,
        SequenceEnded,
        SequenceError,
        SequenceFailed,
        StorageError,
        TransientStorageError,
        TransportError,
    )
    from mercury.facade import Mercury
    from mercury.security.settings import MessageSecurity
    from mercury.service.accounts import Accounts
    from mercury.service.definition import Service
    from mercury.service.identity import Authenticate, HttpRequest
    from mercury.settings import HttpSettings, Settings, XaSettings
    from mercury.statemachine.effects import Certainty
    from mercury.statemachine.events import FailureReason
    from mercury.statemachine.faults import Fault, FaultCode, Subcode
    from mercury.statemachine.messages import IncompleteSequenceBehavior
    from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy, OnFailure, SourcePolicy
    from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
    from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy
    from mercury.statemachine.rmd_table import RmdState
    from mercury.statemachine.rms_table import RmsState
    from mercury.statemachine.trace import Trace
    from mercury.storage.application import Ending, Outcome, Transaction
    from mercury.storage.letters import DeadLetter, Direction, LetterCount, LetterFilter
    from mercury.storage.xa.recovery import InDoubt, InDoubtBranch
    from mercury.wire.attachment import Attachment
    from mercury.wire.mapping import Attribute, Xml
    from mercury.wire.scan import Limits

_WHERE = {
    "Accounts": "mercury.service.accounts",
    "AcknowledgeAt": "mercury.statemachine.policy",
    "AddressPolicy": "mercury.engine.addresses",
    "AddressingVersion": "mercury.statemachine.protocol",
    "ApplicationFault": "mercury.errors",
    "AsyncTransaction": "mercury.client.asynchronous",
    "AsyncZeepTransport": "mercury.client.zeep.public",
    "Attachment": "mercury.wire.attachment",
    "Attribute": "mercury.wire.mapping",
    "Authenticate": "mercury.service.identity",
    "Backoff": "mercury.statemachine.retransmission",
    "CapabilityError": "mercury.errors",
    "Certainty": "mercury.statemachine.effects",
    "ConfigurationError": "mercury.errors",
    "Conflict": "mercury.errors",
    "ConsoleAccess": "mercury.console.users",
    "ConsoleRole": "mercury.console.users",
    "ConsoleSettings": "mercury.console.settings",
    "ConsoleUser": "mercury.console.users",
    "Contract": "mercury.contract",
    "CredentialSettings": "mercury.engine.runtime.credentials",
    "DataError": "mercury.errors",
    "DeadLetter": "mercury.storage.letters",
    "DeliveryAssurance": "mercury.statemachine.policy",
    "DestinationPolicy": "mercury.statemachine.policy",
    "Direction": "mercury.storage.letters",
    "Ending": "mercury.storage.application",
    "EngineSettings": "mercury.engine.settings",
    "DiscoverySettings": "mercury.engine.discovery_settings",
    "FailoverSettings": "mercury.engine.address_book",
    "FailureReason": "mercury.statemachine.events",
    "Fault": "mercury.statemachine.faults",
    "FaultCode": "mercury.statemachine.faults",
    "HttpRequest": "mercury.service.identity",
    "HttpSettings": "mercury.settings",
    "InDoubt": "mercury.storage.xa.recovery",
    "InDoubtBranch": "mercury.storage.xa.recovery",
    "IncompleteSequenceBehavior": "mercury.statemachine.messages",
    "LetterCount": "mercury.storage.letters",
    "LetterFilter": "mercury.storage.letters",
    "Life": "mercury.client.life",
    "Limits": "mercury.wire.scan",
    "LogSettings": "mercury.engine.log_settings",
    "MemberRole": "mercury.engine.membership",
    "Mercury": "mercury.facade",
    "MercuryError": "mercury.errors",
    "MessageContext": "mercury.engine.application",
    "MessageSecurity": "mercury.security.settings",
    "MetricsSettings": "mercury.engine.metrics_settings",
    "NotActive": "mercury.errors",
    "NotAuthenticated": "mercury.errors",
    "OnFailure": "mercury.statemachine.policy",
    "OneWay": "mercury.contract",
    "Outcome": "mercury.storage.application",
    "OutcomeUnknown": "mercury.errors",
    "Overloaded": "mercury.errors",
    "PayloadError": "mercury.errors",
    "Peer": "mercury.engine.runtime.peers",
    "Protocol": "mercury.statemachine.protocol",
    "ProtocolFault": "mercury.errors",
    "RateSettings": "mercury.engine.rates",
    "Receipt": "mercury.client.results",
    "Redriven": "mercury.client.dead_letters",
    "RetentionSettings": "mercury.engine.runtime.retention",
    "RetransmissionPolicy": "mercury.statemachine.retransmission",
    "RmVersion": "mercury.statemachine.protocol",
    "RmdState": "mercury.statemachine.rmd_table",
    "RmsState": "mercury.statemachine.rms_table",
    "RuntimeSettings": "mercury.engine.runtime.threads",
    "SecuritySettings": "mercury.engine.runtime.security_settings",
    "Sender": "mercury.client.sender",
    "SequenceEnded": "mercury.errors",
    "SequenceError": "mercury.errors",
    "SequenceFailed": "mercury.errors",
    "SequenceStatus": "mercury.engine.status",
    "Service": "mercury.service.definition",
    "Settings": "mercury.settings",
    "SoapVersion": "mercury.statemachine.protocol",
    "SourcePolicy": "mercury.statemachine.policy",
    "StageSettings": "mercury.engine.stage_room",
    "StorageError": "mercury.errors",
    "Subcode": "mercury.statemachine.faults",
    "TlsSettings": "mercury.engine.runtime.peers",
    "Trace": "mercury.statemachine.trace",
    "TracesSettings": "mercury.engine.traces_settings",
    "Transaction": "mercury.storage.application",
    "TransientStorageError": "mercury.errors",
    "TransportError": "mercury.errors",
    "TwoWay": "mercury.contract",
    "WaitResult": "mercury.client.results",
    "WatchSettings": "mercury.engine.lateness",
    "XaSettings": "mercury.settings",
    "Xml": "mercury.wire.mapping",
    "ZeepTransport": "mercury.client.zeep.public",
    "events": "mercury.engine",
    "operation": "mercury.contract",
}

__all__ = [
    "Accounts",
    "AcknowledgeAt",
    "AddressPolicy",
    "AddressingVersion",
    "ApplicationFault",
    "AsyncTransaction",
    "AsyncZeepTransport",
    "Attachment",
    "Attribute",
    "Authenticate",
    "Backoff",
    "CapabilityError",
    "Certainty",
    "ConfigurationError",
    "Conflict",
    "ConsoleAccess",
    "ConsoleRole",
    "ConsoleSettings",
    "ConsoleUser",
    "Contract",
    "CredentialSettings",
    "DataError",
    "DeadLetter",
    "DeliveryAssurance",
    "DestinationPolicy",
    "Direction",
    "DiscoverySettings",
    "Ending",
    "EngineSettings",
    "FailoverSettings",
    "FailureReason",
    "Fault",
    "FaultCode",
    "HttpRequest",
    "HttpSettings",
    "InDoubt",
    "InDoubtBranch",
    "IncompleteSequenceBehavior",
    "LetterCount",
    "LetterFilter",
    "Life",
    "Limits",
    "LogSettings",
    "MemberRole",
    "Mercury",
    "MercuryError",
    "MessageContext",
    "MessageSecurity",
    "MetricsSettings",
    "NotActive",
    "NotAuthenticated",
    "OnFailure",
    "OneWay",
    "Outcome",
    "OutcomeUnknown",
    "Overloaded",
    "PayloadError",
    "Peer",
    "Protocol",
    "ProtocolFault",
    "RateSettings",
    "Receipt",
    "Redriven",
    "RetentionSettings",
    "RetransmissionPolicy",
    "RmVersion",
    "RmdState",
    "RmsState",
    "RuntimeSettings",
    "SecuritySettings",
    "Sender",
    "SequenceEnded",
    "SequenceError",
    "SequenceFailed",
    "SequenceStatus",
    "Service",
    "Settings",
    "SoapVersion",
    "SourcePolicy",
    "StageSettings",
    "StorageError",
    "Subcode",
    "TlsSettings",
    "Trace",
    "TracesSettings",
    "Transaction",
    "TransientStorageError",
    "TransportError",
    "TwoWay",
    "WaitResult",
    "WatchSettings",
    "XaSettings",
    "Xml",
    "ZeepTransport",
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
