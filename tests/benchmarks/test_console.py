"""The pages of the console are measured over a store that is what it says, all of them, and their statements do not
grow with the messages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select

from benchmarks.console_pages import Asked, counted, measured, one_console, pages, rows_read, served
from benchmarks.console_store import Shown, fill
from benchmarks.rounds import GivenUp
from benchmarks.targets import TARGETS, Results
from mercury.console.console import Console
from mercury.console.settings import ConsoleSettings
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.schema import DEAD_LETTER, INVOKER_MESSAGE, RMD_SEQUENCE, RMS_KEPT, RMS_MESSAGE, RMS_SEQUENCE
from mercury.storage.sql.store import SqlStore
from tests.stores import NewUrl, urls_of

FEW, MANY, SEQUENCES = 1000, 4000, 40
#: A search from a time on halves the positions until it has the first: the statements grow with the logarithm.
BY_TIME = "messages since a time"


@contextlib.contextmanager
def filled(url: str, messages: int) -> Iterator[tuple[SqlStore, Shown]]:
    with contextlib.closing(open_sql_store(url)) as store:
        yield store, fill(store, messages, SEQUENCES, time.time())


@pytest.fixture(params=["sqlite", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    return urls_of(request.param, request, tmp_path)


def test_the_store_has_as_many_messages_and_sequences_as_it_was_asked_for(urls: NewUrl) -> None:
    with filled(urls(), FEW) as (store, _), store.reading() as connection:

        def many(*tables: Table) -> int:
            return sum(int(connection.execute(select(func.count()).select_from(each)).scalar_one()) for each in tables)

        assert many(RMS_MESSAGE, INVOKER_MESSAGE, DEAD_LETTER, RMS_KEPT) == FEW
        assert many(RMS_SEQUENCE, RMD_SEQUENCE) == SEQUENCES


def test_no_page_has_more_statements_for_four_times_the_messages(urls: NewUrl) -> None:
    found: list[dict[str, int]] = []
    for messages in (FEW, MANY):
        with filled(urls(), messages) as (store, shown):
            lines = list(measured(store, shown, 1))
            assert [line["page"] for line in lines] == list(pages(shown))
            found.append({str(line["page"]): int(str(line["statements"])) for line in lines})
    few, many = found
    assert many.pop(BY_TIME) <= few.pop(BY_TIME) + 2
    # Fewer: a list that fills its page does not look for its end.
    assert [page for page in few if many[page] > few[page]] == []
    assert sum(few.values()) > 100, "the statements are seen"


def test_every_page_of_the_console_is_measured(tmp_path: Path) -> None:
    with filled(f"sqlite:///{tmp_path / 'store.db'}", FEW) as (store, shown):
        console = Console(store, "it", ConsoleSettings(token="a-token-of-this-test"))
        routes = {route.path for route in console._site._router.routes if "GET" in route.methods}  # type: ignore[attr-defined]
        asked = {"/" + address.partition("?")[0] for address in pages(shown).values()}
        assert routes - {"/static/{file}"} == asked


def test_messages_that_are_shown_are_those_of_an_engine(tmp_path: Path) -> None:
    with filled(f"sqlite:///{tmp_path / 'store.db'}", FEW) as (store, shown), served(store) as client:
        for name in ("message to send", "message received", "dead letter"):
            text = client.get(pages(shown)[name]).text
            assert "lamp" in text, "its payload"
            assert "damaged" not in text
        assert "which has not arrived" in client.get(pages(shown)["sequence, destination with a gap"]).text


def test_a_page_that_is_not_answered_is_no_figure(tmp_path: Path) -> None:
    with filled(f"sqlite:///{tmp_path / 'store.db'}", FEW) as (store, shown):
        gone = Shown(**{name: getattr(shown, name) for name in Shown.__slots__} | {"source": "urn:uuid:none"})
        with pytest.raises(GivenUp, match="sequence"):
            list(measured(store, gone, 1))


def test_rows_that_a_query_reads_and_does_not_use_are_counted(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with filled(urls_of("postgres", request, tmp_path)(), FEW) as (store, _):
        with counted(store) as statements, store.reading() as connection:
            connection.execute(select(func.count()).select_from(RMS_MESSAGE).where(RMS_MESSAGE.c.attempts > 1000))
        assert len(statements) == 1
        assert rows_read(store, statements) == 500


def test_only_a_million_messages_are_held_against_the_target(tmp_path: Path) -> None:
    (target,) = [each for each in TARGETS if each.name.startswith("console page")]
    small = Asked(messages=FEW, sequences=SEQUENCES, stores=("sqlite",), requests=1)
    records = list(one_console("sqlite", str, tmp_path, small))
    assert target.verdict(Results(records)) == (None, "not measured")
    of_million = [{**record, "messages": 1_000_000, "max_ms": 50.0} for record in records]
    assert target.verdict(Results(of_million)) == (50.0, "aim met")
    of_million[3]["max_ms"] = 201.0
    assert target.verdict(Results(of_million)) == (201.0, "**not met**")
