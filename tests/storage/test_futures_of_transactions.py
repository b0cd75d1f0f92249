"""Futures of requests in a transaction: it is rolled back, and no response will ever come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy.orm import Session

from mercury import Mercury, SequenceFailed, StorageError
from mercury.storage.opening import open_engine

URL = "http://127.0.0.1:9/desk"  # nothing listens there
ROLLED_BACK = "no response will come: the transaction that sends the request is rolled back"


class Changed(Exception):
    """The application has changed its mind."""


@contextmanager
def undone() -> Iterator[None]:
    """A block that the application leaves with an error."""
    with pytest.raises(Changed):
        yield


def request(mercury: Mercury, tx: Any) -> Future[bytes]:
    return mercury.to(URL).request(b"<a/>", operation="ask", tx=tx)


def failure(future: Future[bytes]) -> str:
    error = future.exception(0)
    assert isinstance(error, SequenceFailed)
    return str(error)


def test_future_of_a_transaction_that_is_rolled_back_fails_at_once_and_others_stay_open(any_url: str) -> None:
    with Mercury(any_url) as mercury:
        alone = request(mercury, None)
        with undone(), mercury.transaction() as outer:
            with mercury.transaction() as committed:
                kept = request(mercury, committed)
            futures = [request(mercury, outer), request(mercury, outer)]
            assert not any(future.done() for future in futures)
            raise Changed
        assert [failure(future) for future in futures] == [ROLLED_BACK] * 2
        assert not alone.done()
        assert not kept.done()
        assert len(mercury.futures._expected) == 2


def test_future_of_a_transaction_whose_end_fails_fails_at_once(sql_url: str) -> None:
    with Mercury(sql_url) as mercury:
        with pytest.raises(StorageError), mercury.transaction() as tx:
            future = request(mercury, tx)
            tx.execute_later("insert into nowhere values (1)")
        assert failure(future) == ROLLED_BACK


def test_future_of_an_event_loop_whose_transaction_is_rolled_back_fails_at_once(any_url: str) -> None:
    with Mercury(any_url) as mercury:
        futures: list[Future[bytes]] = []

        async def main() -> None:
            async with mercury.atransaction() as tx:
                futures.append(await tx.run_sync(lambda sync: request(mercury, sync)))
                raise Changed

        with undone():
            asyncio.run(main())
        assert [failure(future) for future in futures] == [ROLLED_BACK]


def test_future_of_a_transaction_of_the_applications_stays_open_as_its_end_is_not_seen(sql_url: str) -> None:
    engine = open_engine(sql_url)
    with Mercury(sql_url) as mercury:
        with Session(engine) as session:
            with undone(), mercury.transaction(session) as tx:
                future = request(mercury, tx)
                raise Changed  # and is caught: the session may still commit
            assert not future.done()
            session.commit()
        assert not future.done()
    engine.dispose()
