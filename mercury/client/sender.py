"""Sending to one endpoint: messages, requests, and the end of the sequence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

from mercury.client.futures import Futures
from mercury.client.status import SequenceStatus, status_of
from mercury.engine.ids import Ids
from mercury.errors import ConfigurationError, Overloaded
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import Channel, OutboundKind, OutboundMessage
from mercury.wire.envelope import EMPTY, Payload
from mercury.wire.mapping import element_name, to_xml
from mercury.wire.payload import check_payload

T = TypeVar("T")

#: Seconds between two looks at whether everything is done.
LOOK = 0.02

#: Seconds between two looks while waiting.
LOOK = 0.01


class Surroundings(Protocol):
    """What a sender needs of the process it stands in."""

    @property
    def store(self) -> StorageManager: ...

    @property
    def ids(self) -> Ids: ...

    @property
    def futures(self) -> Futures: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    @property
    def max_outbound_backlog(self) -> int: ...

    def has_callback(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message is stored: from the commit on it will arrive, whatever happens."""

    #: wsa:MessageID, the same at every transmission.
    message_id: str
    endpoint: str
    key: str


class Sender:
    """Sends to one endpoint under one internal key; made by `Mercury.to`.

    Messages of one key are delivered in the order in which they were sent, as far as one thread or transaction sent
    them. Every method returns when its work is stored, whether or not the peer is up; with ``tx`` it is stored when
    that transaction commits.
    """

    def __init__(self, surroundings: Surroundings, channel: Channel, namespace: str) -> None:
        self._surroundings = surroundings
        self._channel = channel
        self._namespace = namespace

    @property
    def endpoint(self) -> str:
        return self._channel.key.endpoint

    @property
    def key(self) -> str:
        return self._channel.key.name

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
    ) -> Receipt:
        """Send a one-way message.

        :param body: a dataclass, or XML of one element as bytes or text.
        :param tx: the transaction to send in; left out, one of its own.
        :param operation: the operation's name; left out, the dataclass's.
        :param action: wsa:Action; left out, ``<namespace>/<operation>``.
        :param correlation: kept with the message wherever it lives, for the application's own bookkeeping.
        :param last: no message of this sequence comes after it; a later one starts a new sequence.
        :param headers: header blocks to send along, each XML of one element.
        :raises PayloadError: the body can not be written.
        :raises ConfigurationError: there is no way to know the action.
        :raises Overloaded: too many messages of this key wait already; nothing was stored.
        """
        row = self._row(body, operation, action, correlation, headers)
        row.last = last
        return self._store(row, tx)

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
    ) -> Future[Any]:
        """Send a request and wait for its response in this process.

        The future does not outlive the process; where the response matters after a restart, use
        `request_with_callback`. Parameters and errors are those of `send`.

        :param response: the dataclass to read the response into; left out, the future's result is its XML.
        :returns: a future; its result is the response, its exception an `ApplicationFault` that came instead, or
            `SequenceFailed` when there will be none.
        """
        row = self._row(body, operation, action, correlation, headers)
        row.expects_response = True
        future, row.callback = self._surroundings.futures.expect(row.message_id, response, self._namespace)
        try:
            self._store(row, tx)
        except BaseException:
            self._surroundings.futures.forget(row.message_id)
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
    ) -> Receipt:
        """Send a request whose response a registered callback consumes, even after a restart.

        Parameters and errors are those of `send`.

        :param callback: the name it is registered by.
        :raises ConfigurationError: no callback of that name is registered.
        """
        if not self._surroundings.has_callback(callback):
            raise ConfigurationError(
                f"no callback named {callback!r} is registered: use @mercury.callback({callback!r})"
            )
        row = self._row(body, operation, action, correlation, headers)
        row.expects_response = True
        row.callback = callback
        return self._store(row, tx)

    def close(self, *, tx: Transaction | None = None) -> None:
        """Send no more on this sequence: it ends once everything has arrived. A later message starts a new one."""
        self._end(OutboundKind.END, tx)

    def terminate(self, *, tx: Transaction | None = None) -> None:
        """End the sequence without waiting: what is not acknowledged by then becomes dead letters."""
        self._end(OutboundKind.ABANDON, tx)

    def status(self) -> list[SequenceStatus]:
        """The sequences of this key that are remembered, oldest first."""
        store = self._surroundings.store
        with store.transaction() as tx:
            backlog = tx.rms.backlog(self._channel.key)
            return [status_of(record, backlog) for record in tx.rms.peek(self._channel.key)]

    @property
    def pending(self) -> int:
        """Messages of this key that are not acknowledged, or whose response is not consumed yet."""
        with self._surroundings.store.transaction() as tx:
            return tx.rms.backlog(self._channel.key)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything sent under this key is acknowledged (requests: answered), or has died trying.

        After `close` the end is waited for too, so that the peer need not keep the sequence open.

        :param timeout: seconds; left out, for as long as it takes.
        :returns: whether it is so; ``False`` when the time is over.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._at_rest():
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(LOOK)
        return True

    def _at_rest(self) -> bool:
        with self._surroundings.store.transaction() as tx:
            if tx.rms.backlog(self._channel.key):
                return False
            machines = [record.machine for record in tx.rms.peek(self._channel.key)]
        return not any(machine.alive and machine.last_message is not None for machine in machines)

    # --- within ----------------------------------------------------------------------------------------------------

    def _row(
        self,
        body: object,
        operation: str | None,
        action: str | None,
        correlation: str | None,
        headers: Iterable[bytes],
    ) -> OutboundMessage:
        payload = self._payload(body, operation)
        if action is None:
            name = operation or (element_name(type(body)) if not isinstance(body, bytes | str | None) else None)
            if name is None:
                raise ConfigurationError("a body that is not a dataclass needs an operation or an action")
            action = f"{self._namespace}/{name}"
        if not action.strip():
            raise ConfigurationError("the action is empty; every message needs one")
        return OutboundMessage(
            message_id=self._surroundings.ids.new(),
            channel=self._channel,
            action=action,
            payload=payload.xml,
            headers=tuple(check_payload(header).xml for header in headers),
            correlation=correlation,
            created_at=self._surroundings.clock(),
        )

    def _payload(self, body: object, operation: str | None) -> Payload:
        if body is None:
            return EMPTY
        if isinstance(body, bytes | str):
            return check_payload(body)
        return check_payload(to_xml(body, self._namespace, operation))

    def _end(self, kind: OutboundKind, tx: Transaction | None) -> None:
        row = OutboundMessage(
            message_id=self._surroundings.ids.new(),
            channel=self._channel,
            kind=kind,
            created_at=self._surroundings.clock(),
        )
        with self._in(tx) as transaction:
            transaction.rms.append(row)

    def _store(self, row: OutboundMessage, tx: Transaction | None) -> Receipt:
        with self._in(tx) as transaction:
            waiting, most = transaction.rms.backlog(self._channel.key), self._surroundings.max_outbound_backlog
            if waiting >= most:
                raise Overloaded(f"{waiting} messages for {self._channel.key} wait already; at most {most} may")
            transaction.rms.append(row)
        return Receipt(row.message_id, self.endpoint, self.key)

    def _in(self, tx: Transaction | None) -> AbstractContextManager[Transaction]:
        return nullcontext(tx) if tx is not None else self._surroundings.store.transaction()
