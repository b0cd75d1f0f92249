"""Which errors of a database may pass, so that the same transaction is tried again."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from sqlalchemy import exc

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.sql.errors import translate


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("25P03", id="idle in a transaction"),
        pytest.param("25P04", id="too long in a transaction"),
        pytest.param("57P05", id="idle"),
    ],
)
def test_a_limit_of_the_server_that_ends_a_session_ends_no_work(state: str) -> None:
    assert isinstance(translate(psycopg.errors.lookup(state)("terminating connection")), TransientStorageError)


def test_a_failed_statement_before_another_one_does_not_pass() -> None:
    found = translate(psycopg.errors.lookup("25P02")("current transaction is aborted"))
    assert isinstance(found, StorageError)
    assert not isinstance(found, TransientStorageError)


class _Unreadable(Exception):
    def __str__(self) -> str:
        raise self


class _OfSqlAlchemy(_Unreadable, exc.SQLAlchemyError): ...


class _OfPool(_Unreadable, exc.TimeoutError): ...


class _OfPostgres(_Unreadable, psycopg.DataError): ...


class _OfSqlite(_Unreadable, sqlite3.DataError): ...


class _OfNumbers(_Unreadable, OverflowError): ...


@pytest.mark.parametrize("kind", [_OfSqlAlchemy, _OfPool, _OfPostgres, _OfSqlite, _OfNumbers])
def test_error_of_an_application_without_a_text_is_translated_by_its_class(kind: type[Exception]) -> None:
    found = translate(kind())
    assert isinstance(found, StorageError)
    assert "(its text cannot be read)" in str(found)
