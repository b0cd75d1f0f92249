"""A shop and its customer: a service, and settings with short intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mercury import ApplicationFault, DestinationPolicy, Mercury, MessageContext, OnFailure, Service, Settings
from mercury.engine.addresses import AddressPolicy
from mercury.engine.settings import EngineSettings
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.api import StorageManager

LOCAL = AddressPolicy(("http://127.0.0.1:*",))
#: Nothing is given up; what is lost is repeated soon.
EAGER = SourcePolicy(retransmission=RetransmissionPolicy(base=0.2, cap=0.5))
#: One try, and then it is dead.
STRICT = DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1)


@dataclass(frozen=True)
class Order:
    id: int


@dataclass(frozen=True)
class Placed:
    id: int


def settings(**more: Any) -> Settings:
    """Settings for one of the two."""
    return replace(Settings(engine=EngineSettings(addresses=LOCAL), source=EAGER), **more)


@dataclass
class Shop:
    """What a service has done, once it is committed."""

    #: Orders and the MessageIDs that they came with, in the order of their handling.
    handled: list[tuple[int, str]] = field(default_factory=list)
    #: Is called before an order is taken; may raise.
    before: Callable[[Order], None] = lambda _order: None
    policy: DestinationPolicy = STRICT

    @property
    def orders(self) -> list[int]:
        return [number for number, _ in self.handled]

    def service(self) -> Service:
        shop = Service("shop", policy=self.policy)

        @shop.operation("put")
        def put(order: Order, context: MessageContext) -> None:
            self._take(order, context)

        @shop.operation("ask")
        def ask(order: Order, context: MessageContext) -> Placed:
            self._take(order, context)
            if order.id < 0:
                raise ApplicationFault("there are no such orders")
            return Placed(order.id)

        return shop

    def _take(self, order: Order, context: MessageContext) -> None:
        self.before(order)
        context.transaction.after_commit(lambda: self.handled.append((order.id, context.message_id or "")))

    @contextmanager
    def open(
        self, store: str | StorageManager = "memory:", port: int = 0, **more: Any
    ) -> Iterator[tuple[Mercury, str]]:
        """Serve; gives the Mercury and the service's URL."""
        mercury = Mercury(store, settings=settings(**more))
        try:
            url = mercury.listen(self.service(), port=port)
            yield mercury, f"{url}/services/shop"
        finally:
            mercury.stop()
