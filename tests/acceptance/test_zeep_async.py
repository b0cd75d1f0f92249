"""zeep's AsyncClient, in which only the transport is changed, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zeep

from mercury import ApplicationFault, AsyncZeepTransport, ConfigurationError, Mercury, MercuryError, MessageContext
from mercury.client.overview import waiting_by_key
from tests.acceptance.processes import PATIENCE, eventually
from tests.acceptance.test_zeep import ANSWER, NOWHERE, with_addressing_only
from tests.acceptance.zeep_peer import PATH, Notify, Orders, Place, Tap, wsdl_at


@dataclass(frozen=True)
class Shop:
    """A server in this process, and a client's Mercury."""

    orders: Orders
    url: str
    mercury: Mercury
    folder: Path

    @asynccontextmanager
    async def client(
        self, port: str = "P12", *, url: str | None = None, change: Any = str, **options: Any
    ) -> AsyncIterator[zeep.AsyncClient]:
        wsdl = wsdl_at(url or self.url, self.folder, change=change)
        transport = self.mercury.azeep_transport(**options)
        async with zeep.AsyncClient(wsdl, transport=transport, service_name="Orders", port_name=port) as client:
            yield client

    def waiting(self) -> int:
        return sum(waiting_by_key(self.mercury.store).values())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    orders = Orders()
    server = Mercury("memory:")
    url = server.listen(orders.service)
    with server, Mercury(f"sqlite:///{tmp_path}/shop.db") as mercury:
        yield Shop(orders, url + PATH, mercury, tmp_path)
        orders.go_on.set()


@pytest.mark.parametrize("port", ["P11", "P12"])
def test_awaited_calls_do_what_calls_do(shop: Shop, port: str) -> None:
    async def work() -> None:
        async with shop.client(port) as client:
            assert isinstance(client.transport, AsyncZeepTransport)
            assert isinstance(client.transport, zeep.transports.AsyncTransport)
            assert await client.service.Notify(text="first") is None
            assert await client.service.Place(sku="tea", qty=4) == 40
            with pytest.raises(zeep.exceptions.Fault, match="less than nothing"):
                await client.service.Place(sku="tea", qty=-1)
            assert await client.transport.wait(PATIENCE)

    asyncio.run(work())
    shop.orders.wait_for(Notify("first"), Place("tea", 4))


def test_awaited_calls_wait_side_by_side(shop: Shop) -> None:
    async def work() -> list[int]:
        async with shop.client() as client:
            return list(await asyncio.gather(*(client.service.Place(sku="tea", qty=number) for number in range(12))))

    assert asyncio.run(work()) == [number * 10 for number in range(12)]


def test_awaited_call_without_a_response_in_time_is_delivered_once(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client(operation_timeout=0.2) as client:
            with pytest.raises(TimeoutError, match=r"no response to .* within 0\.2 s"):
                await client.service.Place(sku="slow", qty=1)
            shop.orders.go_on.set()
            assert await client.transport.wait(PATIENCE)

    asyncio.run(work())
    shop.orders.wait_for(Place("slow", 1))


def test_awaited_calls_leave_with_the_commit_of_their_transaction(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client() as client:
            async with shop.mercury.atransaction():
                await client.service.Notify(text="first")
                future = await client.transport.request(client.service.Place, sku="tea", qty=1)
                assert not future.done()
                assert shop.orders.given == []
            assert await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE) == 10

    asyncio.run(work())
    shop.orders.wait_for(Notify("first"), Place("tea", 1))


def test_awaited_calls_of_a_transaction_that_is_rolled_back_are_not_sent(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client(url=NOWHERE) as client:
            with pytest.raises(ValueError, match="not today"):
                async with shop.mercury.atransaction():
                    await client.service.Notify(text="never")
                    await client.transport.request(client.service.Place, sku="never", qty=1)
                    raise ValueError("not today")
            assert shop.waiting() == 0

    asyncio.run(work())


def test_response_is_not_awaited_inside_a_transaction(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client(url=NOWHERE) as client, shop.mercury.atransaction():
            with pytest.raises(ConfigurationError, match="answered after the commit"):
                await client.service.Place(sku="tea", qty=1)

    asyncio.run(work())
    assert shop.waiting() == 0


def test_calls_of_other_tasks_are_not_part_of_a_transaction(shop: Shop) -> None:
    async def work() -> None:
        begun, stored = asyncio.Event(), asyncio.Event()
        async with shop.client(url=NOWHERE) as client:

            async def other() -> None:
                await begun.wait()
                await client.service.Notify(text="apart")
                stored.set()

            task = asyncio.create_task(other())
            with pytest.raises(ValueError, match="undone"):
                async with shop.mercury.atransaction():
                    begun.set()
                    await stored.wait()
                    raise ValueError("undone")
            await task
            assert shop.waiting() == 1

    asyncio.run(work())


def test_client_that_blocks_is_refused_inside_an_asynchronous_transaction_but_for_its_steps(shop: Shop) -> None:
    client = zeep.Client(wsdl_at(NOWHERE, shop.folder), transport=shop.mercury.zeep_transport())

    async def work() -> None:
        async with shop.mercury.atransaction() as tx:
            with pytest.raises(ConfigurationError, match=r"use zeep\.AsyncClient"):
                client.service.Notify(text="refused")
            await tx.run_sync(lambda _tx: client.service.Notify(text="part of it"))
            assert shop.waiting() == 0
        assert shop.waiting() == 1

    asyncio.run(work())


def test_blocking_transaction_of_a_coroutine_has_its_awaited_calls(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client(url=NOWHERE) as client:
            with pytest.raises(ValueError, match="undone"), shop.mercury.transaction():
                await client.service.Notify(text="never")
                raise ValueError("undone")
            assert shop.waiting() == 0

    asyncio.run(work())


def test_awaited_request_with_a_callback_is_answered_there(shop: Shop) -> None:
    found: list[tuple[str | None, object]] = []

    async def work() -> None:
        async with shop.client() as client:

            @shop.mercury.callback("placed")
            def placed(context: MessageContext, answer: bytes | ApplicationFault) -> None:
                found.append((context.correlation, client.transport.response(client.service.Place, answer)))

            with client.transport.correlated("order:1"):
                await client.transport.request_with_callback(client.service.Place, "placed", sku="tea", qty=3)
            await asyncio.to_thread(eventually, lambda: found, "it is answered")

    asyncio.run(work())
    assert found == [("order:1", 30)]


def test_cancelled_call_raises_and_its_request_is_delivered(shop: Shop) -> None:
    async def work() -> None:
        async with shop.client() as client:
            task = asyncio.create_task(client.service.Place(sku="slow", qty=1))
            await asyncio.to_thread(eventually, shop.waiting, "it is stored")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            shop.orders.go_on.set()
            assert await client.transport.wait(PATIENCE)

    asyncio.run(work())
    shop.orders.wait_for(Place("slow", 1))


def test_request_of_a_stopped_mercury_is_refused(tmp_path: Path) -> None:
    mercury = Mercury("memory:")
    shop = Shop(Orders(), NOWHERE, mercury, tmp_path)

    async def work() -> None:
        async with shop.client() as client:
            with pytest.raises(MercuryError, match="no response to Place can come"):
                await client.service.Place(sku="tea", qty=1)

    asyncio.run(work())
    mercury.stop()


def test_endpoint_without_rm_in_its_policy_is_called_plainly(shop: Shop) -> None:
    async def work(url: str) -> None:
        async with shop.client("P11", url=url, change=with_addressing_only) as client:
            assert await client.service.Place(sku="tea", qty=1) == 7

    with Tap(answer=ANSWER) as tap:
        asyncio.run(work(tap.url))
        assert tap.bodies == ["{urn:mercury:orders}Place"]
