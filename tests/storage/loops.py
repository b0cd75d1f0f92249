"""Event loops, and a store with a table of the application's, for tests of the asynchronous calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from sqlalchemy import create_engine, text

from mercury import Mercury, Sender, Transaction

from .shop import Order, settings

URL = "http://127.0.0.1:1/services/shop"
INSERT = text("insert into placed values (:number)")
T = TypeVar("T")


@contextmanager
def client(store: str, **more: Any) -> Iterator[tuple[Mercury, Sender]]:
    mercury = Mercury(store, settings=settings(), **more)
    try:
        yield mercury, mercury.to(URL)
    finally:
        mercury.stop()


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run in an event loop that complains of everything that is left behind."""

    async def watched() -> T:
        wrong: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, what: wrong.append(what))
        result = await main()
        assert wrong == []
        return result

    return asyncio.run(watched())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def turns(count: int = 20) -> None:
    """The event loop has done everything that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


def sent(mercury: Mercury, sender: Sender) -> int:
    with mercury.store.transaction() as tx:
        return tx.rms.backlog(sender._channel.key)


def place(tx: Transaction, sender: Sender, number: int) -> None:
    """A row of the application's, and a message about it."""
    tx.connection().execute(INSERT, {"number": number})
    sender.send(Order(number), operation="put", correlation=str(number), tx=tx)


class Shelf:
    """A store with a table of the application's beside it."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        with self.engine.begin() as connection:
            connection.execute(text("create table placed (id int primary key)"))
        self.mercury = Mercury(url, settings=settings())
        self.sender = self.mercury.to(URL)

    def both(self) -> tuple[list[int], list[int]]:
        with self.engine.connect() as connection:
            placed = connection.scalars(text("select id from placed order by id")).all()
            sent = connection.scalars(text("select correlation from mercury_rms_message order by position")).all()
        return list(placed), [int(each) for each in sent]

    def close(self) -> None:
        self.mercury.stop()
        self.engine.dispose()


@asynccontextmanager
async def session(shelf: Shelf) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine  # noqa: PLC0415  needs greenlet

    engine = create_async_engine(shelf.engine.url)
    try:
        async with AsyncSession(engine) as work:
            yield work
    finally:
        await engine.dispose()


@asynccontextmanager
async def connection(shelf: Shelf) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415  needs greenlet

    engine = create_async_engine(shelf.engine.url)
    try:
        async with engine.connect() as work:
            yield work
    finally:
        await engine.dispose()
