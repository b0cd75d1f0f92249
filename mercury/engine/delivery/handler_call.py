"""Calling the application for one message: a handler for a request, a callback for a response."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from mercury.engine.application import FUTURE, Callback, MessageContext, Operation
from mercury.engine.attachments import stored_attachments
from mercury.engine.channels import TOO_MANY_ADDRESSES, channel_of_response, exceeds_addresses, has_address
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import dead_letter, dead_letter_inbound
from mercury.engine.delivery.time_limit import within_limit
from mercury.engine.events import Delivered
from mercury.engine.tracing import processing
from mercury.errors import ApplicationFault, MercuryError, PayloadError, TransientStorageError, named, text_of
from mercury.statemachine.effects import Certainty
from mercury.statemachine.faults import FaultCode
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.trace import Trace
from mercury.storage.api import Transaction
from mercury.storage.names import request_name
from mercury.storage.records import Channel, InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, Role
from mercury.wire.application_fault import read_application_fault, write_application_fault
from mercury.wire.encode import fault_action
from mercury.wire.envelope import Payload

log = logging.getLogger("mercury.engine.invocation")

#: The reasons and codes of the faults for requests that are dropped: in general, and because they have expired.
NOT_PROCESSED = ("The request could not be processed.", "Failed")
TOO_LATE = ("The request was not handled within its time to live.", "Expired")


class CallFailed(MercuryError):
    """The application raised an exception other than `ApplicationFault`."""

    def __init__(self, message: InboundMessage, attempt: int, error: Exception, handler: str = "") -> None:
        super().__init__(_storable(named(error)))
        self.message = message
        #: The number of the attempt, from 1.
        self.attempt = attempt
        self.error = error
        #: The operation or callback that raised it, or the name that was not found.
        self.handler = handler


class Unstorable(MercuryError):
    """The store refuses the delivery or the response of a message, and would refuse it again."""


class _Unreadable(MercuryError):
    """A stored response cannot be read, and no other attempt would read it."""


class HandlerCall:
    """The call of the application for one message."""

    def __init__(
        self,
        context: EngineContext,
        record: InvokerRecord,
        request: RmdRecord | None,
        message: InboundMessage,
        attempt: int,
        waiting: OutboundMessage | None,
    ) -> None:
        self._context = context
        self._record = record
        self._request = request
        self.message = message
        self._attempt = attempt
        #: The request of this side that the message answers, unless it was answered before.
        self._waiting = waiting
        #: This side's request whose response was consumed; its row may be deleted after the delivery is saved.
        self.request: OutboundMessage | None = None
        #: The response to a peer's request, to be stored.
        self.response: OutboundMessage | None = None
        #: The operation or callback that has consumed the message; ``None`` = none has.
        self.consumed_by: str | None = None
        #: Whether the handler has raised an `ApplicationFault`.
        self.refused = False
        #: What `make_shared` calls, and the response of it.
        self._shared: Operation | Callback | None = None
        self._response: Payload | None = None
        #: The span of the call; ``None`` = there is none.
        self.trace: Trace | None = None

    def make(self, tx: Transaction, now: float, *, waits: bool = False) -> Channel | None:
        """Call the application in ``tx``, in a savepoint. Returns the channel of the response.

        :param waits: see `Transaction.savepoint`; for handlers only.
        :raises CallFailed: the application failed; its work in ``tx`` is rolled back.
        :raises TransientStorageError: the store failed, which does not count as a failed attempt.
        """
        if not self.message.action:
            return None  # the empty last message of WS-RM 1.0 is not for the application
        if self._record.service is None:
            self._call_back(tx, now)
            return None
        operation = self._operation()
        if operation is None:
            action = self.message.action
            raise CallFailed(self.message, self._attempt, LookupError(f"no operation for {action!r}"), action)
        try:
            response = self._handle(tx, operation, waits=waits)
        except ApplicationFault as fault:
            return self._refused(tx, operation, fault, now)
        return self.consume(tx, operation, response, now)

    def can_share(self) -> bool:
        """Whether `make_shared` can make the call: the application has a function for one such message."""
        message, row = self.message, self._waiting
        if not message.action:
            return False
        if self._record.service is not None:
            operation = self._operation()
            alone = operation is None or operation.batch > 1 or operation.time_limit is not None
            self._shared = None if alone else operation
        elif row is not None and row.callback:
            self._shared = self._context.application.callback(row.callback)
        return self._shared is not None

    def make_shared(self, tx: Transaction) -> int:
        """Call the application in ``tx``, in a savepoint of the caller. Returns the bytes of the response.

        Everything that the application raises leaves this method: the caller undoes the work in ``tx``, and calls
        `failed`, or `make` of another `HandlerCall`. Otherwise `consume_shared` follows, after the savepoint.
        """
        shared = self._shared
        assert shared is not None
        with self._processing() as self.trace:
            if isinstance(shared, Operation):
                self._response = shared.call(self.message_context(tx), payload_of(tx, self.message))
            else:
                shared(self.message_context(tx), _result(tx, self.message))
        return len(self._response.xml) if self._response is not None else 0

    def _processing(self) -> AbstractContextManager[Trace | None]:
        return processing(self._context.tracing, self._record.service, (self.message,), self._attempt)

    def failed(self, tx: Transaction, error: Exception, now: float) -> Channel | None:
        """Settle a `make_shared` that raised ``error`` and whose work is undone, as `make` does. Returns the channel
        of the response.

        :raises CallFailed: the application failed.
        """
        if isinstance(self._shared, Operation):
            if isinstance(error, ApplicationFault):
                return self._refused(tx, self._shared, error, now)
            raise CallFailed(self.message, self._attempt, error, self._shared.name) from error
        row = self._waiting
        assert row is not None
        if not isinstance(error, _Unreadable):
            raise CallFailed(self.message, self._attempt, error, row.callback or "") from error
        self._dead_letter(tx, f"it cannot be read: {error}", now)
        self.request = row
        return None

    def consume_shared(self, tx: Transaction, now: float) -> Channel | None:
        """Note that the message is consumed, and store its response. Returns the response's channel."""
        if isinstance(self._shared, Operation):
            return self.consume(tx, self._shared, self._response, now)
        assert self._waiting is not None
        self.consumed_by, self.request = self._waiting.callback or "", self._waiting
        return None

    def consume(self, tx: Transaction, operation: Operation, response: Payload | None, now: float) -> Channel | None:
        """Note that the handler has consumed the message, and store its response. Returns the response's channel."""
        self.consumed_by = operation.name
        if operation.response_action is None:
            return None
        return self._respond(tx, operation.response_action, response or Payload(b""), now)

    def delivered(self, now: float) -> Delivered:
        """The event for observers that the application has consumed the message."""
        message = self.message
        return Delivered(
            at=now,
            sequence=message.sequence,
            number=message.number,
            message_id=message.message_id,
            service=self._record.service,
            action=message.action,
            handler=self.consumed_by or "",
            attempt=self._attempt,
            received_at=message.received_at,
            correlation=message.correlation,
            refused=self.refused,
        )

    def drop(
        self,
        tx: Transaction,
        reason: str,
        now: float,
        fault: tuple[str, str] | None = NOT_PROCESSED,
        *,
        certainty: Certainty = Certainty.NOT_DELIVERED,
    ) -> Channel | None:
        """Make the message a dead letter that is never delivered, and send a fault to a client that waits for a
        response.

        :param fault: its reason and code; ``None`` = none is sent.
        :param certainty: whether its handler may have committed its work.
        """
        operation, channel = self._operation(), None
        if self._record.service is None:
            self.request = self._waiting  # its client is notified of the dead letter
        elif fault is not None and operation is not None and operation.response_action is not None:
            channel = self._send_fault(tx, self._written(ApplicationFault(fault[0], code=fault[1])), now)
        notified = channel is not None
        self._dead_letter(tx, reason, now, disowned=notified, certainty=certainty)
        return channel

    def _dead_letter(
        self,
        tx: Transaction,
        reason: str,
        now: float,
        *,
        disowned: bool = False,
        certainty: Certainty = Certainty.NOT_DELIVERED,
    ) -> None:
        """Make the message a dead letter, which counts for the limits of its peer until an operator removes it."""
        service, message = self._record.service, self.message
        # A damaged row does not count for its peer.
        owner = None if message.damaged else self._record.owner
        self._record.letter_bytes += dead_letter_inbound(
            tx, self._context, service, [message], reason, now, disowned=disowned, certainty=certainty, owner=owner
        )

    # --- requests --------------------------------------------------------------------------------------------------

    def _operation(self) -> Operation | None:
        return self._context.application.operation(self._record.service or "", self.message.action)

    def _handle(self, tx: Transaction, operation: Operation, *, waits: bool) -> Payload | None:
        """Run the handler in its own savepoint, so that an application fault rolls back only the handler's work."""
        try:
            running = self._context.running_calls.call(self.described, self._record.service)
            with tx.savepoint(waits=waits), running, self._processing() as self.trace:
                context, payload = self.message_context(tx), payload_of(tx, self.message)
                clock = self._context.claims.monotonic
                return within_limit(operation, tx, clock, lambda: operation.call(context, payload))
        except ApplicationFault:
            raise
        except Exception as error:
            raise_transient(tx, error)
            raise CallFailed(self.message, self._attempt, error, operation.name) from error

    def described(self) -> str:
        """The description of the call in the log."""
        message, operation = self.message, self._operation()
        what = f"the handler of {operation.name}" if operation is not None else ""
        if self._record.service is None and self._waiting is not None:
            what = f"the callback {self._waiting.callback}"
        return f"{what} with message {message.message_id}, number {message.number} of {message.sequence}"

    def _refused(self, tx: Transaction, operation: Operation, fault: ApplicationFault, now: float) -> Channel | None:
        """After an application fault: the handler's work is rolled back; fault and delivery commit together."""
        message = self.message
        about = {"sequence": message.sequence, "number": message.number, "message_id": message.message_id}
        log.info("the handler of %s answers with a fault: %r", operation.name, text_of(fault), extra=about)
        try:
            reason = _storable(f"the handler refused it: {fault.reason}")
            written = self._written(fault) if operation.response_action is not None else b""
        except Exception as error:  # its detail is no XML of one element, or its class has not set what it has to
            raise CallFailed(message, self._attempt, error, operation.name) from error
        if operation.response_action is None:
            self._dead_letter(tx, reason, now)
            return None
        channel = self._send_fault(tx, written, now)
        self.consumed_by, self.refused = operation.name, True
        return channel

    def _written(self, fault: ApplicationFault) -> bytes:
        """The fault for the peer of the request; empty if the sequence was deleted, and nothing can be sent."""
        if self._request is None:
            return b""
        return write_application_fault(self._request.protocol.soap, fault, limits=self._context.settings.limits)

    def _send_fault(self, tx: Transaction, written: bytes, now: float) -> Channel | None:
        if self._request is None:
            return None
        protocol = self._request.protocol
        action = fault_action(FaultCode.SENDER, protocol.soap, protocol.addressing, protocol.rm)
        return self._respond(tx, action, Payload(written, is_fault=True), now)

    def _fault_to(self, request: RmdRecord) -> EndpointReference | None:
        """The endpoint for a fault: FaultTo, else ReplyTo (FLT-14). Only ReplyTo for a client that waits on the
        connection of its request: it would repeat the request until something comes there."""
        fault_to, reply_to = self.message.fault_to, self.message.reply_to
        if fault_to is None or not has_address(fault_to) or reply_to is None or reply_to.anonymous:
            return reply_to
        polls = request.protocol.rm is RmVersion.RM11
        refused = self._context.settings.addresses.refusal("FaultTo", fault_to, polls=polls) is not None
        return reply_to if refused or self._exceeds_addresses(channel_of_response(request, fault_to)) else fault_to

    def _respond(self, tx: Transaction, action: str, response: Payload, now: float) -> Channel | None:
        """Put the response on the response sequence; it is stored in the transaction that consumes the request."""
        request, message = self._request, self.message
        if request is None:
            return None
        reply_to = self._fault_to(request) if response.is_fault else message.reply_to
        if reply_to is not None and reply_to.none:
            return None
        channel = channel_of_response(request, reply_to)
        row = OutboundMessage(
            message_id=self._context.ids.new(),
            channel=channel,
            action=action,
            payload=response.xml,
            is_fault=response.is_fault,
            to_parameters=reply_to.parameters if reply_to is not None else (),
            relates_to=message.message_id,
            request=request_name(message.sequence, message.number) if channel.back_channel else None,
            correlation=message.correlation,
            created_at=now,
            answered=channel.plain and channel.back_channel,
            owner=request.owner,
            trace=self.trace,
        )
        if channel.role is Role.RESPONSE and self._exceeds_addresses(channel):
            dead_letter(tx, self._context, [row], TOO_MANY_ADDRESSES, Certainty.NOT_DELIVERED, now)
            return None
        self.response = row
        return channel

    def _exceeds_addresses(self, channel: Channel) -> bool:
        """Whether the limit on addresses is reached: earlier requests may have used it up since this one was
        accepted."""
        return exceeds_addresses(self._record, channel.key.endpoint, self._context.settings.max_response_addresses)

    # --- responses -------------------------------------------------------------------------------------------------

    def _call_back(self, tx: Transaction, now: float) -> None:
        """Pass a response to the callback that its request names."""
        message = self.message
        row = self._waiting
        if row is None:
            self._dead_letter(tx, "no request here waits for this response", now)
            return
        callback = self._context.application.callback(row.callback) if row.callback else None
        if callback is None and row.callback and not row.callback.startswith(FUTURE):
            unknown = LookupError(f"no callback named {row.callback!r} is registered")
            raise CallFailed(message, self._attempt, unknown, row.callback)
        if callback is None:
            self._dead_letter(tx, "the caller that waited for this response has gone", now)
        else:
            try:
                result = _result(tx, message)
                running = self._context.running_calls.call(self.described, None)
                with tx.savepoint(), running, self._processing():
                    callback(self.message_context(tx), result)
                self.consumed_by = row.callback or ""
            except _Unreadable as error:
                self._dead_letter(tx, f"it cannot be read: {error}", now)
            except Exception as error:
                raise_transient(tx, error)
                raise CallFailed(message, self._attempt, error, row.callback or "") from error
        self.request = row

    def message_context(self, tx: Transaction) -> MessageContext:
        """The facts about the message for its handler."""
        message = self.message
        return MessageContext(
            message_id=message.message_id,
            sequence=message.sequence,
            number=message.number,
            attempt=self._attempt,
            peer=self._request.peer if self._request is not None and self._record.service is not None else "",
            correlation=message.correlation,
            action=message.action,
            transaction=tx,
            relates_to=message.relates_to,
            headers=message.headers,
            expires_at=message.expires_at,
            reply_to=message.reply_to.address
            if message.reply_to is not None and message.reply_to.addressable
            else None,
            limits=self._context.settings.limits,
        )


def _storable(text: str) -> str:
    """The text without what no store can keep: a NUL, and half of a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def raise_transient(tx: Transaction, error: Exception) -> None:
    """A lost connection, a deadlock or a lock time-out is not a failed attempt: the run is repeated.

    :raises TransientStorageError: ``error`` is such a failure.
    """
    known = tx.translate(error)
    if isinstance(known, TransientStorageError):
        raise known from error


def _result(tx: Transaction, message: InboundMessage) -> Payload | ApplicationFault:
    """The argument of the callback for a response.

    :raises _Unreadable: it is stored as a fault, but cannot be read as one.
    """
    if not message.is_fault:
        return payload_of(tx, message)
    try:
        return read_application_fault(message.payload)
    except PayloadError as error:
        raise _Unreadable(str(error)) from error


def payload_of(tx: Transaction, message: InboundMessage) -> Payload:
    """The body of a message, with its attachments."""
    attachments = stored_attachments(tx, message.attachments)
    return Payload(message.payload, message.element, message.is_fault, attachments)
