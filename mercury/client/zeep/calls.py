"""The common part of both transports: finds the operation of a zeep call, stores the call, returns its response."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from lxml import etree

from mercury.client.asynchronous import AsyncTransaction
from mercury.client.current import CurrentTransaction
from mercury.client.futures import RawResponse
from mercury.client.results import Receipt, WaitResult
from mercury.client.sender import Sender
from mercury.client.sender_port import SenderPort
from mercury.client.zeep.envelopes import Outbound, Reply, fault_reply, read_envelope, reply
from mercury.client.zeep.wsdl import Operation, Wsdl
from mercury.errors import ApplicationFault, ConfigurationError, MercuryError
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import Protocol as Versions
from mercury.statemachine.protocol import SoapVersion
from mercury.storage.application import Transaction

log = logging.getLogger("mercury.client")

T = TypeVar("T")

#: The reply to a one-way call: accepted, without a body.
STORED = Reply(status_code=202)
#: HTTP headers of zeep that repeat data of the envelope.
_OF_THE_ENVELOPE = frozenset({"soapaction", "content-type"})


class Connect(Protocol):
    """Makes a sender: `Mercury.to`."""

    def __call__(
        self, url: str, *, key: str, policy: SourcePolicy, listen: bool | None, wsa_to: str | None
    ) -> Sender: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """Options of the calls in a block."""

    correlation: str | None = None
    #: Do not wait for the response: a future, or the callback of this name, gets it.
    future: bool = False
    callback: str | None = None

    @property
    def waits(self) -> bool:
        return not self.future and self.callback is None


#: An ordinary call waits for its response.
ORDINARY = Choice()


class CallStored(Exception):
    """Raised after storing a call whose response is not waited for: it ends zeep's call before zeep reads a reply."""

    def __init__(self, result: Any) -> None:
        super().__init__("the call is stored")
        #: The future of the raw response, or the `Receipt` if a callback consumes the response.
        self.result = result


@dataclass(frozen=True, slots=True)
class _Terms:
    """The policy for an endpoint, and whether it posts its responses; ``None`` = either."""

    policy: SourcePolicy
    listen: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call to be stored."""

    operation: Operation
    sender: Sender
    body: bytes | None
    action: str
    headers: tuple[bytes, ...]
    choice: Choice

    @property
    def arguments(self) -> dict[str, Any]:
        return {"action": self.action, "headers": self.headers, "correlation": self.choice.correlation}

    def send(self, tx: Transaction | None) -> None:
        self.sender.send(self.body, tx=tx, **self.arguments)

    def request(self, tx: Transaction | None) -> Future[RawResponse]:
        return self.sender.request(self.body, response=RawResponse, tx=tx, **self.arguments)

    def store(self, tx: Transaction | None) -> Future[RawResponse] | Receipt:
        """Store the call without waiting for its response."""
        if self.choice.callback is None:
            return self.request(tx)
        return self.sender.request_with_callback(self.body, self.choice.callback, tx=tx, **self.arguments)


class Calls:
    """The calls that go through one transport. Thread-safe.

    :param current: the transactions whose blocks callers are in.
    :param key: the internal key of the messages; if wsa:To differs from the URL, it is appended to the key.
    :param policy: used where the WSDL's policy has no assertion; the SOAP version is that of each envelope.
    :param listen: whether peers post responses here; ``None`` = as the WSDL's policy says, by default as `Mercury.to`.
    :param reliable: whether calls are reliable; ``None`` = as the WSDL's policy says, by default yes.
    """

    def __init__(
        self,
        port: SenderPort,
        current: CurrentTransaction,
        connect: Connect,
        *,
        key: str,
        policy: SourcePolicy,
        listen: bool | None,
        reliable: bool | None,
    ) -> None:
        self._wsdl = Wsdl()
        self.choice: ContextVar[Choice] = ContextVar("mercury-zeep-choice")
        self._port = port
        self._current = current
        self._connect = connect
        self._key = key
        self._policy = policy
        self._listen = listen
        self._reliable = reliable
        self._mutex = threading.Lock()
        self._senders: dict[tuple[str, Versions, str | None], Sender] = {}
        self._warned: set[tuple[str, str]] = set()

    @property
    def senders(self) -> tuple[Sender, ...]:
        with self._mutex:
            return tuple(self._senders.values())

    @contextmanager
    def with_options(self, **changes: Any) -> Iterator[None]:
        """Make the calls in the block with other options."""
        token = self.choice.set(replace(self.choice.get(ORDINARY), **changes))
        try:
            yield
        finally:
            self.choice.reset(token)

    def loaded(self, document: bytes) -> None:
        """Read a document that zeep has loaded."""
        self._wsdl.add(document)

    def read(self, address: str, envelope: etree._Element, headers: Mapping[str, str]) -> Call | None:
        """The call of an envelope; ``None`` = the call is made without WS-ReliableMessaging.

        :raises ConfigurationError: the operation is unknown, or cannot be called in this way; nothing is stored.
        """
        choice = self.choice.get(ORDINARY)
        if self._reliable is False:
            _refuse_choice(address, choice)
            return None
        outbound = read_envelope(envelope, headers)
        operation = self._wsdl.find(address, outbound.soap, outbound.soap_action, outbound.element)
        terms = self._terms(operation, address)
        if terms is None:
            self._warn_once(
                address, "plain", "%s: its policy has no WS-ReliableMessaging assertion: it is called without"
            )
            _refuse_choice(address, choice)
            return None
        if operation.one_way and not choice.waits:
            raise ConfigurationError(f"{operation.name} is one-way: it has no response; call it, and it is stored")
        for name in headers:
            if name.lower() not in _OF_THE_ENVELOPE:
                self._warn_once(
                    address, name, "%s: the HTTP header %s is not sent with reliable messages: name it in peers="
                )
        return Call(
            operation=operation,
            sender=self._sender(address, terms, outbound),
            body=outbound.body,
            action=outbound.action or operation.action,
            headers=outbound.headers,
            choice=choice,
        )

    def post(self, call: Call, timeout: float | None) -> Reply:
        """Store a call, and wait for its response if it has one.

        :raises CallStored: the call is stored, and its response is not to be waited for.
        """
        tx = self._current.find()
        if isinstance(tx, AsyncTransaction):
            raise ConfigurationError(
                "a client that blocks cannot be part of an asynchronous transaction: use zeep.AsyncClient with "
                "mercury.azeep_transport(), or call it within tx.run_sync(...)"
            )
        part_of = cast("Transaction | None", tx)
        if not call.choice.waits:
            raise CallStored(call.store(part_of))
        if call.operation.one_way:
            call.send(part_of)
            return STORED
        self._refuse_waiting(call, tx)
        future = call.request(None)
        try:
            return _answer(call.operation.soap, future.result(timeout))
        except ApplicationFault as fault:
            return fault_reply(call.operation.soap, fault)
        finally:
            self._port.futures.forget_futures([future])

    async def apost(self, call: Call, timeout: float | None) -> Reply:
        """As `post`, from an event loop."""
        tx = self._current.find()
        if not call.choice.waits:
            raise CallStored(await self._stored(tx, call.store))
        if call.operation.one_way:
            await self._stored(tx, call.send)
            return STORED
        self._refuse_waiting(call, tx)
        try:
            found = await call.sender.arequest(call.body, response=RawResponse, timeout=timeout, **call.arguments)
        except ApplicationFault as fault:
            return fault_reply(call.operation.soap, fault)
        return _answer(call.operation.soap, found)

    def wait(self, timeout: float | None) -> WaitResult:
        """Wait for the messages of all senders: see `Sender.wait`."""
        until = None if timeout is None else time.monotonic() + timeout
        found = [sender.wait(None if until is None else max(0.0, until - time.monotonic())) for sender in self.senders]
        return WaitResult(
            settled=all(each.settled for each in found),
            left=sum(each.left for each in found),
            last_error=next((each.last_error for each in found if each.last_error), ""),
            letters=tuple(letter for each in found for letter in each.letters),
        )

    def close(self) -> None:
        """End the sequences when all messages have arrived: see `Sender.close`."""
        for sender in self.senders:
            if sender.pending or sender.status():  # else its calls were refused or rolled back
                sender.close()

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Call a function that reads the store, outside the event loop."""
        return await self._port.threads.call(function)

    # --- within ----------------------------------------------------------------------------------------------------

    def _terms(self, operation: Operation, address: str) -> _Terms | None:
        """The terms of an endpoint; ``None`` = its policy has no WS-ReliableMessaging assertion."""
        base = replace(self._policy, protocol=replace(self._policy.protocol, soap=operation.soap))
        required = self._wsdl.requirements(operation, address)
        if required is None or not required.attached or required.missing:
            return _Terms(base, None)
        chosen = required.choose(base.protocol)
        if chosen is None:
            raise ConfigurationError(f"{address}: its policy has no alternative, so no client can call it")
        if chosen.reliability is None and not self._reliable:
            return None
        for each in chosen.unsupported:
            self._warn_once(address, each, "%s: its policy requires a feature that Mercury does not support: %s")
        secured = self._port.security_of(address)
        for name in chosen.security:
            if secured is None or not getattr(secured, name):
                self._warn_once(address, name, "%s: its policy requires WS-Security: set security.%s for it")
        listen = None if chosen.anonymous is None else not chosen.anonymous
        return _Terms(required.source_policy(base), listen)

    def _sender(self, address: str, terms: _Terms, outbound: Outbound) -> Sender:
        wsa_to = None if outbound.to in (None, address) else outbound.to
        which = (address, terms.policy.protocol, wsa_to)
        with self._mutex:
            sender = self._senders.get(which)
            if sender is None:
                key = self._key if wsa_to is None else f"{self._key} to {wsa_to}"
                listen = terms.listen if self._listen is None else self._listen
                sender = self._connect(address, key=key, policy=terms.policy, listen=listen, wsa_to=wsa_to)
                self._senders[which] = sender
        return sender

    def _warn_once(self, address: str, what: str, text: str) -> None:
        with self._mutex:
            if (address, what) in self._warned:
                return
            self._warned.add((address, what))
        log.warning(text, *(address, what)[: text.count("%s")])

    def _refuse_waiting(self, call: Call, tx: object | None) -> None:
        """:raises MercuryError: the response cannot come while the caller waits for it; nothing is stored."""
        name = call.operation.name
        if tx is not None:
            raise ConfigurationError(
                f"{name} is answered after the commit, so its response cannot be waited for inside the transaction: "
                f"use transport.request(client.service.{name}, ...), which gives a future, or a callback"
            )
        idle = self._port.why_not_running
        if idle is not None:
            raise MercuryError(f"no response to {name} can come: {idle}")

    async def _stored(self, tx: object | None, function: Callable[[Transaction | None], T]) -> T:
        stored: Awaitable[T]
        if isinstance(tx, AsyncTransaction):
            stored = tx.run_sync(function)
        elif tx is not None:
            return function(cast(Transaction, tx))
        else:
            stored = self._port.threads.in_transaction(self._port.store, self._port.send_in, function)
        return await stored


def future_reply(soap: SoapVersion, raw: Future[RawResponse]) -> Reply:
    """The response as the HTTP reply that zeep reads.

    :raises Exception: that of the future, unless it is an `ApplicationFault`.
    """
    try:
        return _answer(soap, raw.result())
    except ApplicationFault as fault:
        return fault_reply(soap, fault)


def callback_reply(soap: SoapVersion, answer: bytes | ApplicationFault, headers: Iterable[bytes]) -> Reply:
    """The answer that a callback got, as the HTTP reply that zeep reads."""
    return reply(soap, answer, headers) if isinstance(answer, bytes) else fault_reply(soap, answer)


def _answer(soap: SoapVersion, response: RawResponse) -> Reply:
    return reply(soap, response.xml, response.headers)


def _refuse_choice(address: str, choice: Choice) -> None:
    if not choice.waits:
        raise ConfigurationError(
            f"{address} is called without WS-ReliableMessaging: the caller must wait for its response"
        )
