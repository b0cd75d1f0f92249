"""The bodies of services made from a WSDL: requests and responses are validated by its schema."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from mercury.errors import ConfigurationError, PayloadError
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import Backoff
from mercury.wire.bodies import read_body, write_body
from mercury.wire.envelope import Payload
from mercury.wire.ns import local_of, namespace_of
from mercury.wire.scan import Limits
from mercury.wsdl.contract import WsdlContract, WsdlOperation
from mercury.wsdl.document import document
from mercury.wsdl.write import PLACE, placed, policy_reference, written_policy
from mercury.wsdl.write_security import RequiredSecurity
from mercury.wsdl.zeep_types import ZeepTypes

log = logging.getLogger("mercury.service")


class Parsed:
    """The type of a body with the type hint ``Any``, which zeep reads or writes."""


class WsdlFirst:
    """The bodies of a service by its WSDL; errors are those of `WsdlContract`."""

    def __init__(self, contract: WsdlContract) -> None:
        self.contract = contract
        self._zeep: ZeepTypes | None = None

    def operation(self, name: str) -> WsdlOperation:
        """An operation by its name, or by that of a function: ``place_order`` is ``PlaceOrder``.

        :raises ConfigurationError: the WSDL has no operation of that name.
        """
        operations = self.contract.operations
        matches = [each for each in operations.values() if _normalized(each.name) == _normalized(name)]
        if name in operations:
            return operations[name]
        if len(matches) == 1:
            return matches[0]
        raise ConfigurationError(f"the WSDL has no operation {name!r}; it has {', '.join(operations) or 'none'}")

    def reader(self, operation: WsdlOperation, kind: type[Any]) -> Callable[[Payload], Any]:
        """Make a function that reads the bodies of requests, and raises `PayloadError` for an invalid one.

        :raises ConfigurationError: zeep is needed and not installed.
        """
        element, types = operation.element, self._types() if kind is Parsed else None

        def read(payload: Payload) -> Any:
            root = self.contract.check(payload.xml, element)
            return types.read(root) if types is not None else read_body(payload, kind, None, local_of(element))

        return read

    def writer(self, operation: WsdlOperation, kind: type[Any]) -> Callable[[Any, Limits], Payload]:
        """Make a function that writes the bodies of responses, and raises `PayloadError` for an invalid one.

        :raises ConfigurationError: zeep is needed and not installed.
        """
        element, types = operation.response_element or "", self._types() if kind is Parsed else None

        def write(value: Any, limits: Limits) -> Payload:
            written = types.write(value, element) if types is not None else value
            payload = write_body(written, namespace_of(element), local_of(element), limits=limits)
            try:
                self.contract.check(payload.xml, element)
            except PayloadError as error:
                raise PayloadError(f"the response of {operation.name} is not valid by its schema: {error}") from error
            return payload

        return write

    def _types(self) -> ZeepTypes:
        if self._zeep is None:
            self._zeep = ZeepTypes(self.contract)
        return self._zeep


def _normalized(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def is_tls(address: str) -> bool:
    return address.casefold().startswith("https:")


class WsdlFirstDocuments:
    """The documents of a service that was made from a WSDL.

    A WSDL without a policy gets the policy that services of typed functions have. If a WSDL has a policy, and it does
    not mention the WS-Security that messages need, the log says so.

    :param policy: the policy of the destination's sequences.
    :param retransmission: the retransmission timers for clients of WS-RM 1.0.
    :param security: what messages need by WS-Security.
    """

    def __init__(
        self,
        contract: WsdlContract,
        policy: DestinationPolicy,
        retransmission: Backoff,
        security: RequiredSecurity | None = None,
    ) -> None:
        if contract.has_policy and security not in (None, RequiredSecurity()) and not contract.mentions_security:
            text = "service %r: messages need WS-Security, and the policy of the given WSDL does not say so"
            log.warning(text, contract.name)
        plain = written_policy(policy, retransmission, security)
        over_tls = written_policy(policy, retransmission, security, over_tls=True)
        # Written once: a GET is answered in the event loop.
        self._plain, self._over_tls = (
            contract.published(PLACE, each, policy_reference()) for each in (plain, over_tls)
        )
        self._schemas = [document(each) for each in contract.schemas.published(PLACE)]

    def wsdl(self, address: str) -> bytes:
        return placed(self._documents(address)[0], address)

    def imported(self, number: int, address: str) -> bytes | None:
        documents = self._documents(address)
        return placed(documents[number], address) if 1 <= number < len(documents) else None

    def schema(self, number: int, address: str) -> bytes | None:
        return placed(self._schemas[number - 1], address) if 1 <= number <= len(self._schemas) else None

    def _documents(self, address: str) -> list[bytes]:
        """The WSDL and what it imports."""
        return self._over_tls if is_tls(address) else self._plain
