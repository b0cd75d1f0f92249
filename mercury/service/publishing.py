"""Publishes the WSDL of an endpoint, the documents that it imports, and its schemas: ``GET ?wsdl``, ``GET ?wsdl=1`` and
``GET ?xsd=1``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote

from mercury.engine.members import JSON_TYPE, QUERY, Members
from mercury.errors import ConfigurationError
from mercury.security.settings import MessageSecurity
from mercury.service.definition import Service
from mercury.service.status_access import host_in
from mercury.service.wsdl_first import WsdlFirstDocuments, is_tls
from mercury.settings import Settings
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import Backoff
from mercury.wsdl.write import OperationDescription, describe, schemas, with_address
from mercury.wsdl.write_security import RequiredSecurity

log = logging.getLogger("mercury.service")

#: The queries for a document, in upper or lower case, as toolkits write them.
_QUERY = re.compile(r"(wsdl|xsd)(?:=([0-9]{0,4}))?", re.IGNORECASE)
XML_TYPE = "text/xml; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"


class Documents(Protocol):
    """The WSDL of a service and its schemas."""

    def wsdl(self, address: str) -> bytes:
        """The WSDL, with ``address`` at each of its ports."""

    def imported(self, number: int, address: str) -> bytes | None:
        """A document that the WSDL imports by its number, from 1. ``None`` = it does not exist."""

    def schema(self, number: int, address: str) -> bytes | None:
        """A schema by its number, from 1; its imports have URLs below ``address``. ``None`` = it does not exist."""


class WrittenDocuments:
    """The documents of a service that is made of typed functions.

    :param policy: the policy of the destination's sequences.
    :param retransmission: the retransmission timers for clients of WS-RM 1.0.
    :param security: what messages need by WS-Security.
    :raises ConfigurationError: two of its operations have elements of the same name and of different classes.
    """

    def __init__(
        self, service: Service, policy: DestinationPolicy, retransmission: Backoff, security: RequiredSecurity
    ) -> None:
        about = service.name, service.namespace, _operations(service), policy, retransmission, security
        self._wsdl = describe(*about)
        self._wsdl_over_tls = describe(*about, over_tls=True)
        self._schemas = schemas(self._wsdl)

    def wsdl(self, address: str) -> bytes:
        return with_address(self._wsdl_over_tls if is_tls(address) else self._wsdl, address)

    def imported(self, number: int, address: str) -> bytes | None:
        del number, address  # it is one document
        return None

    def schema(self, number: int, address: str) -> bytes | None:
        del address  # the schema imports no other one
        return self._schemas[number - 1] if 1 <= number <= len(self._schemas) else None


def documents_of(service: Service, settings: Settings, security: MessageSecurity | None) -> Documents:
    """The documents of a service.

    :param security: WS-Security of its messages; ``None`` = they have none. What a policy cannot say of it is logged.
    :raises ConfigurationError: two of its operations have elements of the same name and of different classes.
    """
    policy, retransmission = service.policy or settings.destination, settings.source.retransmission
    required = _required(service.name, security) if security is not None else RequiredSecurity()
    if service.wsdl is not None:
        return WsdlFirstDocuments(service.wsdl.contract, policy, retransmission, required)
    return WrittenDocuments(service, policy, retransmission, required)


def _required(service: str, security: MessageSecurity) -> RequiredSecurity:
    if security.trusted is not None and security.certificate is None:
        text = "service %r: it has no certificate, so its replies are not signed; its WSDL cannot say so"
        log.warning(text, service)
    return RequiredSecurity(
        user=security.users is not None,
        plain_password=security.plain_password,
        signed=security.trusted is not None,
        encrypted=security.require_encryption,
    )


def _operations(service: Service) -> list[OperationDescription]:
    return [
        OperationDescription(
            name=each.name,
            element=each.element,
            request=each.request,
            action=each.action,
            response_action=each.response_action,
            response_element=f"{each.element}Response" if each.response is bytes else each.response.__name__,
            response=each.response,
        )
        for each in service.operations
    ]


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a GET."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The document that a GET names."""

    kind: Literal["wsdl", "xsd", "members"]
    #: From 1; 0 = the WSDL itself.
    number: int = 0


def wanted(query: bytes) -> Wanted | None:
    """The document that the query of a GET names; ``None`` = none."""
    if query == QUERY.encode():
        return Wanted("members")
    found = _QUERY.fullmatch(query.decode("latin-1"))
    if found is None:
        return None
    if found[1].lower() == "wsdl":
        return Wanted("wsdl", int(found[2] or 0))
    return Wanted("xsd", int(found[2])) if found[2] else None


def page(documents: Documents, which: Wanted, address: str | None) -> Page:
    """The answer to a GET for a document."""
    if address is None:
        return _text(400, "The Host header names no host, and the setting address is not set.")
    try:
        if which == Wanted("wsdl"):
            return Page(200, XML_TYPE, documents.wsdl(address))
        find, name = (documents.schema, "schema") if which.kind == "xsd" else (documents.imported, "imported WSDL")
        found = find(which.number, address)
        return _text(404, f"There is no {name} {which.number}.") if found is None else Page(200, XML_TYPE, found)
    except ConfigurationError as error:
        return _text(400, str(error))


def members_page(members: Members | None, scope: MutableMapping[str, Any]) -> Page:
    """The answer to a GET for the members of a destination.

    :param members: ``None`` = they are not named.
    """
    if members is None:
        return _text(404, "The members are not named here: the setting failover.public_address is not set.")
    return Page(200, JSON_TYPE, members.document(_path_of(scope)))


def no_wsdl(error: ConfigurationError) -> Page:
    """The answer for a service without a WSDL."""
    return _text(500, f"This service has no WSDL: {error}")


def _text(status: int, text: str) -> Page:
    return Page(status, TEXT_TYPE, f"{text}\n".encode())


def address_of(configured: str | None, scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> str | None:
    """The URL of a request's endpoint: below the setting ``address``, or else the URL of the request.

    :param configured: the setting ``address``; ``None`` = not set.
    :param headers: the headers by names in lower case.
    :returns: ``None`` = the setting is not set, and the Host header names no host.
    """
    path = _path_of(scope)
    if configured is None:
        host = headers.get("host", "")
        if not host_in(host):
            return None
        configured = f"{scope.get('scheme', 'http')}://{host}"
    return configured + quote(path)


def _path_of(scope: MutableMapping[str, Any]) -> str:
    """The path of a request, as its client sees it."""
    root, path = scope.get("root_path", ""), str(scope["path"])
    return path if not root or path.startswith(root) else f"{root}{path}"
