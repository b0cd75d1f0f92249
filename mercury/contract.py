"""One description of a service for both sides: typed calls at the client, and a handler for each at the server."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, Unpack, cast, overload

from mercury.client.asynchronous import AsyncTransaction
from mercury.client.life import Life
from mercury.client.results import Receipt
from mercury.client.sender import Sender
from mercury.engine.registry import Registry
from mercury.errors import ConfigurationError
from mercury.service.definition import Service
from mercury.service.signature import Signature
from mercury.storage.application import Transaction
from mercury.wire.mapping import element_name

B = TypeVar("B")
R = TypeVar("R")
Handler = TypeVar("Handler", bound=Callable[..., Any])


class Contract(Service):
    """A service that is declared apart from its handlers: a class with a method for each operation::

        class Orders(Contract):
            @operation
            def place_order(self, order: PlaceOrder) -> OrderPlaced:
                raise NotImplementedError

        orders = Orders("orders")

    The server gives each operation its handler, ``@orders.place_order.handler``, and hosts ``orders`` like any service.
    The client gets typed calls: ``mercury.to(url, service=orders).place_order(PlaceOrder(...))``. Parameters are those
    of `Service`.
    """

    #: Sends the calls; ``None`` = this is the server's side.
    _sender: Sender | None = None

    @property
    def sender(self) -> Sender:
        """Sends the calls; for raw messages, and for `Sender.close` and `Sender.wait`.

        :raises ConfigurationError: it is not from ``mercury.to(url, service=...)``.
        """
        if self._sender is None:
            raise ConfigurationError(
                f"service {self.name!r} is not reached from here: call what mercury.to(url, service=...) gives"
            )
        return self._sender

    def register_with(self, registry: Registry) -> None:
        """Make the operations known to an engine.

        :raises ConfigurationError: there are none, one has no handler, or two have the same action.
        """
        members = (getattr(type(self), name, None) for name in dir(type(self)))
        declared = {each.name for each in members if isinstance(each, _Declared)}
        missing = sorted(declared - {each.name for each in self._operations})
        if missing:
            raise ConfigurationError(
                f"service {self.name!r}: no handler for {', '.join(missing)}: use @{self.name}.{missing[0]}.handler"
            )
        super().register_with(registry)

    def handle(self, name: str, function: Callable[..., Any], action: str, batch: int | None = None) -> None:
        """Give an operation its handler.

        :param batch: as for `Service.operation`.
        :raises ConfigurationError: it has one already, or the types of the function say nothing that can be carried.
        """
        if any(each.name == name for each in self._operations):
            raise ConfigurationError(f"service {self.name!r}: {name} has a handler already")
        found = self._read(function, None, action, None, batch)
        # The element of a raw body is named after the operation, as it is declared, whatever the function is called.
        element = name if found.request is bytes else found.element
        self._operations.append(replace(found, name=name, element=element, time_limit=self.time_limit))


C = TypeVar("C", bound=Contract)


def at(contract: C, sender: Sender) -> C:
    """The same contract, whose calls are sent by ``sender``."""
    bound = copy.copy(contract)
    bound._sender = sender
    return bound


class _Declared:
    """What is declared of an operation."""

    def __init__(self, function: Callable[..., Any], action: str | None) -> None:
        self.name = function.__name__
        self.__doc__ = function.__doc__
        # As a method, so that its first parameter is left out.
        self.signature = Signature.of(types.MethodType(function, object()))
        self._action = action
        where = self.signature.name
        if self.signature.body is None or self.signature.context or self.signature.transaction:
            raise ConfigurationError(f"{where}: an operation is declared with the body alone, and what comes back")

    def action(self, contract: Contract) -> str:
        """wsa:Action of its requests."""
        body = self.signature.body
        element = self.name if body is None or body is bytes else element_name(body)
        return self._action or f"{contract.namespace}/{element}"


class _Call(Generic[B, R]):
    """An operation of one contract."""

    def __init__(self, contract: Contract, declared: _Declared) -> None:
        self._contract = contract
        self._declared = declared

    @property
    def name(self) -> str:
        """The operation's name."""
        return self._declared.name

    @property
    def action(self) -> str:
        """wsa:Action of its messages."""
        return self._declared.action(self._contract)

    @overload
    def handler(self, function: Handler, /) -> Handler: ...

    @overload
    def handler(self, /, *, batch: int) -> Callable[[Handler], Handler]: ...

    def handler(self, function: Callable[..., Any] | None = None, /, *, batch: int | None = None) -> Any:
        """Register the function that the server calls; a decorator, with or without arguments.

        It takes the body that is declared and returns what is declared; it may ask for a `MessageContext` or a
        `Transaction` besides.

        :param batch: the function takes lists of at most so many requests: see `Service.operation`.
        :raises ConfigurationError: its types are not those, or the operation has a handler already.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            declared, given = self._declared.signature, Signature.of(function, lists=batch is not None)
            if (given.body, given.returns) != (declared.body, declared.returns):
                raise ConfigurationError(f"{given.name}: its types are not those of {declared.name}, which it handles")
            self._contract.handle(self.name, function, self.action, batch)
            return function

        return register if function is None else register(function)


class OneWay(_Call[B, None]):
    """An operation without a response: calling it sends the message, and returns when that is stored."""

    def __call__(
        self,
        body: B,
        *,
        tx: Transaction | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """Parameters and errors are those of `Sender.send`."""
        return self._contract.sender.send(
            body, tx=tx, action=self.action, correlation=correlation, headers=headers, **life
        )

    async def asend(
        self,
        body: B,
        *,
        tx: AsyncTransaction | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """The same from an event loop: see `Sender.asend`."""
        return await self._contract.sender.asend(
            body, tx=tx, action=self.action, correlation=correlation, headers=headers, **life
        )


class TwoWay(_Call[B, R]):
    """An operation with a response: calling it sends the request and gives a future for the response."""

    @property
    def _response(self) -> type[R]:
        return cast("type[R]", self._declared.signature.returns)

    def __call__(
        self,
        body: B,
        *,
        tx: Transaction | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Future[R]:
        """Parameters, results and errors are those of `Sender.request`."""
        return self._contract.sender.request(
            body, response=self._response, tx=tx, action=self.action, correlation=correlation, headers=headers, **life
        )

    async def arequest(
        self,
        body: B,
        *,
        timeout: float | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> R:
        """Wait for the response in an event loop: see `Sender.arequest`."""
        return await self._contract.sender.arequest(
            body,
            response=self._response,
            timeout=timeout,
            action=self.action,
            correlation=correlation,
            headers=headers,
            **life,
        )

    def with_callback(
        self,
        body: B,
        callback: str,
        *,
        tx: Transaction | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """A registered callback consumes the response: see `Sender.request_with_callback`."""
        return self._contract.sender.request_with_callback(
            body, callback, tx=tx, action=self.action, correlation=correlation, headers=headers, **life
        )


class _DeclaredOneWay(_Declared, Generic[B]):
    @overload
    def __get__(self, instance: None, owner: type[Contract]) -> _DeclaredOneWay[B]: ...

    @overload
    def __get__(self, instance: Contract, owner: type[Contract]) -> OneWay[B]: ...

    def __get__(self, instance: Contract | None, owner: type[Contract]) -> _DeclaredOneWay[B] | OneWay[B]:
        return self if instance is None else OneWay(instance, self)


class _DeclaredTwoWay(_Declared, Generic[B, R]):
    @overload
    def __get__(self, instance: None, owner: type[Contract]) -> _DeclaredTwoWay[B, R]: ...

    @overload
    def __get__(self, instance: Contract, owner: type[Contract]) -> TwoWay[B, R]: ...

    def __get__(self, instance: Contract | None, owner: type[Contract]) -> _DeclaredTwoWay[B, R] | TwoWay[B, R]:
        return self if instance is None else TwoWay(instance, self)


class _Declares(Protocol):
    """What ``operation(action=...)`` gives."""

    @overload  # a result of ``None`` is a result too, to the type checker: the first one counts
    def __call__(self, function: Callable[[Any, B], None], /) -> _DeclaredOneWay[B]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[[Any, B], R], /) -> _DeclaredTwoWay[B, R]: ...


@overload
def operation(*, action: str) -> _Declares: ...


@overload
def operation(function: Callable[[Any, B], None], /) -> _DeclaredOneWay[B]: ...  # type: ignore[overload-overlap]


@overload
def operation(function: Callable[[Any, B], R], /) -> _DeclaredTwoWay[B, R]: ...


def operation(function: Callable[[Any, Any], Any] | None = None, /, *, action: str | None = None) -> Any:
    """Declare an operation of a `Contract`; a decorator, with or without arguments. It is named after its function.

    The function is never called. Its types say what is sent and what comes back: dataclasses, pydantic models, or
    ``bytes`` for raw XML; ``None`` comes back from a one-way operation.

    :param action: wsa:Action of requests; left out, ``<namespace>/<element>``, where the element has the name of the
        body's class (of the operation if the body is raw XML).
    :raises ConfigurationError: its types say nothing that can be carried.
    """
    return partial(_declare, action=action) if function is None else _declare(function, action)


def _declare(function: Callable[[Any, Any], Any], action: str | None) -> _Declared:
    declared: type[_Declared] = _DeclaredTwoWay
    if Signature.of(types.MethodType(function, object())).returns is type(None):
        declared = _DeclaredOneWay
    return declared(function, action)
