"""The public classes of `Mercury.zeep_transport` and `Mercury.azeep_transport`. This module does not import zeep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, NamedTuple, cast

from mercury.client.futures import RawResponse
from mercury.client.results import Receipt, WaitResult
from mercury.client.zeep.calls import Calls, CallStored, callback_reply, future_reply
from mercury.client.zeep.envelopes import Reply
from mercury.client.zeep.parsed_future import ParsedFuture
from mercury.errors import ApplicationFault, ConfigurationError
from mercury.statemachine.protocol import SoapVersion
from mercury.wire.ns import SOAP_VERSION
from mercury.wire.own_thread import in_own_thread


class _Target(NamedTuple):
    """An operation of a zeep client."""

    client: Any
    binding: Any
    operation: Any

    @property
    def soap(self) -> SoapVersion:
        return SOAP_VERSION[self.binding.nsmap["soap-env"]]

    def read(self, reply: Reply) -> Any:
        """Zeep's object for a response; raises zeep's ``Fault``."""
        settings, context = self.client.settings, copy_context()
        # zeep keeps settings per thread: the other thread gets a copy of this thread's.
        names = [each.name for each in settings.__attrs_attrs__ if not each.name.startswith("_")]
        chosen = {name: getattr(settings, name) for name in names}

        def parsed() -> Any:
            with settings(**chosen):
                return self.binding.process_reply(self.client, self.operation, reply)

        return in_own_thread(lambda: context.run(parsed))


class _MercuryMethods:
    """The methods of both transports that a transport of zeep does not have."""

    _calls: Calls
    #: Seconds that a call waits for its response; ``None`` = no limit.
    operation_timeout: float | None

    def correlated(self, correlation: str) -> AbstractContextManager[None]:
        """The calls in the block get a correlation: ``with transport.correlated("order:17"): client.service...``.

        :param correlation: a text that is stored with the message, and passed to the callback that consumes the
            response; at most 2,048 bytes of UTF-8.
        """
        return self._calls.with_options(correlation=correlation)

    def response(
        self, operation: Callable[..., Any], answer: bytes | ApplicationFault, headers: Iterable[bytes] = ()
    ) -> Any:
        """Zeep's object for the response that a callback got.

        :param operation: the operation of the request: ``client.service.Place``.
        :param answer: the callback's body parameter, of the type ``bytes | ApplicationFault``.
        :param headers: ``headers`` of its `MessageContext`, if the WSDL has headers in responses.
        :raises zeep.exceptions.Fault: the answer is a fault.
        :raises ConfigurationError: the operation is not one of a client with this transport.
        """
        target = self._target(operation)
        return target.read(callback_reply(target.soap, answer, headers))

    def _target(self, operation: Any) -> _Target:
        # zeep has no public method to get the binding of an operation.
        proxy, name = getattr(operation, "_proxy", None), getattr(operation, "_op_name", None)
        client = getattr(proxy, "_client", None)
        if client is None or name is None or client.transport is not self:
            raise ConfigurationError(
                f"an operation of a client with this transport is needed, client.service.NAME, not {operation!r}"
            )
        binding = getattr(proxy, "_binding", None)
        assert binding is not None
        return _Target(client, binding, binding.get(name))

    def _future(self, target: _Target, stored: CallStored) -> Future[Any]:
        def parse(raw: Future[RawResponse]) -> Any:
            return target.read(future_reply(target.soap, raw))

        return ParsedFuture(stored.result, parse)


class ZeepTransport(_MercuryMethods):
    """Makes a zeep client reliable; made by `Mercury.zeep_transport`. It is a ``zeep.Transport`` as well.

    A one-way operation returns when the message is stored. An operation with a response waits for at most
    ``operation_timeout`` seconds, and returns zeep's object, or raises zeep's ``Fault``. After a `TimeoutError` the
    request is still stored and will be delivered: do not repeat it. Within ``with mercury.transaction()``, and in a
    handler, a call is part of the transaction. Documents are loaded by zeep's transport.
    """

    def request(self, operation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call an operation without waiting: ``transport.request(client.service.Place, sku="a", qty=1)``.

        Other errors as for `Sender.request`.

        :param operation: an operation with a response; the other arguments are passed to it.
        :returns: a future, which ends with the process. Its result is zeep's object for the response, its exception
            zeep's ``Fault`` or one of `Sender.request`. In a transaction it is resolved after the commit.
        :raises ConfigurationError: the operation is one-way, of another client, or called without
            WS-ReliableMessaging; nothing is stored.
        """
        target = self._target(operation)
        try:
            with self._calls.with_options(future=True):
                operation(*args, **kwargs)
        except CallStored as stored:
            return self._future(target, stored)
        raise AssertionError("the call was not made by this transport")

    def request_with_callback(
        self, operation: Callable[..., Any], callback: str, /, *args: Any, **kwargs: Any
    ) -> Receipt:
        """Call an operation whose response a registered callback consumes, even after a restart.

        Other parameters and errors as for `ZeepTransport.request`.

        :param callback: the name under which the callback is registered. It takes ``bytes | ApplicationFault``, which
            `ZeepTransport.response` converts to zeep's objects.
        :raises ConfigurationError: no callback of that name is registered.
        """
        self._target(operation)
        try:
            with self._calls.with_options(callback=callback):
                operation(*args, **kwargs)
        except CallStored as stored:
            return cast(Receipt, stored.result)
        raise AssertionError("the call was not made by this transport")

    def wait(self, timeout: float | None = None) -> WaitResult:
        """Wait until each message sent through this transport is settled: see `Sender.wait`."""
        return self._calls.wait(timeout)

    def close(self) -> None:
        """End the sequences of this transport when all messages have arrived; a later call starts a new sequence.

        Leaving ``with zeep.Client(...)`` does it.
        """
        self._calls.close()


class AsyncZeepTransport(_MercuryMethods):
    """Makes a ``zeep.AsyncClient`` reliable; made by `Mercury.azeep_transport`.

    It is a ``zeep.transports.AsyncTransport`` as well. It does the same as `ZeepTransport` without blocking the event
    loop: within ``async with mercury.atransaction()`` a call is part of the transaction. Only creating the client
    blocks, while zeep loads documents.
    """

    async def request(self, operation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As `ZeepTransport.request`; await the future's result by ``asyncio.wrap_future(future)``."""
        target = self._target(operation)
        try:
            with self._calls.with_options(future=True):
                await operation(*args, **kwargs)
        except CallStored as stored:
            return self._future(target, stored)
        raise AssertionError("the call was not made by this transport")

    async def request_with_callback(
        self, operation: Callable[..., Any], callback: str, /, *args: Any, **kwargs: Any
    ) -> Receipt:
        """As `ZeepTransport.request_with_callback`."""
        self._target(operation)
        try:
            with self._calls.with_options(callback=callback):
                await operation(*args, **kwargs)
        except CallStored as stored:
            return cast(Receipt, stored.result)
        raise AssertionError("the call was not made by this transport")

    async def wait(self, timeout: float | None = None) -> WaitResult:
        """Wait until each message sent through this transport is settled: see `Sender.wait`."""
        return await self._calls.in_thread(lambda: self._calls.wait(timeout))

    async def close(self) -> None:
        """End the sequences of this transport when all messages have arrived; a later call starts a new sequence.

        Leaving ``async with zeep.AsyncClient(...)`` does it.
        """
        await self._calls.in_thread(self._calls.close)
