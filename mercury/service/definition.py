"""Services: sets of Python functions, each an operation.

The type hints of a function define its operation. The parameter of a dataclass type (or ``bytes`` for the raw body)
takes the request's body; the return type is a dataclass, ``bytes``, or ``None`` for no response. Parameters of the
types `MessageContext` and `Transaction` are optional and are filled in for each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Required, TypeAlias, TypedDict, TypeVar, overload

from mercury.engine.application import Callback, MessageContext, Operation
from mercury.engine.registry import Registry, is_service_name
from mercury.errors import ApplicationFault, ConfigurationError, MercuryError, PayloadError
from mercury.security.settings import MessageSecurity
from mercury.service.signature import Signature
from mercury.service.wsdl_first import WsdlFirst
from mercury.statemachine.bounds import KEY_BYTES, above, at_least, storable
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.application import Transaction
from mercury.wire.bodies import read_body, write_body
from mercury.wire.envelope import Payload
from mercury.wire.mapping import element_name
from mercury.wire.mapping_plan import has_attachments
from mercury.wire.ns import local_of
from mercury.wire.scan import Limits
from mercury.wsdl.contract import WsdlContract, WsdlOperation

#: The XML namespace of a service or message that sets none.
DEFAULT_NAMESPACE = "urn:mercury:app"

Handler = TypeVar("Handler", bound=Callable[..., Any])
#: Writes the body of a response.
_Write: TypeAlias = Callable[[Any, Limits], Payload]
#: `Operation.call` and `Operation.call_together`
_Call: TypeAlias = Callable[[MessageContext, Payload], Payload | None]
_CallTogether: TypeAlias = Callable[[Sequence[MessageContext], Sequence[Payload]], Sequence[Payload | None]]


class Service:
    """A named set of operations.

    :param name: the last part of the endpoint's path; letters, digits, ``-``, ``_`` and ``.``.
    :param namespace: the XML namespace of the bodies, and the beginning of the actions.
    :param policy: the policy of the sequences at this service; by default the one of the settings.
    :param understands: names of header blocks, in Clark notation, that this service accepts with mustUnderstand.
    :param security: WS-Security that all messages to this service must have, and that its replies have; by default that
        of the settings, if they name this service.
    :param time_limit: seconds that a call of a handler may take, unless its operation says otherwise; see `operation`.
    :raises ConfigurationError: the name is empty, too long, or has other characters; or ``time_limit`` is not above 0.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        policy: DestinationPolicy | None = None,
        understands: Iterable[str] = (),
        security: MessageSecurity | None = None,
        time_limit: float | None = None,
    ) -> None:
        if not is_service_name(name):
            raise ConfigurationError(f"not a name for a service: {name!r} (letters, digits, '-', '_' and '.')")
        storable(KEY_BYTES, name=name)
        self.name = name
        self.namespace = namespace
        self.policy = policy
        self.understands = tuple(understands)
        self.security = security
        if time_limit is not None:
            above(0, time_limit=time_limit)
        #: The time limit of operations that have none of their own.
        self.time_limit = time_limit
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
        self,
        name: str | None = None,
        /,
        *,
        action: str | None = None,
        response_action: str | None = None,
        batch: int | None = None,
        time_limit: float | None = None,
    ) -> Callable[[Handler], Handler]: ...

    def operation(
        self,
        name: str | Handler | None = None,
        /,
        *,
        action: str | None = None,
        response_action: str | None = None,
        batch: int | None = None,
        time_limit: float | None = None,
    ) -> Handler | Callable[[Handler], Handler]:
        """Register a function as an operation; a decorator, with or without arguments.

        :param name: the name of the operation and of the body's element. By default the operation has the function's
            name, and the element the name of the body's class (the function's name if the body is ``bytes``).
        :param action: wsa:Action of requests; by default ``<namespace>/<name of the element>``; ``*`` = every action
            that no other operation of the service has.
        :param response_action: wsa:Action of responses; by default the action followed by ``Response``.
        :param batch: the function takes a list of at most so many requests of one sequence, in order, and returns a
            list of as many responses, or ``None``; also `MessageContext` becomes a list. If a call for several requests
            raises an exception, an `ApplicationFault` too, its work in the transaction is rolled back, and the function
            is called for each request alone, with lists of one. Under AtMostOnce every list has one request.
        :param time_limit: seconds that a call may take; by default the ``time_limit`` of the service. A call is not
            interrupted, but PostgreSQL ends a statement of it that takes longer. If the call took longer, its work in
            the transaction is rolled back, and the attempt has failed.
        :raises ConfigurationError: a parameter or the result has no type, or a type that cannot be a message body; or
            ``batch`` is below 1, or ``time_limit`` is not above 0.
        """
        if time_limit is not None:
            above(0, time_limit=time_limit)

        def register(function: Handler) -> Handler:
            given = name if isinstance(name, str) else None
            found = self._read(function, given, action, response_action, batch)
            limit = self.time_limit if time_limit is None else time_limit
            self._operations.append(replace(found, time_limit=limit))
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
        self,
        function: Callable[..., Any],
        name: str | None,
        action: str | None,
        response_action: str | None,
        batch: int | None,
    ) -> Operation:
        if batch is not None:
            at_least(1, batch=batch)
        signature = Signature.of(function, parsed=self.wsdl is not None, lists=batch is not None)
        if signature.body is None:
            raise ConfigurationError(f"{signature.name}: a parameter for the body is needed (a dataclass or bytes)")
        if self.wsdl is not None:
            if action is not None or response_action is not None:
                raise ConfigurationError(f"{signature.name}: its actions are those of the WSDL")
            return _by_wsdl(self.wsdl, self.wsdl.operation(name or function.__name__), signature, function, batch)
        element = name or (element_name(signature.body) if signature.body is not bytes else function.__name__)
        action = action or f"{self.namespace}/{element}"
        has_response = signature.returns is not type(None)
        namespace, response = self.namespace, signature.returns
        response_element = None if response is bytes or not has_response else element_name(response)
        accepted = (bytes, str) if response is bytes else response

        def read(payload: Payload) -> Any:
            return read_body(payload, signature.body or bytes, namespace, element)

        def write(result: object, limits: Limits) -> Payload:
            if not isinstance(result, accepted):
                shown = f"{type(result).__name__}, not {response.__name__}"
                raise PayloadError(f"{signature.name} has returned {shown}")
            # By the name that the WSDL has; a subclass has another one.
            return write_body(result, namespace, response_element, limits=limits)

        return Operation(
            name=name or function.__name__,
            element=element,
            action=action,
            response_action=(response_action or f"{action}Response") if has_response else None,
            request=signature.body,
            response=response if has_response else bytes,
            takes_attachments=signature.body is not bytes and has_attachments(signature.body),
            **_calls(function, signature, read, write if has_response else None, batch),
        )


def _by_wsdl(
    wsdl: WsdlFirst, given: WsdlOperation, signature: Signature, function: Callable[..., Any], batch: int | None
) -> Operation:
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
        **_calls(function, signature, read, write, batch),
    )


class _Calls(TypedDict, total=False):
    """The fields of an `Operation` that call its handler."""

    call: Required[_Call]
    batch: int
    call_together: _CallTogether


def _calls(
    function: Callable[..., Any],
    signature: Signature,
    read: Callable[[Payload], Any],
    write: _Write | None,
    batch: int | None,
) -> _Calls:
    """The calls of a handler; ``write`` is ``None`` for a one-way operation."""
    if batch is None:
        return {"call": _call(function, signature, read, write)}
    together = _call_together(function, signature, read, write)

    def call(context: MessageContext, payload: Payload) -> Payload | None:
        return together([context], [payload])[0]

    return {"call": call, "batch": batch, "call_together": together}


def _call_together(
    function: Callable[..., Any],
    signature: Signature,
    read: Callable[[Payload], Any],
    write: _Write | None,
) -> _CallTogether:
    """The call of a handler that takes lists."""

    def call(contexts: Sequence[MessageContext], payloads: Sequence[Payload]) -> Sequence[Payload | None]:
        try:
            bodies = [read(payload) for payload in payloads]
        except PayloadError as error:
            raise ApplicationFault(f"the request cannot be read: {error}", code="BadRequest") from error
        results = _called(function, signature, list(contexts), contexts[0].transaction, bodies)
        if write is None:
            return [None] * len(payloads)
        if not isinstance(results, Sequence) or len(results) != len(payloads):
            shown = f"{len(results)} responses" if isinstance(results, Sequence) else type(results).__name__
            raise PayloadError(f"{signature.name} has returned {shown} to {len(payloads)} requests")
        return [write(result, contexts[0].limits) for result in results]

    return call


def _call(
    function: Callable[..., Any],
    signature: Signature,
    read: Callable[[Payload], Any],
    write: _Write | None,
) -> Callable[[MessageContext, Payload], Payload | None]:
    """The handler of an operation; ``write`` is ``None`` for a one-way operation."""

    def call(context: MessageContext, payload: Payload) -> Payload | None:
        try:
            body = read(payload)
        except PayloadError as error:
            raise ApplicationFault(f"the request cannot be read: {error}", code="BadRequest") from error
        result = _called(function, signature, context, context.transaction, body)
        return write(result, context.limits) if write is not None else None

    return call


def _called(
    function: Callable[..., Any], signature: Signature, context: object, transaction: Transaction, body: object
) -> Any:
    """What a function of the application's returns.

    :raises ConfigurationError: it has not run: it is asynchronous, or a generator, behind a decorator maybe, where its
        registration cannot see it.
    """
    result = function(**signature.arguments(context, transaction, body))
    if result is None or not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return result
    if inspect.iscoroutine(result):
        result.close()  # Python would warn that it was never awaited
    what = f"{signature.name} has returned a {type(result).__name__}, and has not run"
    raise ConfigurationError(f"{what}: handlers are ordinary functions; async def is not supported yet")


def read_callback(function: Callable[..., Any], namespace: str | None = None) -> Callback:
    """Make a callback for responses from a function with the same type hints as a handler.

    If the body parameter also accepts `ApplicationFault` (``OrderPlaced | ApplicationFault``), the function is called
    with a fault that came instead of a response. Otherwise the callback raises the fault, and the delivery counts as
    failed: it is retried and reported.

    :raises ConfigurationError: a parameter has no type, or a type that cannot be a message body.
    """
    signature = Signature.of(function, responds=False)
    if signature.body is None and not signature.takes_faults:
        raise ConfigurationError(f"{signature.name}: a parameter for the response is needed (a dataclass or bytes)")

    def call(context: MessageContext, response: Payload | MercuryError) -> None:
        if isinstance(response, MercuryError):
            if not signature.takes_faults:
                raise response
            _called(function, signature, context, context.transaction, response)
            return
        body = read_body(response, signature.body or bytes, namespace)
        _called(function, signature, context, context.transaction, body)

    return call
