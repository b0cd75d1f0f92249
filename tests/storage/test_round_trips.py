"""A lone message waits for its database a few times only, and what shares a round trip fails as it would alone."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy import bindparam, select, text

from mercury.errors import Conflict, DataError, NotActive, TransientStorageError
from mercury.storage.claims import ACTIVE_MEMBER, Claim
from mercury.storage.memory import MemoryStore
from mercury.storage.sql.prepared import Prepared, session_of
from mercury.storage.sql.round_trips import Call, CommitFailed, Session
from mercury.storage.sql.schema import RMS_KEY
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.store_connections import StoreConnection
from mercury.testing.contract.builders import row

from .pair import Pair, Side, channel
from .round_trips import Relay

NOW = 1_800_000_000.0
INSERT = text("insert into placed values (:id)")
LEASE = 30.0


@pytest.fixture
def store(placing_store: SqlStore) -> SqlStore:
    return placing_store


def placed(store: SqlStore) -> list[int]:
    with store.engine.connect() as connection:
        return list(connection.execute(text("select id from placed order by id")).scalars())


# --- how many ---------------------------------------------------------------------------------------------------------


def test_a_lone_message_at_its_source(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    pair = Pair(store, MemoryStore())
    for number in range(3):  # the statements are prepared
        pair.send([f"before {number}"])
        pair.run(NOW)
    pair.send(["lone"])
    with between.counted() as transmitted:
        step = pair.client.engine.source.run_once(NOW)
    replies = pair.carry(step.posts, NOW)
    with between.counted() as acknowledged:
        pair.client.receive(replies, NOW)
    with between.counted() as sent, store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
    assert sent == [3], "BEGIN, the application's statement; the message, the commit and the notification"
    assert transmitted == [3], "what is due; the locks and the rows under them; the changes and the commit"
    assert acknowledged == [3], "the locks and the rows under them; how many rows are deleted; the commit"


def test_a_lone_message_whose_commit_has_named_its_key(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    pair = Pair(store, MemoryStore())
    for number in range(3):
        pair.send([f"before {number}"])
        pair.run(NOW)
    source = pair.client.engine.source
    source.run_once(NOW)
    pair.send(["lone"])
    with between.counted() as transmitted:
        source.appended.announce({channel().key.digest})
        step = source.run_once(NOW)
    assert [post.number for post in step.posts] == [4]
    assert transmitted == [2], "the locks and the rows under them; the changes and the commit"


def test_a_lone_message_at_its_destination(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    pair, numbers = Pair(MemoryStore(), store), iter(range(10))
    pair.server = Side(
        store, on_put=lambda context, _: context.transaction.connection().execute(INSERT, {"id": next(numbers)})
    )
    for number in range(3):
        pair.send([f"before {number}"])
        pair.run(NOW)
    pair.send(["lone"])
    _, posts = pair.client.turn(NOW)
    with between.counted() as received:
        pair.carry(posts, NOW)
    with between.counted() as handled:
        pair.server.engine.invocation.run_once(NOW)
    assert placed(store) == [0, 1, 2, 3]
    assert received == [2], "the locks and the rows under them; the message and the commit"
    assert handled == [5], "what is due; the buffer; the application's statement; the delivery; claims and commit"


def test_locks_before_handlers(far: tuple[SqlStore, Relay]) -> None:
    """The acknowledgements and the requests of one arrival: no setting of Mercury's has to end before a handler."""
    store, between = far
    for _ in range(2):  # the statements are prepared, and the key is stored
        with between.counted() as locked, store.transaction() as tx:
            tx.rmd.lock(["any"], delivered=["any"])
            tx.rms.lock([channel().key], records=True)
            tx.connection()
    assert locked == [3], "the sequence and its buffer; the key; the end"


def test_a_lone_message_that_is_delivered_on_arrival(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    pair, numbers = Pair(MemoryStore(), store), iter(range(10))
    pair.server = Side(
        store,
        on_put=lambda context, _: context.transaction.connection().execute(INSERT, {"id": next(numbers)}),
        on_arrival=True,
    )
    for number in range(3):
        pair.send([f"before {number}"])
        pair.run(NOW)
    pair.send(["lone"])
    _, posts = pair.client.turn(NOW)
    with between.counted() as received:
        pair.carry(posts, NOW)
    assert placed(store) == [0, 1, 2, 3]
    assert received == [3], "the locks, the rows under them and the savepoint; the application's statement; the commit"


def test_answers_read_ahead_hold_until_the_transaction_changes_something(store: SqlStore) -> None:
    query = Prepared(select(RMS_KEY.c.name).where(RMS_KEY.c.key_id == bindparam("key_id")))
    question = query, {"key_id": "a"}
    new = {"key_id": "a", "endpoint": "urn:there", "name": "till"}
    with store.transaction() as tx:
        tx.read_ahead([question])
        assert tx.is_ahead(question)
        tx.insert_later(RMS_KEY, [new])
        assert [each["name"] for each in tx.read(*question)] == ["till"]
        tx.read_ahead([question])
        tx.update(RMS_KEY, "key_id", [new | {"name": "other"}])
        assert [each["name"] for each in tx.read(*question)] == ["other"]


# --- what fails -------------------------------------------------------------------------------------------------------


def test_a_claim_that_is_lost_ends_the_transaction_before_its_commit(store: SqlStore) -> None:
    claim = store.claim("rms a", "first", NOW, LEASE)
    assert claim is not None
    with pytest.raises(Conflict, match="rms a"), store.transaction() as tx:
        tx.guard(claim)
        tx.writing().execute(INSERT, {"id": 1})
        store.release(claim)
        assert store.claim("rms a", "second", NOW, LEASE) is not None
    assert placed(store) == []


def test_of_two_claims_the_one_that_is_lost_is_told(store: SqlStore) -> None:
    first, second = (store.claim(name, "me", NOW, LEASE) for name in ("rms a", "rms b"))
    assert first is not None
    assert second is not None
    store.release(second)
    with pytest.raises(Conflict, match="rms b"), store.transaction() as tx:
        tx.guard(first)
        tx.guard(second)
        tx.writing().execute(INSERT, {"id": 1})
    assert placed(store) == []


def test_a_member_that_is_not_active_any_more_is_told_so(store: SqlStore) -> None:
    store.guard_all(Claim(ACTIVE_MEMBER, "me", 7))
    with pytest.raises(NotActive), store.transaction() as tx:
        tx.writing().execute(INSERT, {"id": 1})
    store.guard_all(None)
    assert placed(store) == []


def test_a_message_that_is_there_already_is_a_conflict_although_the_commit_is_sent_with_it(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:1"))
    with pytest.raises(Conflict), store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
    assert placed(store) == []


def test_a_transaction_with_a_failed_statement_is_not_reported_as_committed(store: SqlStore) -> None:
    with store.engine.connect() as connection:
        session = session_of(connection)
        assert session is not None
        session.run([Call("select 1", {})])
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.run([Call("select 1 / %(by)s::int", {"by": "0"})])
        with pytest.raises(CommitFailed, match="rolled back"):
            session.run([], commit=True)


def test_values_that_cannot_be_sent_leave_the_transaction_as_it_was(store: SqlStore) -> None:
    with pytest.raises(DataError), store.transaction() as tx:
        tx.rms.append(row("urn:message:\0"))
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:1"))


def test_more_than_a_network_buffer_is_sent_and_received_together(store: SqlStore) -> None:
    with store.engine.connect() as connection:
        session = session_of(connection)
        assert session is not None
        large = "x" * 3_000_000
        calls = [Call("select %(text)s::text", {"text": large}) for _ in range(3)]
        assert session.run(calls) == [[(large,)]] * 3


# --- prepared statements that are gone --------------------------------------------------------------------------------


def deallocating(store: SqlStore) -> Session:
    """The session of the store's only connection, whose prepared statements an application has deallocated."""
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:0"))
    with store.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, StoreConnection)
        assert driver.session.run([Call("select %(n)s::int", {"n": "1"})]) == [[(1,)]]
        connection.rollback()
        driver.execute("deallocate all")
        driver.commit()
        return driver.session


def test_statements_that_an_application_has_deallocated_are_prepared_again(store: SqlStore) -> None:
    session = deallocating(store)
    assert not session.doubtful
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:1"))


def test_after_a_rollback_nothing_is_dearer(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    for number in range(3):
        with store.transaction() as tx:
            tx.connection().execute(INSERT, {"id": number})
            tx.rms.append(row(f"urn:message:{number}"))
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 3})
        assert 1 / 0
    with between.counted() as sent, store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 4})
        tx.rms.append(row("urn:message:4"))
    assert sent[0] <= 4, "psycopg may have to prepare the application's statement again"


def test_an_application_may_roll_back_to_a_savepoint_and_send_behind_it(store: SqlStore) -> None:
    """psycopg deallocates all statements of the session then, in the middle of the transaction."""
    for number in range(4):
        with store.transaction() as tx:
            connection = tx.connection()
            for _ in range(3):  # psycopg prepares it
                connection.execute(text("select count(*) from placed"))
            nested = connection.begin_nested()
            connection.execute(INSERT, {"id": number})
            nested.rollback()
            connection.execute(text("select 1"))
            tx.rms.append(row(f"urn:message:{number}"))
    with store.transaction() as tx:
        assert all(tx.rms.row(f"urn:message:{number}") is not None for number in range(4))


def test_an_application_may_make_tables_and_send_behind_it(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:0"))
    with store.transaction() as tx:
        connection = tx.connection()
        for _ in range(3):
            connection.execute(text("select count(*) from placed"))
        connection.execute(text("create table more (id int)"))
        connection.execute(text("drop table more"))
        connection.execute(text("select 1"))
        tx.rms.append(row("urn:message:1"))
    with store.transaction() as tx:
        assert tx.rms.row("urn:message:1") is not None


def test_a_server_that_ends_the_session_is_told_as_transient(store: SqlStore) -> None:
    with pytest.raises(TransientStorageError), store.transaction() as tx:
        pid = tx.writing().execute(text("select pg_backend_pid()")).scalar_one()
        with psycopg.connect(store.url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
            other.execute("select pg_terminate_backend(%s)", (pid,))
        tx.rms.append(row("urn:message:1"))
    with store.transaction() as tx:
        assert tx.rms.row("urn:message:1") is None
