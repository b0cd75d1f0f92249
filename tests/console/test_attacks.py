"""Attacks that need no browser: stored scripts in the HTML of every page, and streams that are held open."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mercury.console import live
from mercury.operations.operator import Operations
from mercury.storage.audit import Actor, Via
from mercury.storage.bulk import BulkAction
from mercury.storage.letters import LetterFilter
from mercury.storage.opening import open_sql_store
from tests.acceptance.processes import eventually

from .attack import ATTACK, text_of
from .browsing import Browser, console_of, serving
from .prepared import Prepared, copied, prepare, refuse_store

PAGES = (
    *("", "sequences", "messages?direction=outbound", "messages?direction=inbound", "letters", "letter?id=letter-1"),
    *(
        "letter?id=letter-10",
        "letter-edit?id=letter-1",
        "letters-redrive?letter=letter-1",
        "services",
        "nodes",
        "audit",
    ),
    *("message?direction=inbound&position=1", "message?direction=outbound&position=8", "reconcile", "doubt"),
    *("messages?state=done", "sequences?stuck=yes", "audit?action=suspend"),
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("attacked"), text_of)


@pytest.fixture
def browser(attacked: Prepared) -> Iterator[Browser]:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(attacked.url)))
        made = Browser(stack.enter_context(serving(console_of(store, attacked.clock).application())))
        made.log_in()
        yield made


def test_no_stored_text_is_part_of_a_page_s_html(browser: Browser) -> None:
    seen = ""
    for page in PAGES:
        answer = browser.get(page)
        assert answer.status == 200, page
        for mark in ("<script>", "<img src=x", "<svg/", '"onmouseover=', "\u202e"):
            assert mark not in answer.text, (page, mark)
        seen += answer.text
    assert seen.count("&lt;script&gt;document.title") > 20  # it was there, as text


def test_a_text_in_an_address_is_no_html(browser: Browser) -> None:
    mark = '"><script>1</script>'
    for page in ("messages", "letters", "sequences", "audit", "sequence", "letter", "service", "report", "login"):
        answer = browser.get(
            f"{page}?id=%22%3E%3Cscript%3E1%3C%2Fscript%3E&endpoint=%22%3E%3Cscript%3E1%3C%2Fscript%3E"
        )
        assert mark not in answer.text, page


def test_names_of_operators_and_of_peers_are_no_html(attacked: Prepared, tmp_path: Path) -> None:
    copy = copied(attacked, tmp_path)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_sql_store(copy.url)))
        endpoint = refuse_store(store, "shelf-1")
        with store.transaction() as tx:
            tx.peer_stores.refuse(endpoint, f"s{ATTACK}", f"javascript:alert(1)//{ATTACK}", 3.0)
        browser = Browser(stack.enter_context(serving(console_of(store, copy.clock).application())))
        browser.log_in(name=f"Eve {ATTACK}")
        (line,) = [
            each for each in browser.get("sequences?side=source&key=shelf-1").links() if each.startswith("sequence?")
        ]
        refused = line.replace("sequence?", "sequence-destination?")
        for page, action in ((f"sequence?id={copy.gap}", "sequence-suspend"), ("service?name=orders", "service-pause")):
            browser.submit(browser.get(page), action, why=ATTACK)
        operations = Operations(store, copy.clock)
        which = LetterFilter(reason=ATTACK)
        eve = Actor(f"Eve {ATTACK}", Via.CONSOLE)
        bulk = operations.bulk_actions.begin(BulkAction.DISCARD, which, eve, reason=ATTACK)
        operations.bulk_actions.advance(bulk.id)
        for page in (
            *("", line, refused, f"sequence?id={copy.gap}", "service?name=orders", "services", "sequences", "letters"),
            *("audit", f"bulk?id={bulk.id}", f"audit?bulk={bulk.id}", "audit?action=pause"),
        ):
            answer = browser.get(page)
            assert answer.status == 200, page
            for mark in ("<script>", "<img src=x", "<svg/", '"onmouseover=', "\u202e"):
                assert mark not in answer.text, (page, mark)
            if not page.startswith("sequences"):
                assert "&lt;script&gt;document.title" in answer.text, page
            assert not [each for each in answer.links() if ":" in each.partition("?")[0]], page


def test_streams_that_are_held_open_are_bounded(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST", 2)
    parts = urlsplit(browser.url)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    def stream() -> tuple[http.client.HTTPConnection, int]:
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        connection.request("GET", parts.path, None, {"accept": "text/event-stream", "cookie": cookie})
        answer = connection.getresponse()
        if answer.status == 200:
            answer.readline()  # it has begun
        return connection, answer.status

    opened = [stream() for _ in range(3)]
    try:
        assert [status for _, status in opened] == [200, 200, 204]
        assert browser.get("").status == 200  # pages are served as before
    finally:
        for connection, _ in opened:
            connection.close()

    def again() -> bool:
        connection, status = stream()
        connection.close()
        return status == 200

    eventually(again, "a place of a browser that has left is free again")
