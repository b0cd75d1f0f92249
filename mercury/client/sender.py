"""Sending to one endpoint: messages, requests, and the end of the sequence."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar, Unpack, overload

from mercury.client.asynchronous import AsyncTransaction
from mercury.client.backlog_limit import BacklogLimit
from mercury.client.futures import awaited
from mercury.client.life import Life, times_of
from mercury.client.progress import KeyProgress
from mercury.client.results import Receipt
from mercury.client.sender_port import SenderPort
from mercury.engine.attachments import store_attachments
from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import INDEXED_BYTES, KEY_BYTES, storable
from mercury.storage.application import Transaction
from mercury.storage.joining import part_of
from mercury.storage.records import Channel, OutboundKind, OutboundMessage
from mercury.wire.attachment import Attachment
from mercury.wire.bodies import write_body
from mercury.wire.mapping import element_name
from mercury.wire.payload import check_headers
from mercury.wire.values import collapse

T = TypeVar("T")


class _Unstored(NamedTuple):
    row: OutboundMessage
    attachments: tuple[tuple[str, Attachment], ...]


class Sender(KeyProgress):
    """Sends to one endpoint under one internal key; made by `Mercury.to`.

    Messages of one key that one thread or one transaction sends are delivered in the order of the calls. Every method
    returns when its work is stored, also while the peer is down; with ``tx`` the work is stored when that transaction
    commits.
    """

    def __init__(self, surroundings: SenderPort, channel: Channel, namespace: str) -> None:
        storable(KEY_BYTES, key=channel.key.name)
        storable(INDEXED_BYTES, url=channel.endpoint)
        self._port = surroundings
        self._channel = channel
        self._namespace = namespace
        self._made_at = surroundings.clock()
        self._backlog_limit = BacklogLimit(channel.key, surroundings.max_outbound_backlog)

    def send(
        self,
        body: object,
        *,
        tx: Transaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        last: bool = False,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """Send a one-way message.

        :param body: a dataclass, or XML of one element as bytes or text.
        :param tx: the transaction to send in: from `Mercury.transaction`, or a handler's; by default a new one.
        :param operation: the operation's name; by default that of the dataclass.
        :param action: wsa:Action; by default ``<namespace>/<operation>``.
        :param correlation: a text for the application's bookkeeping, stored with the message until its retention
            ends; at most 2,048 bytes of UTF-8.
        :param last: this is the last message of its sequence; a later message starts a new sequence.
        :param headers: additional header blocks, each XML of one element.
        :param life: when the message may be delivered: ``expires_in``, ``expires_at``, ``not_before`` (`Life`).
        :raises PayloadError: the body cannot be written as XML.
        :raises ConfigurationError: the action is unknown, the correlation is too long, or ``life`` is not possible.
        :raises Overloaded: the backlog of this key is at its limit; nothing was stored.
        """
        unstored = self._row(body, operation, action, correlation, headers, life)
        unstored.row.last = last
        return self._store(unstored, tx)

    @overload
    def request(
        self,
        body: object,
        *,
        response: type[T],
        tx: Transaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Future[T]: ...

    @overload
    def request(
        self,
        body: object,
        *,
        tx: Transaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Future[bytes]: ...

    def request(
        self,
        body: object,
        *,
        response: type[Any] = bytes,
        tx: Transaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Future[Any]:
        """Send a request and wait for its response in this process.

        The future ends with the process; if the response is needed after a restart, use `request_with_callback`.
        Other parameters and errors as for `send`.

        :param response: the dataclass to read the response into; by default the future's result is its XML.
        :returns: a future. Its result is the response; its exception is an `ApplicationFault` from the peer,
            `SequenceFailed` if no response will come, also because the block of ``tx`` has rolled it back, or
            `PayloadError` if the response cannot be read. The text of its `TimeoutError` has the state of the request.
        """
        unstored = self._row(body, operation, action, correlation, headers, life)
        row = unstored.row
        row.expects_response = True
        future, row.callback = self._port.futures.expect(
            row.message_id,
            response,
            self._namespace,
            partial(self._state_of, row.message_id),
            lambda: self._port.why_not_running,
            tx,
        )
        try:
            self._store(unstored, tx)
        except BaseException:
            self._port.futures.forget(row.message_id)
            raise
        return future

    def request_with_callback(
        self,
        body: object,
        callback: str,
        *,
        tx: Transaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """Send a request whose response a registered callback consumes, even after a restart.

        Other parameters and errors as for `send`.

        :param callback: the name under which the callback is registered.
        :raises ConfigurationError: no callback of that name is registered.
        """
        if not self._port.has_callback(callback):
            raise ConfigurationError(
                f"no callback named {callback!r} is registered: use @mercury.callback({callback!r})"
            )
        unstored = self._row(body, operation, action, correlation, headers, life)
        unstored.row.expects_response = True
        unstored.row.callback = callback
        return self._store(unstored, tx)

    # --- from an event loop ----------------------------------------------------------------------------------------

    async def asend(
        self,
        body: object,
        *,
        tx: AsyncTransaction | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        last: bool = False,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Receipt:
        """Send a one-way message from an event loop without blocking it. Other parameters and errors as for `send`.

        A cancellation before the commit rolls back; after the commit the message is sent in spite of it.

        :param tx: the transaction to send in, from `Mercury.atransaction`; by default a new one.
        """
        send = partial(
            self.send,
            body,
            operation=operation,
            action=action,
            correlation=correlation,
            last=last,
            headers=headers,
            **life,
        )
        if tx is not None:
            return await tx.run_sync(lambda sync: send(tx=sync))
        return await self._port.threads.in_transaction(self._port.store, self._port.send_in, lambda sync: send(tx=sync))

    @overload
    async def arequest(
        self,
        body: object,
        *,
        response: type[T],
        timeout: float | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> T: ...

    @overload
    async def arequest(
        self,
        body: object,
        *,
        timeout: float | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> bytes: ...

    async def arequest(
        self,
        body: object,
        *,
        response: type[Any] = bytes,
        timeout: float | None = None,
        operation: str | None = None,
        action: str | None = None,
        correlation: str | None = None,
        headers: Iterable[bytes] = (),
        **life: Unpack[Life],
    ) -> Any:
        """Send a request from an event loop and await its response. Other parameters and errors as for `request`.

        The request has a separate transaction, because the response can come only after the commit. Within another
        transaction call ``future = await tx.run_sync(lambda tx: sender.request(..., tx=tx))``, and after its commit
        ``await asyncio.wrap_future(future)``. A cancellation after the commit does not undo the request; its response
        is consumed and dropped.

        :param timeout: seconds to wait for the response after the request is stored; ``None`` = no limit.
        :raises TimeoutError: no response came in time; the text has the state of the request.
        :raises ApplicationFault: the handler refused the request.
        :raises SequenceFailed: no response will come.
        """
        request = partial(
            self.request,
            body,
            response=response,
            operation=operation,
            action=action,
            correlation=correlation,
            headers=headers,
            **life,
        )
        port = self._port
        futures: list[Future[Any]] = []
        try:
            await port.threads.in_transaction(port.store, port.send_in, lambda sync: futures.append(request(tx=sync)))
            return await awaited(futures[0], timeout, port.threads.call)
        finally:
            port.futures.forget_futures(futures)

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self, *, tx: Transaction | None = None) -> None:
        """End the sequence when all its messages have arrived. A later message starts a new sequence."""
        self._end(OutboundKind.END, tx)

    def terminate(self, *, tx: Transaction | None = None) -> None:
        """End the sequence without waiting: unacknowledged messages become dead letters."""
        self._end(OutboundKind.ABANDON, tx)

    # --- within ----------------------------------------------------------------------------------------------------

    def _row(
        self,
        body: object,
        operation: str | None,
        action: str | None,
        correlation: str | None,
        headers: Iterable[bytes],
        life: Life,
    ) -> _Unstored:
        limits = self._port.limits
        payload = write_body(body, self._namespace, operation, attached=True, limits=limits)
        if action is None:
            name = operation or (element_name(type(body)) if not isinstance(body, bytes | str | None) else None)
            if name is None:
                raise ConfigurationError("a body that is not a dataclass needs an operation or an action")
            action = f"{self._namespace}/{name}"
        if not collapse(action):  # only spaces of XML: a relay sends on what a peer may send
            raise ConfigurationError("the action is empty; every message needs one")
        storable(INDEXED_BYTES, correlation=correlation, action=action)
        now = self._port.clock()
        expires_at, not_before = times_of(life, now) if life else (None, None)
        row = OutboundMessage(
            message_id=self._port.ids.new(),
            channel=self._channel,
            action=action,
            payload=payload.xml,
            headers=check_headers(headers, payload, limits=limits),
            correlation=correlation,
            created_at=now,
            expires_at=expires_at,
            not_before=not_before,
        )
        return _Unstored(row, payload.attachments)

    def _end(self, kind: OutboundKind, tx: Transaction | None) -> None:
        row = OutboundMessage(
            message_id=self._port.ids.new(),
            channel=self._channel,
            kind=kind,
            created_at=self._port.clock(),
        )
        with part_of(self._port.store, tx) as transaction:
            transaction.rms.append(row)

    def _store(self, unstored: _Unstored, tx: Transaction | None) -> Receipt:
        row = unstored.row
        with part_of(self._port.store, tx, self._port.send_in) as transaction:
            self._backlog_limit.take(transaction)
            row.attachments = store_attachments(transaction, unstored.attachments, self._port.ids)
            self._port.sending(transaction, row)
            transaction.rms.append(row)
        return Receipt(row.message_id, self.endpoint, self.key)
