"""A message and the application's own rows in one transaction of the application's: both, or neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.orm import Session

from mercury import Mercury, StorageError
from mercury.client.sender import Sender
from mercury.errors import CapabilityError
from mercury.storage.api import Topic
from mercury.storage.opening import open_store
from mercury.testing.contract.attachments import LETTER, write
from tests.acceptance.processes import eventually

from .shop import Order, settings

URL = "http://127.0.0.1:1/services/shop"
INSERT = text("insert into placed values (:number)")


class Place:
    """A store, an application's table in the same database, and a sender."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = create_engine(url)
        with self.engine.begin() as connection:
            connection.execute(text("create table placed (id int primary key)"))
        self.mercury = Mercury(url, settings=settings())
        self.sender: Sender = self.mercury.to(URL)
        #: The topics that the store announced after commits.
        self.told: list[frozenset[Topic]] = []
        self.mercury.store.listen(self.told.append)

    def place(self, work: Any, number: int) -> None:
        """A row of the application's, and a message about it."""
        work.execute(INSERT, {"number": number})
        with self.mercury.transaction(work) as tx:
            self.sender.send(Order(number), operation="put", correlation=str(number), tx=tx)

    def both(self) -> tuple[list[int], list[int]]:
        """What is committed: rows, and messages."""
        with self.engine.connect() as connection:
            placed = connection.scalars(text("select id from placed order by id")).all()
            sent = connection.scalars(text("select correlation from mercury_rms_message order by position")).all()
        return list(placed), [int(each) for each in sent]

    def close(self) -> None:
        self.mercury.stop()
        self.engine.dispose()


@pytest.fixture
def place(sql_url: str) -> Iterator[Place]:
    made = Place(sql_url)
    yield made
    made.close()


@contextmanager
def session(place: Place) -> Iterator[tuple[Session, Any]]:
    with Session(place.engine) as work:
        yield work, work


@contextmanager
def connection(place: Place) -> Iterator[tuple[Connection, Any]]:
    with place.engine.connect() as work:
        yield work, work


@contextmanager
def bound_session(place: Place) -> Iterator[tuple[Session, Any]]:
    """A session in a transaction that a connection began."""
    with place.engine.connect() as outer, Session(bind=outer, join_transaction_mode="control_fully") as work:
        yield work, work


WORK = pytest.mark.parametrize("work", [session, connection, bound_session])


@WORK
def test_the_commit_of_the_application_commits_both_and_is_heard_of(place: Place, work: Any) -> None:
    with work(place) as (mine, end):
        place.place(mine, 1)
        place.place(mine, 2)
        assert place.told == []
        assert place.both() == ([], [])
        end.commit()
        assert place.both() == ([1, 2], [1, 2])
        eventually(lambda: frozenset((Topic.RMS,)) in place.told, "the worker is called")
        place.place(mine, 3)  # the next transaction on the same object
        end.commit()
    assert place.both() == ([1, 2, 3], [1, 2, 3])


@WORK
def test_the_rollback_of_the_application_keeps_neither(place: Place, work: Any) -> None:
    with work(place) as (mine, end):
        place.place(mine, 1)
        end.rollback()
        place.place(mine, 2)
        end.commit()
        place.place(mine, 3)  # and is left without a commit
    assert place.both() == ([2], [2])


@WORK
def test_a_transaction_that_fails_at_its_commit_keeps_neither_and_is_not_heard_of(place: Place, work: Any) -> None:
    with work(place) as (mine, _), pytest.raises(Exception, match=r"(?i)unique"):
        place.place(mine, 1)
        place.place(mine, 1)
    assert place.both() == ([], [])
    assert place.told == []


def test_leaving_the_block_commits_nothing_by_itself(place: Place) -> None:
    with Session(place.engine) as work:
        with place.mercury.transaction(work) as tx:
            place.sender.send(Order(1), operation="put", correlation="1", tx=tx)
            tx.connection().execute(INSERT, {"number": 1})
        work.rollback()
        with place.mercury.transaction(work) as tx:
            place.sender.send(Order(2), operation="put", correlation="2", tx=tx)
            tx.connection().execute(INSERT, {"number": 2})
        work.commit()
    assert place.both() == ([2], [2])


def test_a_savepoint_of_the_application_takes_its_messages_with_it(place: Place) -> None:
    with Session(place.engine) as work:
        place.place(work, 1)
        with pytest.raises(LookupError), work.begin_nested():
            place.place(work, 2)
            raise LookupError
        with work.begin_nested():
            place.place(work, 3)
        work.commit()
    assert place.both() == ([1, 3], [1, 3])


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("kind", [Session, Connection])
def test_message_behind_the_end_of_a_joined_transaction_is_refused(place: Place, kind: type, end: str) -> None:
    """It would be part of the next transaction, whose commit no worker hears of."""
    with Session(place.engine) if kind is Session else place.engine.connect() as work:
        with place.mercury.transaction(work) as tx:
            place.sender.send(Order(1), operation="put", correlation="1", tx=tx)
        getattr(work, end)()
        with pytest.raises(StorageError, match="begin another"):
            place.sender.send(Order(2), operation="put", correlation="2", tx=tx)
        place.place(work, 3)
        work.commit()
    assert place.both() == ([3], [1, 3] if end == "commit" else [3])


def test_application_may_end_a_joined_transaction_within_the_block(place: Place) -> None:
    with Session(place.engine) as work:
        with place.mercury.transaction(work) as tx:
            place.sender.send(Order(1), operation="put", correlation="1", tx=tx)
            work.commit()
        place.place(work, 2)
        work.commit()
    assert place.both() == ([2], [1, 2])


def test_an_action_after_the_commit_follows_no_savepoint(place: Place) -> None:
    followed: list[int] = []
    with Session(place.engine) as work:
        with place.mercury.transaction(work):
            pass
        with place.mercury.store.join(work) as tx:
            tx.after_commit(lambda: followed.append(1))
        with work.begin_nested(), work.begin_nested():
            place.place(work, 1)
        assert (followed, place.told) == ([], []), "nothing is committed yet"
        work.begin_nested()  # the commit ends it
        place.place(work, 2)
        work.commit()
        assert followed == [1]
    assert place.both() == ([1, 2], [1, 2])


def test_attachments_of_a_row_that_the_application_commits_away_are_left_to_the_search(place: Place) -> None:
    with place.mercury.store.transaction() as tx:
        write(tx, "1")
        tx.dead_letters.add([LETTER])
    store = open_store(place.url)  # of a process that has not seen an attachment yet
    with Session(place.engine) as session:
        with store.join(session) as tx:
            assert tx.dead_letters.delete("letter") is not None
        session.commit()
    assert store.has_attachments
    assert store.remove_attachments(9) == 1
    assert not store.has_attachments
    store.close()


def test_two_sessions_on_one_engine_are_two_transactions(postgres_url: str) -> None:
    place = Place(postgres_url)
    with Session(place.engine) as first, Session(place.engine) as second:
        place.place(first, 1)
        place.place(second, 2)
        first.rollback()
        second.commit()
    assert place.both() == ([2], [2])
    place.close()


def test_the_synchronous_side_of_an_asynchronous_one_is_taken(place: Place) -> None:
    with Session(place.engine) as work, place.engine.connect() as other:
        work.execute(INSERT, {"number": 1})
        with place.mercury.transaction(cast(Session, SimpleNamespace(sync_session=work))) as tx:
            place.sender.send(Order(1), operation="put", correlation="1", tx=tx)
        work.commit()
        other.execute(INSERT, {"number": 2})
        taken = cast(Connection, SimpleNamespace(sync_connection=other))
        with place.mercury.transaction(taken) as tx:
            place.sender.send(Order(2), operation="put", correlation="2", tx=tx)
        other.commit()
    assert place.both() == ([1, 2], [1, 2])


def test_an_asynchronous_session_works_within_run_sync(postgres_url: str) -> None:
    pytest.importorskip("greenlet", reason="asynchronous sessions of SQLAlchemy need greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine  # noqa: PLC0415  not every test needs it

    place = Place(postgres_url)

    async def use() -> None:
        engine = create_async_engine(postgres_url)
        async with AsyncSession(engine) as mine:
            await mine.run_sync(lambda sync: place.place(sync, 1))
            await mine.rollback()
            await mine.run_sync(lambda sync: place.place(sync, 2))
            await mine.commit()
        async with engine.begin() as other:
            await other.run_sync(lambda sync: place.place(sync, 3))
        await engine.dispose()

    asyncio.run(use())
    assert place.both() == ([2, 3], [2, 3])
    place.close()


# --- what cannot be joined ------------------------------------------------------------------------------------------


def test_a_session_of_another_database_is_refused_before_anything_is_written(place: Place, tmp_path: Path) -> None:
    other = create_engine(f"sqlite:///{tmp_path}/other.db")
    with other.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
    twin = Mercury(f"sqlite:///{tmp_path}/twin.db", settings=settings())
    try:
        for url in (f"sqlite:///{tmp_path}/other.db", f"sqlite:///{tmp_path}/twin.db"):
            engine = create_engine(url)
            with (
                Session(engine) as work,
                pytest.raises(CapabilityError, match=r"another database.*resources"),
                place.mercury.transaction(work),
            ):
                pass
            engine.dispose()
        with other.connect() as connection:
            assert connection.scalars(text("select name from sqlite_master where type = 'table'")).all() == ["placed"]
        with twin.transaction() as tx:
            assert tx.rms.backlog(place.sender._channel.key) == 0
        assert place.both() == ([], [])
    finally:
        twin.stop()
        other.dispose()


def test_a_session_whose_commits_may_be_lost_is_refused(postgres_url: str) -> None:
    place = Place(postgres_url)
    careless = create_engine(postgres_url, connect_args={"options": "-c synchronous_commit=off"})
    with Session(careless) as work, pytest.raises(CapabilityError, match="synchronous_commit off"):
        place.place(work, 1)
    careless.dispose()
    assert place.both() == ([], [])
    place.close()


@pytest.mark.parametrize("work", ["begin", 1, object()], ids=["a text", "a number", "a thing"])
def test_object_that_is_no_transaction_is_refused(place: Place, work: Any) -> None:
    with pytest.raises(CapabilityError, match="Session or Connection"), place.mercury.transaction(work):
        pass
    with pytest.raises(CapabilityError, match=r"mercury\.transaction\(session\)"):
        place.sender.send(Order(1), operation="put", tx=work)
    assert place.both() == ([], [])


def test_a_session_is_no_transaction_to_send_with_and_the_error_says_what_is(place: Place) -> None:
    with Session(place.engine) as work:
        with pytest.raises(CapabilityError, match=r"not Session; .* `with mercury\.transaction\(session\) as tx`"):
            place.sender.send(Order(1), operation="put", tx=cast(Any, work))
        work.commit()
    assert place.both() == ([], [])


def test_memory_cannot_be_joined(place: Place) -> None:
    memory = Mercury("memory:", settings=settings())
    try:
        with Session(place.engine) as work, pytest.raises(CapabilityError, match="memory:"):
            memory.transaction(work)
    finally:
        memory.stop()


# --- Mercury's own transaction ---------------------------------------------------------------------------------------


def test_an_application_cannot_commit_what_is_mercurys_to_commit(place: Place) -> None:
    with (
        pytest.raises(StorageError, match="it commits when its 'with' block is left"),
        place.mercury.transaction() as tx,
    ):
        place.sender.send(Order(1), operation="put", correlation="1", tx=tx)
        tx.connection().execute(INSERT, {"number": 1})
        tx.connection().commit()
    assert place.both() == ([], [])


def test_an_application_that_rolls_back_keeps_nothing_and_gets_an_error(place: Place) -> None:
    with pytest.raises(StorageError, match="has rolled back"), place.mercury.transaction() as tx:
        tx.connection().execute(INSERT, {"number": 1})
        tx.connection().rollback()
        place.sender.send(Order(2), operation="put", correlation="2", tx=tx)
    assert place.both() == ([], [])


def test_the_commit_of_its_session_ends_only_the_sessions_part(place: Place) -> None:
    def run(fail: bool, number: int) -> None:
        with place.mercury.transaction() as tx:
            work = tx.session()
            place.sender.send(Order(number), operation="put", correlation=str(number), tx=tx)
            work.execute(INSERT, {"number": number})
            work.commit()
            if fail:
                raise LookupError

    with pytest.raises(LookupError):
        run(True, 1)
    assert place.both() == ([], [])
    run(False, 2)
    assert place.both() == ([2], [2])


def test_actions_after_a_joined_commit_run_after_it(place: Place) -> None:
    done = threading.Event()
    with Session(place.engine) as work:
        with place.mercury.transaction(work) as tx:
            tx.after_commit(done.set)
            place.place(work, 1)
        assert not done.is_set()
        work.commit()
    assert done.is_set()


def test_commit_of_a_connection_that_takes_long_is_heard_of_when_it_is_over(place: Place) -> None:
    """A worker that is called before finds nothing, and looks again only when it polls."""
    heard, called = threading.Event(), threading.Event()
    place.mercury.store.listen(lambda _: heard.set())
    early: list[bool] = []

    def commit_slowly(driver: Any) -> None:
        early.append(heard.wait(0.3) or called.is_set())
        commit(driver)

    with place.engine.connect() as work:
        commit, work.dialect.do_commit = work.dialect.do_commit, commit_slowly  # type: ignore[method-assign]
        place.place(work, 1)
        with place.mercury.transaction(work) as tx:
            tx.after_commit(called.set)
        work.commit()
    assert early == [False]
    eventually(lambda: heard.is_set() and called.is_set(), "it is heard of")
    assert place.both() == ([1], [1])
