"""Open pages share what is read; a page that is asked for is read anew, and no browser gets older readings after it."""

from __future__ import annotations

import gc
import http.client
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from mercury.console.readings import MOST, Readings
from mercury.operations.operator import Operations
from mercury.operations.overview import StoreView
from mercury.operations.transactions import InDoubt
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock
from mercury.testing.contract.builders import letter

from .browsing import READER, SETTINGS, Browser, console_of, serving
from .prepared import Prepared

PAGE = ("letters", "", "operator")


class Store:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self) -> int:
        self.read += 1
        return self.read


def test_a_reading_is_shared_while_it_is_recent_and_only_by_the_same_page() -> None:
    clock, store = FakeClock(), Store()
    readings: Readings[int] = Readings(2.0, clock)
    assert [readings.shared(PAGE, store) for _ in range(3)] == [1, 1, 1]
    assert readings.shared(("letters", "", "reader"), store) == 2
    clock.now += 2.0
    assert readings.shared(PAGE, store) == 3


def test_a_page_that_is_asked_for_is_read_anew_and_open_pages_get_nothing_older() -> None:
    clock, store = FakeClock(), Store()
    readings: Readings[int] = Readings(2.0, clock)
    assert readings.shared(PAGE, store) == 1
    assert readings.new(PAGE, store) == 2
    assert readings.shared(PAGE, store) == 2

    def slow() -> int:
        clock.now += 1.0
        assert readings.new(PAGE, store) == 3  # another request, which has begun later and ends earlier
        return -1

    readings.new(PAGE, slow)
    assert readings.shared(PAGE, store) == 3


def test_pages_that_ask_while_one_reads_wait_for_what_it_reads() -> None:
    reading, waiting, store = threading.Event(), threading.Event(), Store()
    readings: Readings[int] = Readings(60.0, FakeClock())
    found: list[int] = []

    def slow() -> int:
        reading.set()
        assert waiting.wait(20)
        return store()

    first = threading.Thread(target=lambda: found.append(readings.shared(PAGE, slow)))
    second = threading.Thread(target=lambda: found.append(readings.shared(PAGE, store)))
    first.start()
    assert reading.wait(20)
    second.start()
    waiting.set()
    for each in (first, second):
        each.join(20)
    assert (found, store.read) == ([1, 1], 1)


def test_a_reading_that_failed_is_made_again() -> None:
    readings: Readings[int] = Readings(60.0, FakeClock())

    def fail() -> int:
        raise ConnectionError("no route to host")

    with pytest.raises(ConnectionError):
        readings.shared(PAGE, fail)
    assert readings.shared(PAGE, lambda: 7) == 7


def test_a_reading_that_nobody_gets_any_more_is_not_kept() -> None:
    clock = FakeClock()
    readings: Readings[set[int]] = Readings(2.0, clock)
    old = weakref.ref(readings.new(PAGE, lambda: {1}))
    assert old() is not None, "it is shared"
    clock.now += 2.0
    readings.shared(("another",), lambda: {2})
    gc.collect()
    assert old() is None


def test_the_reading_of_a_dead_letter_keeps_no_body(
    prepared_store: SqlStore, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    new = Readings.new

    def keeping(readings: Readings[Any], page: tuple[str, ...], read: Callable[[], Any]) -> Any:
        kept.append(new(readings, page, read))
        return kept[-1]

    monkeypatch.setattr(Readings, "new", keeping)
    with prepared_store.transaction() as tx:
        tx.dead_letters.add([letter("a", payload=b"<order>lamp</order>")])
    with serving(console_of(prepared_store, prepared.clock).application()) as url:
        browser = Browser(url)
        browser.log_in(name="Ada")
        assert "lamp" in browser.get("letter?id=a").words
    assert (kept[-1].values["letter"].id, kept[-1].values["letter"].payload) == ("a", b"")


def test_a_bounded_number_of_readings_is_kept() -> None:
    store, readings = Store(), Readings[int](60.0, FakeClock())
    for number in range(MOST + 1):
        readings.shared((str(number),), store)
    assert len(readings._kept) == MOST
    assert readings.shared((str(MOST),), store) == MOST + 1
    assert readings.shared(("0",), store) == MOST + 2


def test_open_pages_of_several_browsers_read_the_store_once(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, reads = Operations.overview, []

    def overview(operations: Operations, doubt: InDoubt | None = None) -> StoreView:
        reads.append(doubt)
        return made(operations, doubt)

    monkeypatch.setattr(Operations, "overview", overview)
    with serving(console_of(store, clock, replace(SETTINGS, refresh=600.0)).application()) as url:
        browser, other, reader = Browser(url), Browser(url), Browser(url)
        browser.log_in(name="Ada")
        other.log_in(name="Grace")
        assert len(reads) == 2, "each page that is asked for is read"
        for each in (browser, other, browser, other):
            assert "Nothing: no message waits for too long" in stream(each)
        assert len(reads) == 2, "open pages of one role share the last reading"
        reader.log_in(READER)
        stream(reader)
        assert len(reads) == 3, "a reader has readings of its own"


def stream(browser: Browser) -> str:
    """The first part that an open overview gets."""
    parts = urlsplit(browser.url)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request("GET", parts.path, None, {"accept": "text/event-stream", "cookie": cookie})
        answer = connection.getresponse()
        text = ""
        while "event: part" not in text or not text.endswith("\n\n"):
            text += answer.readline().decode()
        return text
    finally:
        connection.close()
