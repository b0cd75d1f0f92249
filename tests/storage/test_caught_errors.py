"""A handler catches an error of the database and goes on: PostgreSQL executes nothing more in its transaction."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError

from mercury import Transaction
from mercury.engine.delivery import shared
from mercury.errors import DataError, TransientStorageError
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from mercury.storage.application import Ending
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row
from tests.storage.placed_orders import PairOf, placed, send
from tests.storage.test_shared_savepoints import Shop, failures


def divide(tx: Transaction) -> None:
    tx.connection().execute(text("select 1 / (select 0)"))


def lose(tx: Transaction, url: str, *, idle: bool = True) -> None:
    """The server ends the session of a transaction: for idleness, as that of a process which was stopped, or because an
    operator says so."""
    pid = tx.connection().execute(text("select pg_backend_pid()")).scalar_one()
    if idle:
        tx.connection().execute(text("set local idle_in_transaction_session_timeout = '1ms'"))
    engine = create_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
        if not idle:
            other.execute(text("select pg_terminate_backend(:pid)"), {"pid": pid})
        alive = text("select from pg_stat_activity where pid = :pid")
        while other.execute(alive, {"pid": pid}).first() is not None:
            pass
    engine.dispose()


def shop_that_catches(policy: DestinationPolicy | None = None, *, savepoint: bool = False) -> Shop:
    """Its handler catches an error with order 3."""

    def check(number: int, tx: Transaction) -> None:
        if number == 3:
            with suppress(DBAPIError), tx.savepoint() if savepoint else nullcontext():
                divide(tx)

    shop = Shop(policy)
    shop.check = check
    return shop


@pytest.mark.parametrize("seconds", [0.0, 3600.0], ids=["own savepoint", "shared savepoint"])
def test_message_whose_handler_catches_an_error_fails_and_stops_no_other(
    postgres_url: str,
    pair_of: PairOf,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seconds: float,
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", seconds)
    shop = shop_that_catches(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2))
    pair = pair_of(shop, postgres_url)
    seen = failures(pair)
    send(pair, range(1, 7))
    pair.run()
    assert placed(pair) == [1, 2, 4, 5, 6]
    assert seen == [(3, 1), (3, 2)]
    assert "with tx.savepoint()" in caplog.text


@pytest.mark.parametrize("first", [True, False], ids=["alone", "after others"])
def test_error_that_is_caught_around_a_savepoint_is_undone_with_it(
    postgres_url: str, pair_of: PairOf, first: bool
) -> None:
    shop = shop_that_catches(savepoint=True)
    pair = pair_of(shop, postgres_url)
    send(pair, [3] if first else range(1, 7))
    pair.run()
    assert placed(pair) == ([3] if first else list(range(1, 7)))


def test_caught_error_is_found_before_anything_else_is_executed(postgres_url: str, pair_of: PairOf) -> None:
    pair = pair_of(Shop(), postgres_url)
    found = []
    with pytest.raises(DataError), pair.server.transaction() as tx:
        tx.connection().execute(text("insert into placed(id) values (1)"))
        with suppress(DBAPIError):
            divide(tx)
        try:
            tx.check_usable()  # type: ignore[attr-defined]
        except DataError as error:
            found.append(str(error))
            raise
    assert len(found) == 1
    assert "with tx.savepoint()" in found[0]
    assert placed(pair) == []


def test_savepoint_of_an_application_that_catches_an_error_in_it_says_what_to_do(
    postgres_url: str, pair_of: PairOf
) -> None:
    pair = pair_of(Shop(), postgres_url)
    with pair.server.transaction() as tx:
        tx.connection().execute(text("insert into placed(id) values (1)"))
        with pytest.raises(DataError, match=r"with tx\.savepoint\(\)"), tx.savepoint(), suppress(DBAPIError):
            divide(tx)
    assert placed(pair) == [1]


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "ended by an operator"])
@pytest.mark.parametrize("by_session", [True, False], ids=["session", "connection"])
def test_lost_connection_is_an_outage_at_the_end_of_the_block_although_its_error_was_caught(
    placing_store: SqlStore, postgres_url: str, by_session: bool, idle: bool
) -> None:
    """What is not this error would not say that the same work may succeed later."""
    tx = placing_store.transaction()
    with pytest.raises(TransientStorageError, match="nothing is kept"), tx:
        used = tx.session() if by_session else tx.connection()
        used.execute(text("insert into placed values (1)"))
        tx.rms.append(row("urn:message:1"))
        lose(tx, postgres_url, idle=idle)
        with pytest.raises(DBAPIError) as caught:
            used.execute(text("insert into placed values (2)"))
        assert caught.value.connection_invalidated
        # Who was idle gets psycopg's class of the SQLSTATE 25P03, unless the connection breaks before that is read.
        assert isinstance(caught.value, (InternalError, OperationalError) if idle else OperationalError)
    assert tx.outcome.ending is Ending.ROLLED_BACK
    with placing_store.transaction() as after:
        assert after.connection().execute(text("select count(*) from placed")).scalar_one() == 0
        assert after.rms.row("urn:message:1") is None


@pytest.mark.parametrize("by_session", [True, False], ids=["session", "connection"])
def test_savepoint_in_which_a_lost_connection_is_caught_is_left_with_an_outage(
    placing_store: SqlStore, postgres_url: str, by_session: bool
) -> None:
    with pytest.raises(TransientStorageError, match="nothing is kept"), placing_store.transaction() as tx:
        tx.connection().execute(text("insert into placed values (1)"))
        with pytest.raises(TransientStorageError, match="nothing is kept"), tx.savepoint():
            used = tx.session() if by_session else tx.connection()
            used.execute(text("insert into placed values (2)"))
            lose(tx, postgres_url)
            with pytest.raises(DBAPIError):
                used.execute(text("insert into placed values (3)"))


@pytest.mark.parametrize("goes_on", [True, False], ids=["next statement", "end"])
def test_handler_that_catches_the_loss_of_its_connection_is_called_again_without_a_failed_attempt(
    postgres_url: str, pair_of: PairOf, goes_on: bool
) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))

    def check(number: int, tx: Transaction) -> None:
        if number == 2 and shop.calls.count(2) == 1:
            lose(tx, postgres_url)
            with suppress(DBAPIError):
                divide(tx)
            if goes_on:
                divide(tx)

    shop.check = check
    pair = pair_of(shop, postgres_url)
    seen = failures(pair)
    send(pair, range(1, 5))
    pair.run()
    assert placed(pair) == [1, 2, 3, 4]
    assert seen == []
    assert pair.server.dead_letters() == []
