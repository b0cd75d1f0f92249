"""An application in the process of its engine: a lone message leaves behind the commit of the application."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from mercury import Mercury, Service
from mercury.engine.events import Transmitted
from mercury.engine.exchange import Outgoing, Purpose
from mercury.errors import DataError
from mercury.storage.records import SequenceKey
from mercury.storage.sql.transaction import SqlTransaction
from tests.patience import patience
from tests.stores import EVERY, urls_of

PATIENCE = patience(30.0)


class Shop:
    """A server, and a client whose sequence exists; what posts its messages is noted."""

    def __init__(self, client: str, monkeypatch: pytest.MonkeyPatch, *, resource: str | None = None) -> None:
        desk = Service("orders")
        desk.operation("put")(self._put)
        self.handled: list[bytes] = []
        self.server = Mercury("memory:")
        url = self.server.listen(desk)
        self.client = Mercury(client, resources=None if resource is None else {"books": resource})
        self.client.start()
        self.orders = self.client.to(f"{url}/services/orders")
        runtime = self.client.running_runtime
        assert runtime is not None
        #: Set when everything that the key has sent is acknowledged.
        self._quiet = threading.Event()
        appended = runtime._engine.source.appended
        acknowledged = appended.acknowledged

        def noted(key: SequenceKey) -> None:
            acknowledged(key)
            self._quiet.set()

        monkeypatch.setattr(appended, "acknowledged", noted)
        self.orders.send(b"<order>first</order>", operation="put")
        self.rest()
        #: How many messages turns of the engine have posted.
        self.from_turns = 0
        post = runtime.post

        def posted(posts: list[Outgoing]) -> None:
            if threading.current_thread().name == "mercury-rms":
                self.from_turns += sum(each.purpose is Purpose.MESSAGE for each in posts)
            post(posts)

        monkeypatch.setattr(runtime, "post", posted)
        #: How often something was left to be done behind a commit.
        self.behind = 0
        run_behind = runtime.run_behind

        def left(call: Callable[[], None]) -> None:
            self.behind += 1
            run_behind(call)

        monkeypatch.setattr(runtime, "run_behind", left)

    def _put(self, order: bytes) -> None:
        self.handled.append(order)

    def rest(self) -> None:
        """Wait until everything is acknowledged, and the process knows it."""
        assert self._quiet.wait(PATIENCE)
        self._quiet.clear()

    def close(self) -> None:
        self.client.stop()
        self.server.stop()


SECOND = [b"<order>first</order>", b"<order>second</order>"]


@pytest.fixture(params=EVERY)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return urls_of(request.param, request, tmp_path)()


@pytest.fixture
def shop(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    made = Shop(url, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def postgres(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return urls_of("postgres", request, tmp_path)()


def test_lone_message_leaves_behind_the_commit_of_its_transaction(shop: Shop) -> None:
    with shop.client.transaction() as tx:
        shop.orders.send(b"<order>second</order>", operation="put", tx=tx)
    shop.rest()
    shop.orders.send(b"<order>third</order>", operation="put")
    shop.rest()
    assert (shop.behind, shop.from_turns) == (2, 0)
    assert shop.handled == [*SECOND, b"<order>third</order>"]


def test_lone_message_of_an_event_loop_leaves_behind_its_commit(shop: Shop) -> None:
    async def send() -> None:
        async with shop.client.atransaction() as tx:
            await tx.run_sync(lambda sync: shop.orders.send(b"<order>second</order>", operation="put", tx=sync))
        await asyncio.to_thread(shop.rest)
        await shop.orders.asend(b"<order>third</order>", operation="put")

    asyncio.run(send())
    shop.rest()
    assert (shop.behind, shop.from_turns) == (2, 0)
    assert shop.handled == [*SECOND, b"<order>third</order>"]


def test_message_in_a_transaction_that_the_application_commits_is_left_to_the_engine(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, engine = Shop(postgres, monkeypatch), create_engine(postgres)
    with Session(engine) as session, session.begin(), shop.client.transaction(session) as tx:
        shop.orders.send(b"<order>second</order>", operation="put", tx=tx)
    shop.rest()
    assert (shop.behind, shop.from_turns) == (0, 1)
    assert shop.handled == SECOND
    shop.close()
    engine.dispose()


def test_message_in_a_transaction_of_several_databases_is_left_to_the_engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = urls_of("postgres", request, tmp_path)
    books = urls()
    shop = Shop(urls(), monkeypatch, resource=books)
    with shop.client.transaction() as tx:
        tx.connection("books").execute(text("create table placed (name text)"))
        shop.orders.send(b"<order>second</order>", operation="put", tx=tx)
    shop.rest()
    assert (shop.behind, shop.from_turns) == (0, 1)
    assert shop.handled == SECOND
    shop.close()


def test_nothing_leaves_if_the_commit_fails(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_tx: SqlTransaction) -> None:
        raise DataError("refused")

    shop = Shop(postgres, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(SqlTransaction, "commit_store", fail)
        with pytest.raises(DataError):
            shop.orders.send(b"<order>never</order>", operation="put")
    assert shop.behind == 0
    shop.orders.send(b"<order>second</order>", operation="put")
    shop.rest()
    assert shop.handled == SECOND
    shop.close()


def test_observers_are_not_called_in_the_thread_of_the_application(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold a lock that they need."""
    threads: list[threading.Thread] = []
    shop = Shop(postgres, monkeypatch)
    shop.client.subscribe(lambda _event: threads.append(threading.current_thread()), Transmitted)
    shop.orders.send(b"<order>second</order>", operation="put")
    shop.rest()
    assert threads
    assert threading.current_thread() not in threads
    assert shop.behind == 1
    shop.close()


def test_message_that_is_committed_while_the_engine_stops_is_left(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(postgres, monkeypatch)
    runtime = shop.client.running_runtime
    assert runtime is not None
    runtime._stopping.set()
    shop.orders.send(b"<order>second</order>", operation="put")
    assert shop.behind == 0
    runtime._stopping.clear()
    shop.close()
