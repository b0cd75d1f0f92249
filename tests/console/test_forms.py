"""Forms that are forged, replayed, or sent by another role, and addresses that are to act: nothing is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from mercury.console.console import Console
from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.bulk import BulkAction, BulkState
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import letter

from .browsing import READER, Browser, console_of, serving
from .prepared import BANK, BILLING, Prepared, refuse_store


@pytest.fixture
def console(prepared_store: SqlStore, prepared: Prepared) -> Iterator[Console]:
    with contextlib.closing(console_of(prepared_store, prepared.clock)) as opened:
        yield opened


@pytest.fixture
def browser(console: Console) -> Iterator[Browser]:
    with serving(console.application()) as url:
        yield Browser(url)


def actions(console: Console) -> list[str]:
    """Every address of the console that takes a form of an operator."""
    routes = console._site._router.routes
    posts = {route.path[1:] for route in routes if "POST" in route.methods}  # type: ignore[attr-defined]
    return sorted(posts - {"login", "logout"})


def everything(prepared: Prepared, bulk: int) -> dict[str, str]:
    """Fields with which each action would do something."""
    return {
        "id": prepared.gap,
        "name": "orders",
        "direction": "inbound",
        "position": "1",
        "endpoint": BILLING,
        "new_endpoint": "http://elsewhere.example/",
        "payload": "<a/>",
        "bulk": str(bulk),
    }


def done(operations: Operations) -> tuple[int, int, list[BulkState]]:
    """What actions would change: lines of the audit, dead letters, and bulk actions."""
    letters = len(operations.letters.page(EVERY_LETTER, limit=100).items)
    bulks = [each.state for each in operations.bulk_actions.newest()]
    return len(operations.audit(limit=100).items), letters, bulks


def test_no_action_takes_a_form_that_is_forged_or_of_a_reader_or_acts_by_its_address(
    console: Console, browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, LetterFilter(endpoint=BANK), Actor("Grace"))
    operations.bulk_actions.stop(bulk.id)
    before, found = done(operations), actions(console)
    assert {"bulk-cancel", "bulk-resume", "sequence-destination", "letters-discard", "reconcile-start"} <= set(found)
    home, reader = browser.log_in(), Browser(browser.url)
    seen_by_reader = reader.log_in(READER)
    own, theirs = home.form("logout"), seen_by_reader.form("logout")
    for name in found:
        fields = everything(prepared, bulk.id) | ({"id": str(bulk.id)} if name.startswith("bulk") else {})
        for forged in ({}, {"form_token": "0" * 64}, theirs):
            assert browser.post(name, fields | forged).status == 403, name
        assert browser.post(name, fields | own, origin="http://evil.example").status == 403, name
        assert browser.post(name, fields | own, sec_fetch_site="same-site").status == 403, name
        assert reader.post(name, fields | theirs).status == 403, name
        assert browser.get(name + "?" + "&".join(f"{key}={value}" for key, value in fields.items())).status != 303, name
        assert done(operations) == before, name


def test_a_form_that_is_sent_again_does_nothing_more(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    browser.log_in()
    refuse_store(operations._store, "shelf-1")
    (line,) = [
        each for each in browser.get("sequences?side=source&key=shelf-1").links() if each.startswith("sequence?")
    ]
    name = line.partition("=")[2]
    questions = {
        "letters-redrive": f"letters-redrive?endpoint={BILLING}",
        "letters-discard": f"letters-discard?endpoint={BANK}",
        "sequence-destination": f"sequence-destination?id={name}",
        "sequence-terminate": f"sequence-terminate?id={prepared.gap}&seen=open",
    }
    asked = {action: browser.get(page) for action, page in questions.items()}
    for action in ("letters-redrive", "letters-discard", "sequence-destination"):
        assert browser.submit(asked[action], action).status == 200
        after = done(operations)
        assert browser.submit(asked[action], action).status == 409, action
        assert done(operations) == after, action


def test_letters_that_die_after_the_question_are_not_in_its_answer_also_if_that_is_sent_again(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    browser.log_in()
    question = browser.get(f"letters-discard?endpoint={BANK}")
    assert question.title == "Discard 2 dead letters?"
    prepared.clock.now += 1.0
    with operations._store.transaction() as tx:
        tx.dead_letters.add([letter("late", endpoint=BANK, dead_at=prepared.clock.now)])
    assert "2 discarded." in browser.submit(question, "letters-discard").words
    assert browser.submit(question, "letters-discard").status == 409
    assert [each.id for each in operations.letters.page(LetterFilter(endpoint=BANK)).items] == ["late"]
    assert browser.submit(question, "letters-discard", dead_before="x").status == 400


def test_a_form_of_before_a_logout_or_of_an_operator_is_worth_nothing_to_who_logs_in_next(
    browser: Browser, operations: Operations, prepared: Prepared
) -> None:
    home = browser.log_in()
    page, before = browser.get(f"sequence?id={prepared.gap}"), done(operations)
    browser.submit(home, "logout")
    assert "Log in" in browser.submit(page, "sequence-suspend").title or done(operations) == before
    browser.log_in(READER, "Eve")
    assert browser.submit(page, "sequence-suspend").status == 403
    browser.submit(browser.get(""), "logout")
    browser.log_in(name="Grace")
    assert browser.submit(page, "sequence-suspend").status == 403
    assert done(operations) == before
