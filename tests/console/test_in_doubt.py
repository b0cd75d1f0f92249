"""The page of two-phase commits, over real databases: what is in doubt, what to do, and that it is finished."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from mercury.operations.operator import Operations
from mercury.storage.opening import name_resources, open_sql_store
from mercury.storage.sql.joining import _on_commit
from mercury.storage.sql.overview import StoreOverview
from mercury.storage.sql.transaction import SqlTransaction
from mercury.testing import FakeClock
from tests.postgres import PostgresServer
from tests.xa.places import Places, fill_application, fill_store
from tests.xa.test_recovery import leave

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
        assert refused.status == 409
        assert "there is no decision to commit" in refused.words
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


@pytest.fixture
def two_phase(postgres_server: PostgresServer) -> Iterator[Places]:
    urls = [postgres_server.create() for _ in range(3)]
    made = Places(*urls)
    for url, fill in zip(urls, (fill_store, fill_application, fill_store), strict=True):
        fill(url)
    yield made
    made.clean()
    made.close()
    for url in urls:
        postgres_server.drop(url)


def test_no_verdict_is_offered_on_a_transaction_whose_decision_log_is_not_named(two_phase: Places) -> None:
    """It is decided to commit, in a log that the console does not know."""
    leave(two_phase, "commit_decision")
    (gtrid,) = [gid.removesuffix(":store") for gid in two_phase.prepared() if gid.endswith(":store")]
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(two_phase.store)))
        browser = Browser(stack.enter_context(serving(console_of(store, FakeClock()).application())))
        browser.log_in()
        page = browser.get("doubt")
        assert "not known" in page.words
        assert "Name the application's decision log in the setting xa.decision_log" in page.words
        assert not [link for link in page.links() if link.startswith("doubt-resolve")]
        asked = browser.get(f"doubt-resolve?gtrid={gtrid}&verdict=rollback")
        assert "no named decision log knows the process" in browser.submit(asked, "doubt-resolve").words
        assert len(two_phase.prepared()) == 2


def test_a_verdict_against_the_decision_is_refused_with_the_reason_and_not_as_a_failure_of_the_store(
    two_phase: Places,
) -> None:
    leave(two_phase, "commit_decision")
    gtrid = two_phase.prepared()[0].rpartition(":")[0]
    unknown = f"{gtrid[:-1]}{'0' if gtrid[-1] != '0' else '1'}"
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(two_phase.store)))
        console = console_of(store, FakeClock(), decision_log=two_phase.log)
        stack.callback(console.close)
        browser = Browser(stack.enter_context(serving(console.application())))
        browser.log_in()
        asked = browser.get(f"doubt-resolve?gtrid={gtrid}&verdict=rollback")
        refused = browser.submit(asked, "doubt-resolve")
        never = browser.get(f"doubt-resolve?gtrid={unknown}&verdict=rollback")
    assert refused.status == 409
    assert "<h1>The transaction is not resolved</h1>" in refused.text
    assert f"{gtrid} is decided: commit; its remaining branches can only be resolved that way" in refused.words
    assert "doubt" in refused.links()
    assert len(two_phase.prepared()) == 2
    assert never.status == 409
    assert f"unknown transaction {unknown}: it is not decided, and not prepared" in never.words


def test_the_decision_log_of_the_settings_is_read_when_no_database_is_named(two_phase: Places) -> None:
    leave(two_phase, "commit_decision")
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(two_phase.store)))
        console = console_of(store, FakeClock(), decision_log=two_phase.log)
        stack.callback(console.close)
        browser = Browser(stack.enter_context(serving(console.application())))
        browser.log_in()
        page = browser.get("doubt")
        assert "not known" not in page.words
        assert "Committed:" in browser.submit(browser.get(question(page, "commit", "commit")), "doubt-resolve").words
        assert two_phase.sent() == [1]


def test_a_decision_log_in_the_settings_of_a_store_that_keeps_its_own_decisions_is_not_read(prepared: Prepared) -> None:
    """Stores of both kinds may share their settings."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(prepared.url)))
        console = console_of(store, prepared.clock, decision_log="postgresql://x@127.0.0.1:9/x")
        browser = Browser(stack.enter_context(serving(console.application())))
        browser.log_in()
        assert "Nothing is in doubt." in browser.get("doubt").words


def test_a_look_at_transactions_in_doubt_changes_nothing_in_the_process_of_the_store(two_phase: Places) -> None:
    """The console of a process has its store, whose transactions would become those of several databases."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(two_phase.store)))
        before = store.capabilities
        console = console_of(store, FakeClock(), decision_log=two_phase.log)
        stack.callback(console.close)
        browser = Browser(stack.enter_context(serving(console.application())))
        browser.log_in()
        assert "Nothing is in doubt." in browser.get("doubt").words
        assert " In doubt 0 " in browser.get("").words
        assert store.coordinator is None
        assert store.capabilities == before
        with store.transaction() as tx:
            assert type(tx) is SqlTransaction
        assert not event.contains(store.engine, "commit", _on_commit), "the engine of the store has listeners now"
