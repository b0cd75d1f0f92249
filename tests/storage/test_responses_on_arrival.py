"""Delivery of responses on arrival over PostgreSQL (decision 103): each is given to its callback once, in order, and
what a callback does or suffers holds up nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from mercury.engine.application import MessageContext
from mercury.engine.exchange import Arrival, Outgoing, Purpose
from mercury.storage.memory import MemoryStore
from mercury.storage.sql.store import SqlStore

from .pair import URL, Pair, Side
from .test_delivery_on_arrival import INSERT, NOW, PATIENCE, broken_off, busy, opened
from .test_statements import Statements


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    """Leases are measured by the test's time."""
    yield from opened(postgres_url)


class Till(Pair):
    """A client that delivers on arrival. Its callback inserts its order, and is known to be quick."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store, MemoryStore())
        self.store = store
        #: The calls, whether or not they were committed.
        self.calls: list[str] = []
        #: Is called by the callback after its insert.
        self.meanwhile: Callable[[MessageContext, str], object] = lambda _context, _name: None
        self.client = Side(store, on_put=self._answered_with, on_arrival=True)
        self.bring("known")
        self.work()
        assert self.calls == ["known"]
        self.calls.clear()

    def _answered_with(self, context: MessageContext, order: str) -> None:
        name = order.removeprefix("<order>").removesuffix("</order>")
        self.calls.append(name)
        context.transaction.connection().execute(INSERT, {"name": name})
        self.meanwhile(context, name)

    def posts(self, *names: str, key: str = "till") -> list[Outgoing]:
        """The client posts these requests; they have not arrived yet."""
        self.send(names, key, ask=True)
        _, posts = self.client.turn(NOW)
        if [post.purpose for post in posts] == [Purpose.CREATE]:
            posts = self.client.receive(self.carry(posts, NOW), NOW)
        requests = [post for post in posts if post.purpose is Purpose.MESSAGE]
        assert len(requests) == len(names)
        return requests

    def answered(self, *names: str, key: str = "till") -> list[Arrival]:
        """The responses to these requests, which have not arrived yet."""
        posts = self.posts(*names, key=key)
        held = self.hold(posts, NOW)
        while not all(each.response.done() for each in held):
            self.server.turn(NOW)
        replies = [each.response.result(0) for each in held]
        return [Arrival(http=reply, url=URL, request=post) for reply, post in zip(replies, posts, strict=True) if reply]

    def bring(self, *names: str, key: str = "till") -> None:
        """The responses to these requests arrive together; no worker runs at the client."""
        self.client.receive(self.answered(*names, key=key), NOW)

    def work(self, now: float = NOW) -> None:
        """The client's invoker delivers what it finds."""
        self.client.engine.invocation.run_once(now)

    def placed(self) -> list[str]:
        """What the callbacks have committed, apart from the first order."""
        with self.store.engine.connect() as connection:
            return list(connection.scalars(text("select name from placed where name <> 'known' order by name")))

    def stored(self) -> int:
        """The responses that wait for the invoker."""
        return self._count("mercury_invoker_message")

    def requests(self) -> int:
        """The requests that the client keeps."""
        return self._count("mercury_rms_message")

    def _count(self, table: str) -> int:
        with self.store.engine.connect() as connection:
            return int(connection.scalar(text(f"select count(*) from {table}")) or 0)


# --- what is delivered ------------------------------------------------------------------------------------------------


def test_responses_are_consumed_by_one_commit_and_as_many_statements_as_there_are_callbacks(store: SqlStore) -> None:
    till, statements = Till(store), Statements(store)
    till.bring("a")  # what the first one prepares
    costs = []
    for names in (["b"], [f"c{number}" for number in range(8)]):
        arrivals = till.answered(*names)
        with statements.during("receive"):
            till.client.receive(arrivals, NOW)
        assert statements.commits["receive"] == 1
        assert statements.said("INSERT INTO mercury_invoker_message") == 0, "none is stored"
        assert statements.said("insert into placed") == len(names)
        costs.append(statements.counts["receive"] - len(names))
    assert costs[0] <= costs[1] <= costs[0] + 1, "the window grows"
    assert (till.stored(), till.requests()) == (0, 0)
    assert len(till.placed()) == 10


def test_responses_that_are_repeated_in_one_transaction_and_after_it_are_delivered_once(store: SqlStore) -> None:
    till, statements = Till(store), Statements(store)
    arrivals = till.answered("a", "b", "c")
    with statements.during("receive"):
        till.client.receive([*arrivals, *arrivals, arrivals[0]], NOW)
    assert statements.commits["receive"] == 1, "they are no reason to begin again"
    assert till.calls == till.placed() == ["a", "b", "c"]
    till.client.receive(arrivals, NOW)
    till.client.receive([*till.answered("d"), *arrivals], NOW)
    till.work()
    assert till.calls == till.placed() == ["a", "b", "c", "d"]
    assert (till.stored(), till.requests()) == (0, 0)


def test_response_behind_a_gap_waits_and_is_delivered_with_the_one_before_it(store: SqlStore) -> None:
    till = Till(store)
    first, second = till.answered("a", "b")
    till.client.receive([second], NOW)
    assert (till.calls, till.stored()) == ([], 1)
    till.client.receive([first], NOW)
    till.work()
    assert till.calls == till.placed() == ["a", "b"]
    assert (till.stored(), till.requests()) == (0, 0)


def test_responses_that_wait_in_several_buffers_are_consumed_with_their_requests(store: SqlStore) -> None:
    till = Till(store)
    arrivals = [*till.answered("a"), *till.answered("b", key="other")]
    assert till.client.engine.on_arrival is not None
    till.client.engine.on_arrival.able = False
    till.client.receive(arrivals, NOW)
    assert (till.calls, till.stored()) == ([], 2)
    till.work()
    assert till.placed() == ["a", "b"]
    assert (till.stored(), till.requests()) == (0, 0)


# --- callbacks that hang ----------------------------------------------------------------------------------------------


def test_requests_are_sent_and_other_responses_received_while_a_callback_hangs(store: SqlStore) -> None:
    till = Till(store)
    till.bring("there before", key="other")
    till.calls.clear()
    elsewhere = till.answered("of another sequence", key="other")
    sent: list[Outgoing] = []

    def meanwhile() -> None:
        till.send(["next"], ask=True)  # on a connection of its own, with the key of the request
        sent.extend(till.client.engine.source.run_once(NOW).posts)
        till.client.receive(elsewhere, NOW)

    def hangs(_context: MessageContext, name: str) -> None:
        if name == "a":
            with ThreadPoolExecutor(1) as thread:  # as the threads of the workers and the second committer
                thread.submit(meanwhile).result(PATIENCE)

    till.meanwhile = hangs
    till.bring("a")
    till.work()
    assert till.placed() == ["a", "of another sequence", "there before"]
    assert [post.purpose for post in sent] == [Purpose.MESSAGE]
    assert sorted(till.calls) == ["a", "of another sequence"], "each was called once"
    assert till.stored() == 0


# --- callbacks and transactions that fail -----------------------------------------------------------------------------


def test_statement_of_a_callback_that_fails_leaves_the_work_of_the_others_and_is_tried_again(store: SqlStore) -> None:
    till = Till(store)
    till.bring("a", "known", "b")
    assert till.placed() == ["a"], "in order, the third waits for the second"
    assert (till.stored(), till.requests()) == (2, 2)
    with store.transaction() as tx:
        (record,) = [record for record in tx.invoker.all() if record.attempts]
    assert record.attempts == 1
    assert "UniqueViolation" in (record.last_error or "")
    with store.engine.begin() as connection:
        connection.execute(text("delete from placed where name = 'known'"))
    till.work((record.retry_at or 0) + 1)
    assert till.placed() == ["a", "b"]
    assert (till.stored(), till.requests()) == (0, 0)


@pytest.mark.parametrize("failure", [broken_off, busy])
def test_transaction_that_fails_in_a_callback_is_repeated_and_stores_its_responses(
    store: SqlStore, failure: Callable[[MessageContext, str], None]
) -> None:
    till = Till(store)
    till.meanwhile = failure
    till.bring("a", "b")
    assert (till.placed(), till.stored(), till.requests()) == ([], 2, 2)
    till.meanwhile = lambda _context, _name: None
    till.work()
    assert till.placed() == ["a", "b"]
    assert (till.stored(), till.requests()) == (0, 0)
