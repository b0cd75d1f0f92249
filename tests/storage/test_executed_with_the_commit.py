"""What the handler of a lone message has left is executed with the commit of the arrival (decision 108)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from mercury.engine.delivery.call_times import QUICK
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .round_trips import relay
from .test_delivery_on_arrival import NOW, Shop, opened


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    yield from opened(postgres_url)


def test_statement_that_is_executed_with_the_commit_fails_as_the_call_of_the_invoker(store: SqlStore) -> None:
    shop = Shop(store)
    shop.leaves = True
    shop.bring("known")
    assert (shop.placed(), shop.stored()) == ([], 1)
    assert shop.calls == ["known"]
    with store.transaction() as tx:
        (record,) = tx.invoker.all()
    assert record.attempts == 0, "it is stored as if no handler had been called"
    shop.work()
    with store.transaction() as tx:
        (record,) = tx.invoker.all()
    assert record.attempts == 1
    assert "(in insert into placed values (:name))" in (record.last_error or "")
    assert shop.stored() == 1


def test_statement_of_the_last_of_several_messages_is_executed_before_the_commit(store: SqlStore) -> None:
    shop = Shop(store)
    shop.leaves = True
    shop.bring("a", "known")
    assert (shop.placed(), shop.stored()) == (["a"], 1)


def test_constraint_that_is_checked_at_the_commit_fails_the_call_on_arrival(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table checked (name text unique deferrable initially deferred)"))
    shop = Shop(store)
    shop.leaves = True
    shop.meanwhile = lambda context, _name: [
        context.transaction.execute_later("insert into checked values (:name)", {"name": "same"}) for _ in range(2)
    ]
    shop.bring("a")
    assert shop.stored() == 1
    with store.transaction() as tx:
        (record,) = tx.invoker.all()
    assert record.attempts == 1, "the transaction has not failed"


def test_after_a_commit_that_took_long_the_statement_of_the_next_handler_is_measured_with_its_call(
    store: SqlStore, postgres_url: str
) -> None:
    with relay(postgres_url) as between:
        far = open_sql_store(between.url, database_clock=False)
        shop, time, commit_takes = Shop(far), 0.0, 0.0
        shop.leaves = True
        shop.bring("a")  # what the first one prepares
        shop.server.engine._context.claims.monotonic = lambda: time

        def commits() -> None:
            nonlocal time
            time += commit_takes

        shop.meanwhile = lambda context, _name: context.transaction.after_commit(commits)
        counts = []
        for name, commit_takes in (("b", 0.0), ("c", QUICK + 0.001), ("d", 0.0), ("e", 0.0)):  # noqa: B007
            posts = shop.posts(name)
            with between.counted() as found:
                shop.client.receive(shop.carry(posts, NOW), NOW)
            counts += found
        assert counts == [2, 2, 3, 2]
        far.close()
