"""The parameters and results of the application's functions, read from their type hints."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mercury.engine.application import MessageContext
from mercury.errors import ApplicationFault, ConfigurationError
from mercury.service.wsdl_first import Parsed
from mercury.storage.application import Transaction
from mercury.wire.mapping import check_type
from mercury.wire.mapping_fields import is_mapped


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
    def of(
        cls, function: Callable[..., Any], *, parsed: bool = False, lists: bool = False, responds: bool = True
    ) -> Signature:
        """Read a function's type hints.

        :param parsed: a body may be ``Any``, which becomes `Parsed`.
        :param lists: the context, the body and the result are lists; the types are those of their items.
        :param responds: the result is a response, or ``None``; otherwise it is ignored, and needs no type.
        :raises ConfigurationError: the function is asynchronous, a parameter or the result has no type, or a type
            cannot be a message body.
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
            if lists and kind is not Transaction:
                kind = _item_type(kind, f"{name}: parameter {parameter.name!r}")
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
        if responds and "return" not in hints:
            raise ConfigurationError(f"{name}: the result needs a type: a class, or None for no response")
        returns = hints.get("return", type(None)) if responds else type(None)
        if lists and returns is not type(None):
            returns = _item_type(returns, f"{name}: the result")
        if parsed and returns is Any:
            returns = Parsed
        elif returns is not type(None):
            returned, _ = _body_type(returns, f"{name}: the result")
            returns = returned if returned is not None else type(None)
        return cls(name, context, transaction, body_parameter, body, faults, returns)

    def arguments(self, context: object, transaction: Transaction, body: object) -> Mapping[str, object]:
        """The keyword arguments of one call."""
        given = ((self.context, context), (self.transaction, transaction), (self.body_parameter, body))
        return {name: value for name, value in given if name is not None}


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ConfigurationError(f"{name}: its types cannot be read: {error}") from error


def _item_type(kind: Any, what: str) -> Any:
    """The type of the items of a list.

    :param what: the parameter or result, for the error's text.
    """
    if typing.get_origin(kind) not in (list, Sequence) or len(typing.get_args(kind)) != 1:
        raise ConfigurationError(f"{what}: with batch= it is a list: list[...], not {kind!r}")
    return typing.get_args(kind)[0]


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
