"""Every action of the pages by clicks in a real browser, as an operator; and a reader, who is offered none."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.bulk import BulkAction, BulkState
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.storage.opening import name_resources, open_sql_store
from mercury.storage.searching import SequenceFilter
from mercury.testing.contract.builders import letter
from tests.postgres import PostgresServer
from tests.xa.places import Places, fill_application

from .browsing import OPERATOR, READER, SETTINGS, console_of, serving
from .chromium import missing
from .clicking import complaints, log_in, main_text, press, wait
from .in_doubt import leave_in_doubt
from .pictures import pages
from .prepared import BANK, Prepared, copied, prepare, refuse_store

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

BILLING_2 = "http://billing-2.example/services/invoices"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("clicks"))


@pytest.fixture(scope="module")
def moved(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Operations]]:
    """A console of a copy of the store, in which another store has answered for the destination of a source."""
    copy = copied(prepared, tmp_path_factory.mktemp("moved"))
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(copy.url)))
        refuse_store(store, "shelf-1")
        console = console_of(store, copy.clock)
        stack.callback(console.close)
        yield stack.enter_context(serving(console.application())), Operations(store, copy.clock)


@pytest.fixture(scope="module")
def served(
    prepared: Prepared, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Operations]]:
    """One console for all tests of this module, with transactions in doubt."""
    reports = tmp_path_factory.mktemp("reports")
    (reports / "orders.toml").write_text("")
    with contextlib.ExitStack() as stack:
        app = postgres_server.create()
        stack.callback(postgres_server.drop, app)
        fill_application(app)
        places = Places(prepared.url, app)
        stack.callback(places.close)
        stack.callback(places.clean)
        leave_in_doubt(places, prepared.clock.now)
        store = stack.enter_context(contextlib.closing(open_sql_store(prepared.url)))
        coordinator = name_resources(store, {"app": app})
        settings = replace(SETTINGS, reports=str(reports))
        console = console_of(store, prepared.clock, settings, coordinator=lambda: coordinator)
        stack.callback(console.close)
        yield stack.enter_context(serving(console.application())), Operations(store, prepared.clock)


@pytest.fixture
def url(served: tuple[str, Operations], driver: WebDriver) -> Iterator[str]:
    log_in(driver, served[0])
    yield served[0]
    assert complaints(driver) == []
    driver.get("about:blank")


@pytest.fixture
def operations(served: tuple[str, Operations]) -> Operations:
    return served[1]


def click(driver: WebDriver, *texts: str) -> None:
    for text in texts:
        press(driver, text)


def press_at(driver: WebDriver, by: str, where: str) -> None:
    """Press an element, sought again where the live page has replaced it."""
    wait(driver, lambda: driver.find_element(by, where).click() is None)


def fill(driver: WebDriver, name: str, text: str) -> None:
    field = driver.find_element(By.ID, name)
    field.clear()
    field.send_keys(text)


def says(driver: WebDriver, text: str) -> None:
    wait(driver, lambda: text in main_text(driver))


def last(operations: Operations) -> tuple[str, str, str]:
    entry = operations.audit(limit=1).items[0]
    return entry.action, entry.actor, entry.note


# The first two tests: those behind them change the store.
def test_a_reader_is_offered_no_action_on_any_page_and_logs_out(
    driver: WebDriver, url: str, prepared: Prepared
) -> None:
    log_in(driver, url, READER)
    for page in [*pages(prepared).values(), "service?name=orders", "messages?state=done"]:
        if page.startswith("letters-redrive"):
            continue
        driver.get(f"{url}{page}")
        assert driver.find_elements(By.CSS_SELECTOR, "main form[method=post]") == [], page
        assert {each.text for each in driver.find_elements(By.CSS_SELECTOR, "main button")} <= {"Show", "Find"}, page
        assert driver.find_elements(By.CSS_SELECTOR, "main a.button") == [], page
    press_at(driver, By.XPATH, "//button[.='Log out']")
    wait(driver, lambda: driver.title.startswith("Log in"))


@pytest.mark.parametrize("role", [READER, OPERATOR], ids=["reader", "operator"])
def test_another_store_that_has_answered_is_found_and_only_an_operator_says_that_the_destination_is_new(
    driver: WebDriver, moved: tuple[str, Operations], role: str
) -> None:
    url, operations = moved
    log_in(driver, url, role)
    press_at(driver, By.PARTIAL_LINK_TEXT, "http://elsewhere/: the store s2 answers there")
    press_at(driver, By.XPATH, "//main//tr[contains(., 'shelf-1')]//a[starts-with(@href, 'sequence?')]")
    says(driver, "The store s2 has answered at http://elsewhere/, in the place of s1: nothing is sent to it.")
    if role == READER:
        assert driver.find_elements(By.PARTIAL_LINK_TEXT, "It is a new destination") == []
        (line,) = [each for each in operations.sequences.page(SequenceFilter()).items if each.status.key == "shelf-1"]
        driver.get(f"{url}sequence-destination?id={line.id}")
        says(driver, "You are logged in as a reader")
        assert len(operations.destination_actions.refused(10)) == 1
        complaints(driver)  # the page was refused
        return
    click(driver, "It is a new destination…")
    says(driver, "The store s2 has answered at http://elsewhere/.")
    click(driver, "Cancel", "It is a new destination…")
    press_at(driver, By.NAME, "resend")
    fill(driver, "why", "the stock was moved")
    click(driver, "It is a new destination")
    says(driver, "has the store s2 now. 1 sequence given up. In doubt: 2 messages, sent again.")
    assert operations.destination_actions.refused(10) == ()
    assert last(operations) == ("replace", "Ada", "the stock was moved")
    driver.get(f"{url}")
    assert "s2 answers there" not in main_text(driver)
    assert complaints(driver) == []


def test_a_sequence_is_suspended_resumed_closed_and_terminated(
    driver: WebDriver, url: str, operations: Operations, prepared: Prepared
) -> None:
    driver.get(f"{url}sequences")
    click(driver, prepared.gap)
    click(driver, "Suspend")
    says(driver, "Suspended: no process works on it")
    click(driver, "Resume")
    says(driver, "Resumed: its work is due now.")
    for action in ("Close", "Terminate"):
        click(driver, f"{action}…")
        says(driver, f"{action} the sequence?")
        click(driver, "Cancel")
        click(driver, f"{action}…")
        fill(driver, "why", "the client was moved")
        click(driver, f"{action} it")
        says(driver, f"A process that runs on this store will {action.lower()} it.")
        assert last(operations) == (action.lower(), "Ada", "the client was moved")


def test_a_source_is_restarted_in_a_successor(driver: WebDriver, url: str, operations: Operations) -> None:
    driver.get(f"{url}sequences")
    fill(driver, "key", "shelf-1")
    click(driver, "Show")
    press_at(driver, By.CSS_SELECTOR, "td a[href^='sequence?']")
    click(driver, "Restart in a successor…")
    press_at(driver, By.NAME, "resend")
    click(driver, "Restart it")
    says(driver, "Restarted: a successor sends the rest. Messages that may have arrived are sent again.")
    assert last(operations)[0] == "restart"


def test_a_poison_message_is_tried_again_and_parked(driver: WebDriver, url: str, operations: Operations) -> None:
    click(driver, "service orders: 1 sequence is held back by a message that its handler refuses")
    press_at(driver, By.CSS_SELECTOR, "td a[href^='message?']")
    click(driver, "Try again now")
    says(driver, "It is due now")
    click(driver, "Park…")
    fill(driver, "why", "it is wrong")
    click(driver, "Park it")
    says(driver, "It is parked as soon as a process with its service reads it")
    assert last(operations) == ("park", "Ada", "it is wrong")


def test_a_service_is_paused_and_resumed(driver: WebDriver, url: str, operations: Operations) -> None:
    driver.get(f"{url}services")
    click(driver, "returns", "Pause")
    says(driver, "Paused by Ada")
    click(driver, "Resume")
    says(driver, "Resumed: what waits is delivered now.")
    assert last(operations)[0] == "resume"


def test_one_dead_letter_is_edited_redirected_redriven_and_discarded(
    driver: WebDriver, url: str, operations: Operations
) -> None:
    driver.get(f"{url}letter?id=letter-1")
    click(driver, "Edit a copy…")
    payload = driver.find_element(By.ID, "payload").get_attribute("value") or ""
    fill(driver, "payload", payload.replace("<o:id>1<", "<o:id>1000<"))
    click(driver, "Send the copy")
    says(driver, "The edited copy is sent as message")
    assert last(operations)[0] == "edit"
    driver.get(f"{url}letter?id=letter-2")
    click(driver, "Redirect to another endpoint…")
    fill(driver, "new_endpoint", BILLING_2)
    click(driver, "Redirect")
    says(driver, f"1 redirected to {BILLING_2}.")
    for name, action, was in (("letter-3", "Redrive", "redriven"), ("letter-4", "Discard", "discarded")):
        driver.get(f"{url}letter?id={name}")
        click(driver, f"{action}…", "Cancel", f"{action}…", action)
        says(driver, f"1 {was}.")
        assert last(operations)[0] == action.lower()


def test_all_that_match_are_redriven_also_those_that_may_take_effect_twice_and_the_rest_discarded(
    driver: WebDriver, url: str, operations: Operations
) -> None:
    driver.get(f"{url}letters")
    fill(driver, "endpoint", BANK)
    click(driver, "Show", "Redrive…")
    press_at(driver, By.NAME, "twice")
    click(driver, "Redrive")
    says(driver, "2 redriven.")
    fill(driver, "reason", "LookupError")
    click(driver, "Show", "Discard…", "Discard")
    says(driver, "1 discarded.")
    assert [each.action.value for each in operations.bulk_actions.newest(2)] == ["discard", "redrive"]


def test_a_bulk_action_that_has_stopped_goes_on_or_is_cancelled(
    driver: WebDriver, url: str, operations: Operations
) -> None:
    begun = [operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, Actor("Grace")) for _ in range(2)]
    for bulk in begun:
        operations.bulk_actions.stop(bulk.id)
    driver.get(f"{url}letters")
    press_at(driver, By.CSS_SELECTOR, f"a[href='bulk?id={begun[0].id}']")
    says(driver, "It has stopped")
    click(driver, "Cancel…", "Cancel it")
    says(driver, "it was cancelled")
    driver.get(f"{url}bulk?id={begun[1].id}")
    click(driver, "Go on")
    says(driver, "it is done")
    assert driver.find_elements(By.CSS_SELECTOR, "main button") == []
    found = [operations.bulk_actions.one(each.id) for each in begun]
    assert [each.state for each in found if each is not None] == [BulkState.CANCELLED, BulkState.DONE]


def test_an_open_page_shows_how_far_a_bulk_action_is(
    driver: WebDriver, url: str, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.operations.letter_actions.BATCH", 2)
    with operations._store.transaction() as tx:
        tx.dead_letters.add([letter(f"live-{number}") for number in range(4)])
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, LetterFilter(reason="given up"), Actor("Grace"))
    driver.get(f"{url}bulk?id={bulk.id}")
    says(driver, "0 of 4: it runs.")
    for text in ("2 of 4: it runs.", "4 of 4: it is done."):
        operations.bulk_actions.advance(bulk.id)
        says(driver, text)


def test_transactions_in_doubt_are_rolled_back_and_committed(
    driver: WebDriver, url: str, operations: Operations
) -> None:
    driver.get(f"{url}doubt")
    press_at(driver, By.XPATH, "//tr[td[contains(., 'none yet')]]//a[.='Roll back…']")
    click(driver, "Roll it back")
    says(driver, "Rolled back:")
    click(driver, "Commit…", "Commit it")
    says(driver, "Committed:")
    says(driver, "Nothing is in doubt.")
    assert last(operations)[0] == "resolved"


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs the extra spark")
def test_a_comparison_is_started(
    driver: WebDriver, url: str, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.console.reports._COMMAND", (sys.executable, "-c", "pass"))
    driver.get(f"{url}reconcile")
    click(driver, "Start")
    says(driver, "The comparison orders is running.")
    assert last(operations)[0] == "reconcile"


def test_the_audit_is_filtered_by_an_action_of_the_list_and_leads_to_what_was_done(
    driver: WebDriver, url: str, operations: Operations
) -> None:
    operations.service_actions.pause("returns", Actor("Grace"))
    operations.service_actions.resume("returns", Actor("Grace"))
    driver.get(f"{url}audit")
    press_at(driver, By.XPATH, "//select[@id='action']/option[.='pause']")
    click(driver, "Show")
    says(driver, "paused by Grace")
    click(driver, "returns")
    says(driver, "It runs.")


def test_a_login_needs_a_name(driver: WebDriver, url: str) -> None:
    press_at(driver, By.XPATH, "//button[.='Log out']")
    wait(driver, lambda: driver.title.startswith("Log in"))
    driver.find_element(By.ID, "token").send_keys(OPERATOR)
    press_at(driver, By.CSS_SELECTOR, "form button.main")
    assert driver.execute_script("return document.getElementById('name').matches(':invalid')")
    assert driver.title.startswith("Log in")
