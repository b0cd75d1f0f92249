"""A contract class for both sides: handlers at the server, typed calls at the client, messages as pydantic models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import pydantic
import pytest

from mercury import (
    ApplicationFault,
    Attribute,
    ConfigurationError,
    Contract,
    Mercury,
    MessageContext,
    PayloadError,
    operation,
)
from mercury.wire.mapping import check_type, from_xml, to_xml


class Line(pydantic.BaseModel):
    sku: Annotated[str, Attribute()]
    count: int = pydantic.Field(gt=0)


class PlaceOrder(pydantic.BaseModel):
    id: int
    customer: str = pydantic.Field(alias="customerName", default="nobody")
    lines: list[Line] = []
    note: str | None = None


@dataclass(frozen=True)
class Placed:
    id: int
    lines: int


@dataclass(frozen=True)
class Cancel:
    id: int


class Orders(Contract):
    @operation
    def place_order(self, order: PlaceOrder) -> Placed:
        """Take an order."""
        raise NotImplementedError

    @operation
    def cancel(self, order: Cancel) -> None: ...

    @operation(action="urn:other:Raw")
    def raw(self, order: bytes) -> bytes: ...


class Shop:
    """A server with all handlers, and the messages that they received."""

    def __init__(self) -> None:
        self.orders = Orders("orders", namespace="urn:shop")
        self.cancelled: list[tuple[int, str]] = []
        self.event = threading.Event()

        @self.orders.place_order.handler
        def place(context: MessageContext, order: PlaceOrder) -> Placed:
            assert context.action == "urn:shop/PlaceOrder"
            if order.customer == "nobody":
                raise ApplicationFault("who?")
            return Placed(order.id, sum(line.count for line in order.lines))

        @self.orders.cancel.handler
        def cancel(context: MessageContext, order: Cancel) -> None:
            self.cancelled.append((order.id, context.action))
            self.event.set()

        @self.orders.raw.handler
        def raw(order: bytes) -> bytes:
            return order


@pytest.fixture
def shop() -> Iterator[tuple[Shop, Orders]]:
    """The shop, and the contract at a client."""
    shop = Shop()
    server = Mercury("memory:")
    try:
        url = server.listen(shop.orders)
        with Mercury("memory:") as client:
            yield shop, client.to(f"{url}/services/orders", service=Orders("orders", namespace="urn:shop"))
    finally:
        server.stop()


def order(number: int) -> PlaceOrder:
    return PlaceOrder(id=number, customerName="Ada", lines=[Line(sku="a", count=2), Line(sku="b", count=3)])


def test_a_call_with_a_response_gives_a_future_for_it(shop: tuple[Shop, Orders]) -> None:
    _, orders = shop
    assert orders.place_order(order(7), correlation="7").result(timeout=30) == Placed(7, 5)
    with pytest.raises(ApplicationFault, match=r"who\?"):
        orders.place_order(PlaceOrder(id=8)).result(timeout=30)
    assert orders.raw(b"<a xmlns='urn:a'/>").result(timeout=30) == b"<a xmlns='urn:a'/>"


def test_a_call_without_a_response_gives_a_receipt(shop: tuple[Shop, Orders]) -> None:
    server, orders = shop
    assert orders.cancel(Cancel(3)).message_id
    assert server.event.wait(30)
    assert server.cancelled == [(3, "urn:shop/Cancel")]
    orders.sender.close()
    assert orders.sender.wait(timeout=30)


def test_calls_from_an_event_loop(shop: tuple[Shop, Orders]) -> None:
    server, orders = shop

    async def main() -> Placed:
        await orders.cancel.asend(Cancel(4))
        return await orders.place_order.arequest(order(9), timeout=30)

    assert asyncio.run(main()) == Placed(9, 5)
    assert server.cancelled == [(4, "urn:shop/Cancel")]


def test_a_response_may_be_consumed_by_a_callback() -> None:
    shop, done, answers = Shop(), threading.Event(), []
    server = Mercury("memory:")
    url = server.listen(shop.orders)
    client = Mercury("memory:")

    @client.callback("placed")
    def placed(answer: Placed) -> None:
        answers.append(answer)
        done.set()

    with client:
        client.to(f"{url}/services/orders", service=shop.orders).place_order.with_callback(order(5), "placed")
        assert done.wait(30)
    server.stop()
    assert answers == [Placed(5, 5)]


def test_the_raw_way_reaches_the_same_handlers(shop: tuple[Shop, Orders]) -> None:
    server, orders = shop
    orders.sender.send(b"<Cancel xmlns='urn:shop'><id>1</id></Cancel>", action="urn:shop/Cancel")
    assert server.event.wait(30)
    assert server.cancelled[0][0] == 1


# --- what is wrong is said when it is put together -------------------------------------------------------------------


def test_a_contract_without_all_its_handlers_is_not_hosted() -> None:
    orders = Orders("orders")
    orders.cancel.handler(lambda_of_cancel)
    mercury = Mercury("memory:")
    with pytest.raises(ConfigurationError, match=r"no handler for place_order, raw: use @orders\.place_order\.handler"):
        mercury.add_service(orders)
    mercury.stop()


def lambda_of_cancel(order: Cancel) -> None: ...


def test_a_handler_has_the_types_that_are_declared() -> None:
    orders = Orders("orders")

    def wrong(order: Cancel) -> Placed: ...  # type: ignore[empty-body]

    with pytest.raises(ConfigurationError, match=r"wrong: its types are not those of .*cancel, which it handles"):
        orders.cancel.handler(wrong)


def test_an_operation_has_one_handler() -> None:
    orders = Orders("orders")
    orders.cancel.handler(lambda_of_cancel)
    with pytest.raises(ConfigurationError, match="cancel has a handler already"):
        orders.cancel.handler(lambda_of_cancel)


def test_a_contract_that_is_nowhere_cannot_be_called() -> None:
    with pytest.raises(ConfigurationError, match=r"mercury\.to\(url, service=\.\.\.\)"):
        Orders("orders").cancel(Cancel(1))


def test_an_operation_is_declared_with_the_body_alone() -> None:
    with pytest.raises(ConfigurationError, match="with the body alone"):

        class Wrong(Contract):
            @operation  # type: ignore[call-overload]
            def cancel(self, order: Cancel, context: MessageContext) -> None: ...


# --- pydantic models -------------------------------------------------------------------------------------------------


def test_a_model_is_written_and_read_like_a_dataclass() -> None:
    check_type(PlaceOrder)
    xml = to_xml(order(7), "urn:shop")
    assert xml == (
        b'<PlaceOrder xmlns="urn:shop"><id>7</id><customerName>Ada</customerName>'
        b'<lines sku="a"><count>2</count></lines><lines sku="b"><count>3</count></lines></PlaceOrder>'
    )
    assert from_xml(xml, PlaceOrder, "urn:shop") == order(7)
    assert from_xml(b'<PlaceOrder xmlns="urn:shop"><id>7</id></PlaceOrder>', PlaceOrder, "urn:shop").note is None


def test_message_refused_by_its_model_is_an_error() -> None:
    with pytest.raises(PayloadError, match=r"Line refuses the values: .*greater than 0"):
        from_xml(b'<Line sku="a"><count>0</count></Line>', Line)


def test_a_model_may_stand_in_a_dataclass() -> None:
    assert from_xml(to_xml(Both(Line(sku="a", count=1), Decimal("1.5")), ""), Both) == Both(
        Line(sku="a", count=1), Decimal("1.5")
    )


@dataclass(frozen=True)
class Both:
    line: Line
    amount: Decimal
