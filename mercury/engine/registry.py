"""The services and callbacks that the application has registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from mercury.engine.application import ANY_ACTION, Callback, MessageContext, Operation
from mercury.errors import ConfigurationError, MercuryError
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.application import Transaction
from mercury.wire.envelope import Payload


@dataclass(slots=True)
class _Hosted:
    operations: dict[str, Operation]
    policy: DestinationPolicy
    understands: frozenset[str]
    largest_batch: int


def is_service_name(text: str) -> bool:
    """Whether a service can be named so: with letters, digits, ``-``, ``_`` and ``.``."""
    return bool(text) and all(letter.isalnum() or letter in "-_." for letter in text)


@dataclass(slots=True)
class Registry:
    """Services by name and callbacks by name. Filled before the engine runs; implements `Application`."""

    #: The policy of services that set none.
    default_policy: DestinationPolicy = field(default_factory=DestinationPolicy)
    #: Around each call of a handler or callback, with the transaction that consumes its message; ``None`` = nothing.
    inside: Callable[[Transaction], AbstractContextManager[None]] | None = None
    #: For responses: a sequence that this side offered stays unused until the first response, however late it is.
    _response_policy: DestinationPolicy = field(init=False)
    _services: dict[str, _Hosted] = field(default_factory=dict)
    _callbacks: dict[str, Callback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._response_policy = replace(self.default_policy, unused_timeout=None)

    def add_service(
        self,
        name: str,
        operations: Iterable[Operation],
        *,
        policy: DestinationPolicy | None = None,
        understands: Iterable[str] = (),
    ) -> None:
        """Host a service.

        :raises ConfigurationError: the name or an action is taken.
        """
        if name in self._services:
            raise ConfigurationError(f"two services are named {name!r}")
        by_action: dict[str, Operation] = {}
        for operation in operations:
            if operation.action in by_action:
                raise ConfigurationError(f"service {name!r} has two operations with the action {operation.action!r}")
            by_action[operation.action] = self._around_operation(operation)
        largest = max((operation.batch for operation in by_action.values()), default=1)
        self._services[name] = _Hosted(by_action, policy or self.default_policy, frozenset(understands), largest)

    def add_callback(self, name: str, callback: Callback) -> None:
        """Register the function of this name that consumes responses.

        :raises ConfigurationError: the name is taken.
        """
        if name in self._callbacks:
            raise ConfigurationError(f"two callbacks are named {name!r}")
        self._callbacks[name] = self._around_callback(callback)

    def drop_callback(self, name: str) -> None:
        """Forget a callback; an unknown name is ignored."""
        self._callbacks.pop(name, None)

    def _around_operation(self, operation: Operation) -> Operation:
        inside, call = self.inside, operation.call
        if inside is None:
            return operation

        def handle(context: MessageContext, payload: Payload) -> Payload | None:
            with inside(context.transaction):
                return call(context, payload)

        together = operation.call_together
        if together is None:
            return replace(operation, call=handle)

        def handle_together(
            contexts: Sequence[MessageContext], payloads: Sequence[Payload]
        ) -> Sequence[Payload | None]:
            with inside(contexts[0].transaction):
                return together(contexts, payloads)

        return replace(operation, call=handle, call_together=handle_together)

    def _around_callback(self, callback: Callback) -> Callback:
        inside = self.inside
        if inside is None:
            return callback

        def consume(context: MessageContext, response: Payload | MercuryError) -> None:
            with inside(context.transaction):
                callback(context, response)

        return consume

    # --- the interface for the engine ------------------------------------------------------------------------------

    def services(self) -> frozenset[str]:
        return frozenset(self._services)

    def has_service(self, service: str) -> bool:
        return service in self._services

    def operation(self, service: str, action: str) -> Operation | None:
        hosted = self._services.get(service)
        if hosted is None or not action:  # without an action, it is a LastMessage: no application gets it
            return None
        return hosted.operations.get(action) or hosted.operations.get(ANY_ACTION)

    def largest_batch(self, service: str | None) -> int:
        hosted = self._services.get(service) if service is not None else None
        return hosted.largest_batch if hosted is not None else 1

    def policy(self, service: str | None) -> DestinationPolicy:
        hosted = self._services.get(service) if service is not None else None
        return hosted.policy if hosted is not None else self._response_policy

    def understands(self, service: str | None) -> frozenset[str]:
        hosted = self._services.get(service) if service is not None else None
        return hosted.understands if hosted is not None else frozenset()

    def callback(self, name: str) -> Callback | None:
        return self._callbacks.get(name)
