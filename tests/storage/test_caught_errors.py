"""A handler catches an error of the database and goes on: PostgreSQL executes nothing more in its transaction."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from mercury import Transaction
from mercury.engine.delivery import shared
from mercury.errors import DataError
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from tests.storage.placed_orders import PairOf, placed, send
from tests.storage.test_shared_savepoints import Shop, failures


def divide(tx: Transaction) -> None:
    tx.connection().execute(text("select 1 / (select 0)"))


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
