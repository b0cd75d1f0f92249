"""A transaction that delivers from several sequences deadlocks with one of the application's own."""

from __future__ import annotations

import threading
from collections import Counter

from sqlalchemy import create_engine, text

from mercury.engine.application import MessageContext
from mercury.engine.events import HandlerFailed
from mercury.storage.opening import open_sql_store
from tests.acceptance.processes import PATIENCE, eventually

from .test_many_buffers import NOW, arrived, names, texts_of

WAITING = "select count(*) from pg_locks where not granted"


def test_a_deadlock_of_a_shared_transaction_loses_nothing_and_is_not_repeated(postgres_url: str) -> None:
    store, engine = open_sql_store(postgres_url), create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("create table stock (name text primary key, value integer not null)"))
        connection.execute(text("insert into stock values ('x', 0), ('y', 0)"))
    pair, _ = arrived(store, names(2), texts=1)
    add = text("update stock set value = value + :value where name = :name")
    calls: list[str] = []
    failures: list[HandlerFailed] = []
    pair.server.observers.subscribe(failures.append, HandlerFailed)
    holds_y, x_is_taken, application_ended = threading.Event(), threading.Event(), threading.Event()

    def application() -> None:
        """Takes the rows in the other order. The database ends Mercury's transaction: this one does not look."""
        with engine.begin() as connection:
            connection.execute(text("set local deadlock_timeout = '1h'"))
            connection.execute(add, {"name": "y", "value": 100})
            holds_y.set()
            assert x_is_taken.wait(PATIENCE)
            connection.execute(add, {"name": "x", "value": 100})
        application_ended.set()

    def waiting() -> int:
        with engine.connect() as connection:
            return int(connection.execute(text(WAITING)).scalar_one())

    def handler(context: MessageContext, _text: str) -> None:
        calls.append("x" if len(calls) != 1 else "y")
        connection = context.transaction.connection()
        connection.execute(text("set local deadlock_timeout = '10ms'"))
        connection.execute(add, {"name": calls[-1], "value": 1})
        if len(calls) == 1:
            x_is_taken.set()
            eventually(waiting, "the application waits for x")

    pair.server.on_put = handler
    thread = threading.Thread(target=application)
    thread.start()
    try:
        assert holds_y.wait(PATIENCE)
        pair.server.engine.invocation.run_once(NOW)
    finally:
        x_is_taken.set()
        thread.join(PATIENCE)
    assert application_ended.is_set()
    assert Counter(pair.server.handled) == Counter(["<order>first</order>", *texts_of(names(2), texts=1)])
    assert calls == ["x", "y", "x", "x"], "both together, and then each alone"
    assert failures == [], "a deadlock is no failed attempt"
    with engine.connect() as connection:
        stock = {row.name: row.value for row in connection.execute(text("select name, value from stock"))}
    assert stock == {"x": 102, "y": 100}
    engine.dispose()
    store.close()
