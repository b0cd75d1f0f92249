"""The page of two-phase commits, over real databases: what is in doubt, what to do, and that it is finished."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mercury.operations.operator import Operations
from mercury.storage.opening import name_resources, open_sql_store
from mercury.storage.sql.overview import StoreOverview
from tests.postgres import PostgresServer
from tests.xa.places import Places, fill_application

from .browsing import Answer, Browser, console_of, serving
from .in_doubt import leave_in_doubt
from .prepared import Prepared, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def places(prepared: Prepared, postgres_server: PostgresServer) -> Iterator[Places]:
    app = postgres_server.create()
    fill_application(app)
    made = Places(prepared.url, app)
    leave_in_doubt(made, prepared.clock.now)
    yield made
    made.clean()
    made.close()
    postgres_server.drop(app)


def question(page: Answer, verdict: str, decided: str) -> str:
    """The link to a question, of the transaction with a decision."""
    row = next(each for each in page.text.split("<tr") if f">{decided}</span>" in each)
    start = row.index("doubt-resolve?")
    links = [each.split('"')[0].replace("&amp;", "&") for each in row[start:].split('href="')]
    return next(each for each in links if f"verdict={verdict}" in each)


def test_transactions_in_doubt_are_shown_with_what_to_do_and_finished(
    places: Places, prepared: Prepared, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(places.store)))
        coordinator = name_resources(store, {"app": places.app})
        console = console_of(store, prepared.clock, coordinator=lambda: coordinator)
        browser = Browser(stack.enter_context(serving(console.application())))
        browser.log_in()
        assert "http://peer.example/orders 1 " in browser.get("").words
        assert " In doubt 2 the oldest for " in browser.get("").words  # also the one without a decision
        page = browser.get("doubt")
        assert "It is not decided" in page.words or "Wait: a running process" in page.words
        assert page.words.count("its process was last heard of ") == 2
        asked = browser.get(question(page, "commit", "none yet"))
        assert "It is not decided: some of its databases may not have prepared it" in asked.words
        assert "What it has changed in app takes effect." in asked.words
        assert '<button class="danger">Commit it' in asked.text
        refused = browser.submit(asked, "doubt-resolve")
        assert refused.status in (409, 503)
        assert len(places.prepared()) == 2
        asked = browser.get(question(page, "rollback", "none yet"))
        assert "What it has changed in app is undone." in asked.words
        assert '<button class="main">Roll it back' in asked.text, "what is advised is not shown as a danger"
        done = browser.submit(asked, "doubt-resolve", why="it is dead")
        assert "Rolled back:" in done.words
        assert " In doubt 1 the oldest for " in browser.get("").words  # as many as the page lists
        assert places.placed() == []
        done = browser.submit(browser.get(question(done, "commit", "commit")), "doubt-resolve")
        assert "Committed:" in done.words
        assert "Nothing is in doubt." in done.words
        assert " In doubt 0 " in browser.get("").words
        assert Operations(store, prepared.clock).overview().depth.in_doubt.value == 0
        with store.transaction() as tx:
            assert StoreOverview(tx).status(10).in_doubt == 0
        assert places.placed() == [2]
        assert places.prepared() == []
        actions = [(each.action, each.actor) for each in Operations(store, prepared.clock).audit(limit=20).items]
        assert actions.count(("resolved", "Ada")) == 2
        assert browser.get("doubt-resolve?gtrid=nothing&verdict=commit").status == 400


def test_the_store_alone_is_looked_at_when_no_database_is_named(prepared: Prepared) -> None:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(prepared.url)))
        browser = Browser(stack.enter_context(serving(console_of(store, prepared.clock).application())))
        browser.log_in()
        assert "Other databases are queried when the setting xa.resources" in browser.get("doubt").words
