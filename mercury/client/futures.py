"""Futures for responses in this process, by the MessageID of the request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

from mercury.engine.application import FUTURE, Callback, MessageContext
from mercury.engine.events import DeadLettered
from mercury.errors import MercuryError, PayloadError, SequenceFailed, named
from mercury.storage.application import Ending, Transaction
from mercury.storage.letters import Direction
from mercury.wire.bodies import read_body
from mercury.wire.envelope import Payload
from mercury.wire.mapping import check_type


class _ResponseFuture(Future[Any]):
    """A future whose `TimeoutError` has the state of the request. It fails immediately if no engine runs."""

    def __init__(self, message_id: str, state: Callable[[], str], idle: Callable[[], str | None]) -> None:
        super().__init__()
        self.message_id = message_id
        self._state_of_request = state
        self._why_idle = idle

    def result(self, timeout: float | None = None) -> Any:
        with self._explaining(timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        with self._explaining(timeout):
            return super().exception(timeout)

    @contextmanager
    def _explaining(self, timeout: float | None) -> Iterator[None]:
        self.refuse_idle()
        try:
            yield
        except TimeoutError:
            if self.done():
                raise  # the time-out is the result of the future
            raise TimeoutError(self.explain(timeout, "; still waiting for it")) from None

    def refuse_idle(self) -> None:
        """:raises MercuryError: nothing here can bring a response."""
        idle = None if self.done() else self._why_idle()
        if idle is not None:
            raise MercuryError(f"no response to {self.message_id} can come: {idle}")

    def explain(self, timeout: float | None, more: str = "") -> str:
        """The text of the `TimeoutError`; reads the state from the store."""
        state = self._state_of_request()
        text = f"no response to {self.message_id} within {timeout or 0:g} s{more}"
        return f"{text}: {state}" if state else text


async def awaited(
    future: Future[Any], timeout: float | None, call: Callable[[Callable[[], str]], Awaitable[str]]
) -> Any:
    """The result of a future that `Futures.expect` has made, for an event loop.

    :param call: calls a function that queries the store, outside the event loop.
    :raises TimeoutError: no response came in time; the text has the state of the request.
    :raises MercuryError: no response can come, because no engine runs in this process.
    """
    assert isinstance(future, _ResponseFuture)
    future.refuse_idle()
    waiting = asyncio.wrap_future(future)
    done, _ = await asyncio.wait((waiting,), timeout=timeout)
    if not done:
        text = await call(lambda: future.explain(timeout))
        waiting.cancel()
        raise TimeoutError(text)
    return waiting.result()


@dataclass(frozen=True, slots=True)
class RawResponse:
    """An unparsed response; the result of a future whose ``response`` is this type."""

    #: The element in the Body; empty for an empty Body.
    xml: bytes
    #: Header blocks other than those of WS-Addressing and WS-ReliableMessaging, each standalone XML.
    headers: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Expected:
    future: Future[Any]
    wanted: type[Any]
    namespace: str
    #: The transaction of the application that sends the request; ``None`` = its own one.
    tx: ReferenceType[Transaction] | None


class Futures:
    """Futures for responses. Thread-safe.

    :param owner: a unique name of this process.
    """

    def __init__(self, owner: str) -> None:
        self.callback_name = f"{FUTURE}{owner}"
        self._mutex = threading.Lock()
        self._expected: dict[str, _Expected] = {}

    def expect(
        self,
        message_id: str,
        wanted: type[Any],
        namespace: str,
        state: Callable[[], str] = lambda: "",
        idle: Callable[[], str | None] = lambda: None,
        tx: Transaction | None = None,
    ) -> tuple[Future[Any], str]:
        """A future for the response to a request, and the callback name to store with the request.

        :param state: returns how far the request has come, for the text of a timeout.
        :param idle: returns why no response can come, if no engine runs; ``None`` = one can come.
        :param tx: the transaction of the application that sends the request; ``None`` = its own one.
        :raises ConfigurationError: ``wanted`` is neither ``bytes`` nor a dataclass that can be read.
        """
        if wanted not in (bytes, RawResponse):
            check_type(wanted)
        future: Future[Any] = _ResponseFuture(message_id, state, idle)
        with self._mutex:
            self._expected[message_id] = _Expected(future, wanted, namespace, ref(tx) if tx is not None else None)
        return future, self.callback_name

    def forget(self, message_id: str) -> None:
        with self._mutex:
            self._expected.pop(message_id, None)

    def forget_futures(self, futures: Iterable[Future[Any]]) -> None:
        """Drop futures that are not awaited any more."""
        for future in futures:
            if isinstance(future, _ResponseFuture):
                self.forget(future.message_id)

    def callback(self) -> Callback:
        """The callback to register under `callback_name`."""

        def consume(context: MessageContext, response: Payload | MercuryError) -> None:
            # The future is resolved after the commit that consumes the response, not before.
            context.transaction.after_commit(lambda: self._resolve(context, response))

        return consume

    def dead_lettered(self, event: DeadLettered) -> None:
        """Fail the futures of requests that became dead letters, or whose responses did.

        A disowned response does not count: its peer may send another one. Dead letters of a service's requests and of
        the responses to them do not count either: the peer chooses their MessageID and RelatesTo.
        """
        for letter in event.letters:
            if letter.direction is Direction.OUTBOUND:
                self._fail(letter.message_id, letter.reason)
            elif not letter.endpoint and letter.relates_to is not None and not letter.disowned:
                self._fail(letter.relates_to, letter.reason)

    def _fail(self, message_id: str | None, reason: str) -> None:
        with self._mutex:
            expected = self._expected.pop(message_id or "", None)
        if expected is not None and expected.future.set_running_or_notify_cancel():
            expected.future.set_exception(SequenceFailed(f"no response will come: {reason}"))

    def transaction_ended(self, tx: Transaction) -> None:
        """Fail the futures of requests that a transaction of the application has not sent: it is rolled back."""
        if tx.outcome.ending is not Ending.ROLLED_BACK:
            return
        with self._mutex:
            unsent = [key for key, each in self._expected.items() if each.tx is not None and each.tx() is tx]
        for message_id in unsent:
            self._fail(message_id, "the transaction that sends the request is rolled back")

    def abandon(self, reason: str) -> None:
        """Fail all open futures: this process ends."""
        with self._mutex:
            expected, self._expected = self._expected, {}
        for each in expected.values():
            if each.future.set_running_or_notify_cancel():
                each.future.set_exception(SequenceFailed(reason))

    def _resolve(self, context: MessageContext, response: Payload | MercuryError) -> None:
        with self._mutex:
            expected = self._expected.pop(context.relates_to or "", None)
        if expected is None or not expected.future.set_running_or_notify_cancel():
            return
        if isinstance(response, MercuryError):
            expected.future.set_exception(response)
        elif expected.wanted is RawResponse:
            expected.future.set_result(RawResponse(response.xml, context.headers))
        else:
            try:
                expected.future.set_result(read_body(response, expected.wanted, expected.namespace))
            except MercuryError as error:
                expected.future.set_exception(error)
            except Exception as error:  # of the application's class; the future is resolved here or never
                unread = PayloadError(f"the response cannot be read: {named(error)}")
                unread.__cause__ = error
                expected.future.set_exception(unread)
