"""Services: sets of Python functions, each an operation.

The type hints of a function define its operation. The parameter of a dataclass type (or ``bytes`` for the raw body)
takes the request's body; the return type is a dataclass, ``bytes``, or ``None`` for no response. Parameters of the
types `MessageContext` and `Transaction` are optional and are filled in for each call.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from mercury.engine.application import Callback, MessageContext, Operation
from mercury.engine.registry import Registry
from mercury.errors import ApplicationFault, ConfigurationError, MercuryError, PayloadError
from mercury.security.settings import MessageSecurity
from mercury.service.wsdl_first import Parsed, WsdlFirst
from mercury.statemachine.bounds import KEY_BYTES, storable
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.application import Transaction
from mercury.wire.bodies import read_body, write_body
from mercury.wire.envelope import Payload
from mercury.wire.mapping import check_type, element_name
from mercury.wire.mapping_fields import is_mapped
from mercury.wire.mapping_plan import has_attachments
from mercury.wire.ns import local_of
from mercury.wsdl.contract import WsdlContract, WsdlOperation

#: The XML namespace of a service or message that sets none.
DEFAULT_NAMESPACE = "urn:mercury:app"

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Service:
    """A named set of operations.

    :param name: the last part of the endpoint's path; letters, digits, ``-``, ``_`` and ``.``.
    :param namespace: the XML namespace of the bodies, and the beginning of the actions.
    :param policy: the policy of the sequences at this service; by default the one of the settings.
    :param understands: names of header blocks, in Clark notation, that this service accepts with mustUnderstand.
    :param security: WS-Security that all messages to this service must have, and that its replies have; by default that
        of the settings, if they name this service.
    :raises ConfigurationError: the name is empty, too long, or has other characters.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        policy: DestinationPolicy | None = None,
        understands: Iterable[str] = (),
        security: MessageSecurity | None = None,
    ) -> None:
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            raise ConfigurationError(f"not a name for a service: {name!r} (letters, digits, '-', '_' and '.')")
        storable(KEY_BYTES, name=name)
        self.name = name
        self.namespace = namespace
        self.policy = policy
        self.understands = tuple(understands)
        self.security = security
        self._operations: list[Operation] = []
        #: The WSDL that the service was made from; ``None`` = its operations come from type hints only.
        self.wsdl: WsdlFirst | None = None

    @classmethod
    def from_wsdl(
        cls,
        source: str | Path | bytes,
        name: str | None = None,
        *,
        port: str | None = None,
        folder: str | Path | None = None,
        policy: DestinationPolicy | None = None,
        understands: Iterable[str] = (),
        security: MessageSecurity | None = None,
    ) -> Service:
        """A service whose operations, actions and bodies are those of a WSDL 1.1.

        `operation` registers the handler of each operation, by the operation's name or by the function's own
        (``place_order`` for ``PlaceOrder``). Bodies and results are dataclasses, pydantic models, ``bytes``, or
        ``Any``: then the handler gets zeep's value, and returns one or a dictionary (the extra ``zeep``). A request
        that is not valid by the schema is answered with the fault ``BadRequest``; an invalid result is an error of the
        handler.

        :param source: the file, or the document itself, which then can import no file.
        :param name: the last part of the endpoint's path; by default the name of the service in the WSDL.
        :param port: the name of the port whose operations are used; by default the first one that is bound to SOAP.
        :param folder: imported WSDLs and schemas are read from files in this folder and below it; by default the folder
            of ``source``.
        :raises ConfigurationError: the WSDL or an import cannot be read, has a document type, or is not below the
            folder; or an operation is not document/literal with one element in each direction.
        """
        contract = WsdlContract(source, port, folder)
        made = Service(
            name or contract.name,
            namespace=contract.namespace,
            policy=policy,
            understands=understands,
            security=security,
        )
        made.wsdl = WsdlFirst(contract)
        return made

    @overload
    def operation(self, name: Handler, /) -> Handler: ...

    @overload
    def operation(
        self, name: str | None = None, /, *, action: str | None = None, response_action: str | None = None
    ) -> Callable[[Handler], Handler]: ...

    def operation(
        self,
        name: str | Handler | None = None,
        /,
        *,
        action: str | None = None,
        response_action: str | None = None,
    ) -> Handler | Callable[[Handler], Handler]:
        """Register a function as an operation; a decorator, with or without arguments.

        :param name: the name of the operation and of the body's element. By default the operation has the function's
            name, and the element the name of the body's class (the function's name if the body is ``bytes``).
        :param action: wsa:Action of requests; by default ``<namespace>/<name of the element>``.
        :param response_action: wsa:Action of responses; by default the action followed by ``Response``.
        :raises ConfigurationError: a parameter or the result has no type, or a type that cannot be a message body.
        """

        def register(function: Handler) -> Handler:
            given = name if isinstance(name, str) else None
            self._operations.append(self._read(function, given, action, response_action))
            return function

        return register(name) if callable(name) else register

    @property
    def operations(self) -> Sequence[Operation]:
        """The registered operations, in the order of registration."""
        return tuple(self._operations)

    @property
    def takes_attachments(self) -> bool:
        """Whether an operation takes binary content in pieces: its body has a field of the type `Attachment`."""
        return any(operation.takes_attachments for operation in self._operations)

    def register_with(self, registry: Registry) -> None:
        """Add the operations to an engine's registry.

        :raises ConfigurationError: the service has no operation, an operation of its WSDL has no handler, or two
            operations have the same action.
        """
        if not self._operations:
            raise ConfigurationError(f"service {self.name!r} has no operation")
        given = {each.name for each in self._operations}
        missing = [] if self.wsdl is None else sorted(self.wsdl.contract.operations.keys() - given)
        if missing:
            raise ConfigurationError(f"service {self.name!r}: no handler for {', '.join(missing)}, which its WSDL has")
        registry.add_service(self.name, self._operations, policy=self.policy, understands=self.understands)

    def _read(
        self, function: Callable[..., Any], name: str | None, action: str | None, response_action: str | None
    ) -> Operation:
        signature = Signature.of(function, parsed=self.wsdl is not None)
        if signature.body is None:
            raise ConfigurationError(f"{signature.name}: a parameter for the body is needed (a dataclass or bytes)")
        if self.wsdl is not None:
            if action is not None or response_action is not None:
                raise ConfigurationError(f"{signature.name}: its actions are those of the WSDL")
            return _by_wsdl(self.wsdl, self.wsdl.operation(name or function.__name__), signature, function)
        element = name or (element_name(signature.body) if signature.body is not bytes else function.__name__)
        action = action or f"{self.namespace}/{element}"
        has_response = signature.returns is not type(None)
        namespace = self.namespace

        def read(payload: Payload) -> Any:
            return read_body(payload, signature.body or bytes, namespace, element)

        def write(result: object) -> Payload:
            return write_body(result, namespace)

        return Operation(
            name=name or function.__name__,
            element=element,
            action=action,
            response_action=(response_action or f"{action}Response") if has_response else None,
            call=_call(function, signature, read, write if has_response else None),
            request=signature.body,
            response=signature.returns if has_response else bytes,
            takes_attachments=signature.body is not bytes and has_attachments(signature.body),
        )


def _by_wsdl(wsdl: WsdlFirst, given: WsdlOperation, signature: Signature, function: Callable[..., Any]) -> Operation:
    has_response = signature.returns is not type(None)
    if has_response is not (given.response_element is not None):
        needed = "a result" if given.response_element is not None else "no result: it is one-way"
        raise ConfigurationError(f"{signature.name}: the operation {given.name} of the WSDL has {needed}")
    read = wsdl.reader(given, signature.body or bytes)
    write = wsdl.writer(given, signature.returns) if has_response else None
    return Operation(
        name=given.name,
        element=local_of(given.element),
        action=given.action,
        response_action=given.response_action,
        call=_call(function, signature, read, write),
    )


def _call(
    function: Callable[..., Any],
    signature: Signature,
    read: Callable[[Payload], Any],
    write: Callable[[Any], Payload] | None,
) -> Callable[[MessageContext, Payload], Payload | None]:
    """The handler of an operation; ``write`` is ``None`` for a one-way operation."""

    def call(context: MessageContext, payload: Payload) -> Payload | None:
        try:
            body = read(payload)
        except PayloadError as error:
            raise ApplicationFault(f"the request cannot be read: {error}", code="BadRequest") from error
        result = function(**signature.arguments(context, body))
        return write(result) if write is not None else None

    return call


def read_callback(function: Callable[..., Any], namespace: str | None = None) -> Callback:
    """Make a callback for responses from a function with the same type hints as a handler.

    If the body parameter also accepts `ApplicationFault` (``OrderPlaced | ApplicationFault``), the function is called
    with a fault that came instead of a response. Otherwise the callback raises the fault, and the delivery counts as
    failed: it is retried and reported.

    :raises ConfigurationError: a parameter has no type, or a type that cannot be a message body.
    """
    signature = Signature.of(function)
    if signature.body is None and not signature.takes_faults:
        raise ConfigurationError(f"{signature.name}: a parameter for the response is needed (a dataclass or bytes)")

    def call(context: MessageContext, response: Payload | MercuryError) -> None:
        if isinstance(response, MercuryError):
            if not signature.takes_faults:
                raise response
            function(**signature.arguments(context, response))
            return
        function(**signature.arguments(context, read_body(response, signature.body or bytes, namespace)))

    return call


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters and result, read from its type hints."""

    name: str
    #: Names of the parameters for the context, the transaction and the body; ``None`` = the function has none.
    context: str | None
    transaction: str | None
    body_parameter: str | None
    #: A dataclass or ``bytes``.
    body: type[Any] | None
    takes_faults: bool
    returns: type[Any]

    @classmethod
    def of(cls, function: Callable[..., Any], *, parsed: bool = False) -> Signature:
        """Read a function's type hints.

        :param parsed: a body may be ``Any``, which becomes `Parsed`.
        :raises ConfigurationError: the function is asynchronous, a parameter has no type, or a type cannot be a
            message body.
        """
        name = getattr(function, "__qualname__", repr(function))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{name}: handlers are ordinary functions; async def is not supported yet")
        hints = _hints(function, name)
        parameters = inspect.signature(function).parameters
        context = transaction = body_parameter = None
        body: type[Any] | None = None
        faults = False
        for parameter in parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ConfigurationError(f"{name}: *{parameter.name} is not supported; name each parameter")
            kind = hints.get(parameter.name, inspect.Parameter.empty)
            if kind is inspect.Parameter.empty:
                raise ConfigurationError(f"{name}: parameter {parameter.name!r} needs a type")
            if kind is MessageContext:
                context = parameter.name
            elif kind is Transaction:
                transaction = parameter.name
            elif body_parameter is not None:
                raise ConfigurationError(f"{name}: two parameters for the body: {body_parameter}, {parameter.name}")
            else:
                body_parameter = parameter.name
                kind = Parsed if parsed and kind is Any else kind
                body, faults = _body_type(kind, f"{name}: parameter {parameter.name!r}")
        returns = hints.get("return", type(None))
        if parsed and returns is Any:
            returns = Parsed
        elif returns is not type(None):
            returned, _ = _body_type(returns, f"{name}: the result")
            returns = returned if returned is not None else type(None)
        return cls(name, context, transaction, body_parameter, body, faults, returns)

    def arguments(self, context: MessageContext, body: object) -> Mapping[str, object]:
        """The keyword arguments of one call."""
        given = ((self.context, context), (self.transaction, context.transaction), (self.body_parameter, body))
        return {name: value for name, value in given if name is not None}


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ConfigurationError(f"{name}: its types cannot be read: {error}") from error


def _body_type(kind: Any, what: str) -> tuple[type[Any] | None, bool]:
    """The dataclass or ``bytes`` of a type hint, and whether the hint also accepts `ApplicationFault`.

    :param what: the parameter or result, for the error's text.
    """
    members = typing.get_args(kind) if typing.get_origin(kind) is not None else (kind,)
    faults = any(member is ApplicationFault for member in members)
    bodies = [member for member in members if member is not ApplicationFault]
    if not bodies and faults:
        return None, True
    if len(bodies) != 1 or not isinstance(bodies[0], type):
        raise ConfigurationError(f"{what}: {kind!r} cannot be a message body; use a dataclass or bytes")
    if bodies[0] not in (bytes, Parsed):
        if not is_mapped(bodies[0]):
            raise ConfigurationError(
                f"{what}: {bodies[0].__qualname__} is not a dataclass (nor a pydantic model, nor bytes)"
            )
        check_type(bodies[0])
    return bodies[0], faults
