"""The time limit of a handler holds for statements in each database of its transaction, and ends with the call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from .places import Places, fill_application, fill_store

SHOW = text("show statement_timeout")


def test_statements_in_a_named_database_have_the_limit_of_the_handler_and_no_longer(
    postgres_database: Callable[..., str],
) -> None:
    places = Places(store=postgres_database(fill_store), app=postgres_database(fill_application))
    with places.process() as coordinator, coordinator.transaction() as tx:
        with tx.savepoint(), tx.limited_statements(0.2):
            assert tx.connection("app").scalar(SHOW) == "200ms"
        assert tx.connection("app").scalar(SHOW) == "0"
        with pytest.raises(LookupError), tx.savepoint(), tx.limited_statements(0.3):
            assert tx.connection("app").scalar(SHOW) == "300ms"
            raise LookupError
        assert tx.connection("app").scalar(SHOW) == "0"
