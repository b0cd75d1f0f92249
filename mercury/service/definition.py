"""Services: sets of Python functions, each an operation.

The types of a function say everything: a dataclass (or ``bytes`` for the raw body) comes in, a dataclass, ``bytes``
or nothing goes out, a `MessageContext` or a `Transaction` may be asked for.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from mercury.engine.application import Callback, MessageContext, Operation
from mercury.engine.registry import Registry
from mercury.errors import ApplicationFault, ConfigurationError, MercuryError, PayloadError
from mercury.statemachine.bounds import KEY_BYTES, storable
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.application import Transaction
from mercury.wire.bodies import read_body, write_body
from mercury.wire.envelope import Payload
from mercury.wire.mapping import check_type, element_name
from mercury.wire.mapping_fields import is_mapped

#: The namespace of services and messages that name none of their own.
DEFAULT_NAMESPACE = "urn:mercury:app"

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Service:
    """A named set of operations.

    :param name: the last part of the endpoint's path; letters, digits, ``-``, ``_`` and ``.``.
    :param namespace: the XML namespace of the bodies, and the beginning of the actions.
    :param policy: how the sequences at this service are treated; left out, as the settings say.
    :param understands: header blocks, in Clark notation, that may come with mustUnderstand.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        policy: DestinationPolicy | None = None,
        understands: Iterable[str] = (),
    ) -> None:
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            raise ConfigurationError(f"not a name for a service: {name!r} (letters, digits, '-', '_' and '.')")
        storable(KEY_BYTES, name=name)
        self.name = name
        self.namespace = namespace
        self.policy = policy
        self.understands = tuple(understands)
        self._operations: list[Operation] = []

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

        :param name: the operation's name, and that of the body's element; left out, the operation is named after its
            function, and the element after the body's class (after the function if the body is raw XML).
        :param action: wsa:Action of requests; left out, ``<namespace>/<name of the element>``.
        :param response_action: wsa:Action of responses; left out, the action with ``Response`` behind.
        :raises ConfigurationError: the function's types say nothing that can be carried.
        """

        def register(function: Handler) -> Handler:
            given = name if isinstance(name, str) else None
            self._operations.append(self._read(function, given, action, response_action))
            return function

        return register(name) if callable(name) else register

    def register_with(self, registry: Registry) -> None:
        """Make the operations known to an engine.

        :raises ConfigurationError: there are none, or two have the same action.
        """
        if not self._operations:
            raise ConfigurationError(f"service {self.name!r} has no operation")
        registry.add_service(self.name, self._operations, policy=self.policy, understands=self.understands)

    def _read(
        self, function: Callable[..., Any], name: str | None, action: str | None, response_action: str | None
    ) -> Operation:
        signature = Signature.of(function)
        if signature.body is None:
            raise ConfigurationError(f"{signature.name}: a parameter for the body is needed (a dataclass or bytes)")
        element = name or (element_name(signature.body) if signature.body is not bytes else function.__name__)
        action = action or f"{self.namespace}/{element}"
        answers = signature.returns is not type(None)
        namespace = self.namespace

        def call(context: MessageContext, payload: Payload) -> Payload | None:
            try:
                body = read_body(payload, signature.body or bytes, namespace)
            except PayloadError as error:
                raise ApplicationFault(f"the request cannot be read: {error}", code="BadRequest") from error
            result = function(**signature.arguments(context, body))
            return write_body(result, namespace) if answers else None

        return Operation(
            name=name or function.__name__,
            element=element,
            action=action,
            response_action=(response_action or f"{action}Response") if answers else None,
            call=call,
        )


def read_callback(function: Callable[..., Any], namespace: str | None = None) -> Callback:
    """A callback for responses, from a function of the same form as a handler.

    A function whose body parameter also takes `ApplicationFault` (``OrderPlaced | ApplicationFault``) is given the
    fault that came instead of a response; with any other function the fault is raised, so that it becomes a failure
    that is tried again and reported.

    :raises ConfigurationError: the function's types say nothing that can be carried.
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
    """What a function's types say."""

    name: str
    #: Parameter names by what goes in.
    context: str | None
    transaction: str | None
    body_parameter: str | None
    #: A dataclass or ``bytes``.
    body: type[Any] | None
    takes_faults: bool
    returns: type[Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Read a function.

        :raises ConfigurationError: it is asynchronous, or a type is missing or not one of those that can be carried.
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
                raise ConfigurationError(f"{name}: *{parameter.name} says nothing about what goes in")
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
                body, faults = _body_type(kind, f"{name}: parameter {parameter.name!r}")
        returns = hints.get("return", type(None))
        if returns is not type(None):
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
    """The dataclass or ``bytes`` of an annotation, and whether it also takes faults."""
    members = typing.get_args(kind) if typing.get_origin(kind) is not None else (kind,)
    faults = any(member is ApplicationFault for member in members)
    bodies = [member for member in members if member is not ApplicationFault]
    if not bodies and faults:
        return None, True
    if len(bodies) != 1 or not isinstance(bodies[0], type):
        raise ConfigurationError(f"{what}: {kind!r} cannot be carried; a dataclass or bytes can")
    if bodies[0] is not bytes:
        if not is_mapped(bodies[0]):
            raise ConfigurationError(
                f"{what}: {bodies[0].__qualname__} is not a dataclass (nor a pydantic model, nor bytes)"
            )
        check_type(bodies[0])
    return bodies[0], faults
