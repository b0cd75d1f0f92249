"""An action on many dead letters from the pages: how far it is, cancel, and going on after the console has ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from mercury import Mercury, Settings
from mercury.client.dead_letters import BATCH
from mercury.console.bulk_runner import ATTEMPTS, MOST, BulkRunner
from mercury.console.console import Console
from mercury.errors import TransientStorageError
from mercury.operations.acting import NotPossible
from mercury.operations.bulk_actions import BulkActions
from mercury.operations.operator import Operations
from mercury.storage.audit import Actor, AuditFilter
from mercury.storage.bulk import SILENCE, Bulk, BulkAction, BulkState
from mercury.storage.letters import EVERY_LETTER
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.schema import RMS_MESSAGE
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock
from tests.acceptance.processes import MERCURY, Running, eventually
from tests.storage.test_dead_letters import add_letters, outbound

from .browsing import READER, SETTINGS, Browser, console_of, serving

ADA = Actor("Ada")
MANY = 3 * BATCH
REFRESH = '<noscript><meta http-equiv="refresh" content="2"></noscript>'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with contextlib.closing(open_sql_store(f"sqlite:///{tmp_path / 'shop.db'}")) as opened:
        add_letters(opened, *(outbound(f"{number:03}", number=number + 1) for number in range(MANY)))
        yield opened


@pytest.fixture
def operations(store: SqlStore, clock: FakeClock) -> Operations:
    return Operations(store, clock)


class Gate:
    """Lets pieces through one by one, in place of a store that is slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._turns = threading.Semaphore(0)
        made = BulkActions.advance

        def advance(actions: BulkActions, identifier: int, _pieces: int = 1) -> Bulk:
            assert self._turns.acquire(timeout=20)
            return made(actions, identifier, 1)

        monkeypatch.setattr(BulkActions, "advance", advance)

    def let(self, pieces: int) -> None:
        self._turns.release(pieces)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def browser(store: SqlStore, clock: FakeClock) -> Iterator[Browser]:
    console = console_of(store, clock, patience=0.0)
    with serving(console.application()) as url:
        made = Browser(url)
        made.log_in()
        yield made


def begin(browser: Browser, action: str = "letters-redrive") -> int:
    """Begin an action on all letters; the number of its page."""
    page = browser.submit(browser.get(action), action)
    assert "It has begun." in page.words
    return int(page.url.partition("id=")[2])


def test_a_long_action_shows_how_far_it_is_until_it_is_done(browser: Browser, gate: Gate) -> None:
    number = begin(browser)
    page = browser.get(f"bulk?id={number}")
    assert f"0 of {MANY}: it runs." in page.words
    assert REFRESH in page.text, "without the script the page loads itself again"
    gate.let(1)
    eventually(lambda: f"100 of {MANY}: it runs." in browser.get(f"bulk?id={number}").words, "a piece is done")
    assert f"Redriving 100 of {MANY} , by Ada: it runs." in browser.get("letters").words
    gate.let(MANY)
    eventually(lambda: f"{MANY} of {MANY}: it is done." in browser.get(f"bulk?id={number}").words, "it is done")
    done = browser.get(f"bulk?id={number}")
    assert REFRESH not in done.text
    assert "Cancel" not in done.words
    assert "No dead letter." in browser.get("letters").words
    assert browser.get("bulk?id=99").status == 404


def test_it_is_cancelled_between_two_pieces(browser: Browser, gate: Gate, operations: Operations) -> None:
    number = begin(browser, "letters-discard")
    gate.let(1)
    eventually(lambda: operations.bulk_actions.newest()[0].done == BATCH, "a piece is done")
    question = browser.get(f"bulk-cancel?id={number}")
    assert f"100 of {MANY} dead letters were looked at." in question.words
    done = browser.submit(question, "bulk-cancel", why="the wrong ones")
    assert f"Cancelled: 100 of {MANY} are discarded." in done.words
    gate.let(MANY)
    assert f"100 of {MANY}: it was cancelled." in browser.get(f"bulk?id={number}").words
    assert browser.submit(question, "bulk-cancel").status == 409
    assert operations.audit().items[0].note == "the wrong ones"


def test_after_the_end_of_the_console_it_says_where_it_stopped_and_another_console_goes_on(
    store: SqlStore, clock: FakeClock, gate: Gate, operations: Operations
) -> None:
    console = console_of(store, clock, patience=0.0)
    with serving(console.application()) as url:
        browser = Browser(url)
        browser.log_in()
        number = begin(browser)
        ending = threading.Thread(target=console.close)
        ending.start()
        eventually(console._bulks._ending.is_set, "the console ends")
        gate.let(1)
        ending.join(20)
    assert operations.bulk_actions.newest()[0].state is BulkState.STOPPED
    with serving(console_of(store, clock, patience=0.0).application()) as url:
        browser = Browser(url)
        browser.log_in()
        stopped = browser.get(f"bulk?id={number}")
        assert f"It has stopped after 100 of {MANY}: the process that worked on it has ended." in stopped.words
        assert REFRESH not in stopped.text
        gate.let(MANY)
        assert "It goes on." in browser.submit(stopped, "bulk-resume").words
        eventually(lambda: f"{MANY} of {MANY}: it is done." in browser.get(f"bulk?id={number}").words, "it is done")


def test_an_action_whose_process_was_killed_is_not_said_to_run(
    browser: Browser, operations: Operations, clock: FakeClock
) -> None:
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, ADA)
    operations.bulk_actions.advance(bulk.id)
    clock.now += SILENCE + 1
    page = browser.get(f"bulk?id={bulk.id}")
    assert f"It has stopped after 100 of {MANY}: no process has worked on it since" in page.words
    assert "it has stopped, and can go on" in browser.get("letters").words
    browser.submit(page, "bulk-resume")
    eventually(lambda: operations.bulk_actions.newest()[0].state is BulkState.DONE, "it is done")


def test_two_consoles_share_an_action_that_two_operators_let_go_on_and_one_cancel_ends_it_for_both(
    store: SqlStore, browser: Browser, gate: Gate, operations: Operations, clock: FakeClock
) -> None:
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, ADA)
    operations.bulk_actions.stop(bulk.id)
    with contextlib.ExitStack() as stack:
        second = console_of(store, clock, patience=0.0)
        other = Browser(stack.enter_context(serving(second.application())))
        stack.callback(second.close)
        other.log_in(name="Grace")
        pages = [each.get(f"bulk?id={bulk.id}") for each in (browser, other)]
        for each, page in zip((browser, other), pages, strict=True):
            assert "It goes on." in each.submit(page, "bulk-resume").words
        gate.let(2)
        eventually(
            lambda: operations.bulk_actions.newest()[0].done == 2 * BATCH, "each makes a piece, or one makes two"
        )
        questions = [each.get(f"bulk-cancel?id={bulk.id}") for each in (browser, other)]
        assert "Cancelled: 200 of" in other.submit(questions[1], "bulk-cancel").words
        late = browser.submit(questions[0], "bulk-cancel")
        assert late.status == 409
        assert "this bulk action is cancelled" in late.words
        assert browser.submit(pages[0], "bulk-resume").status == 409, "the form of before the end"
        gate.let(100)
        eventually(lambda: not second._bulks._threads, "the thread of the other console ends")
    ended = operations.bulk_actions.newest()[0]
    assert (ended.state, ended.done) == (BulkState.CANCELLED, 2 * BATCH)
    assert len(operations.letters.page(EVERY_LETTER, limit=MANY).items) == MANY - 2 * BATCH
    lines = operations.audit(AuditFilter(bulk=bulk.id), limit=MANY).items
    assert len({each.target for each in lines}) == len(lines) == 2 * BATCH
    by_hand = [(each.action, each.actor) for each in operations.audit(limit=9).items if each.action != "discard"]
    assert by_hand == [("cancel", "Grace"), ("resume", "Grace"), ("resume", "Ada")]


def test_after_kill_9_of_the_console_during_an_action_another_one_does_the_rest_once(
    tmp_path: Path, clock: FakeClock
) -> None:
    url, many = f"sqlite:///{tmp_path / 'killed.db'}", 60 * BATCH
    with contextlib.closing(open_sql_store(url)) as store:
        add_letters(store, *(outbound(f"{number:05}", number=number + 1) for number in range(many)))
        operations = Operations(store, clock)
        with Running(MERCURY, "console", "--store", url, "--port", "0", "--output", "json", cwd=tmp_path) as process:
            said = json.loads(process.says(r"\{.*\}"))
            victim = Browser(f"{said['url']}/")
            home = victim.get(said["login"])
            form = victim.get("letters-redrive").form("letters-redrive") | home.form("logout")

            def press() -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):  # its process is killed
                    victim.post("letters-redrive", form)

            pressed = threading.Thread(target=press)
            pressed.start()
            eventually(lambda: [each for each in operations.bulk_actions.newest() if each.done], "some are redriven")
            process.signal(signal.SIGKILL)
            pressed.join(20)
        killed = operations.bulk_actions.newest()[0]
        assert 0 < killed.done < many, "it was killed in between"
        assert killed.state is BulkState.RUNNING, "nobody could say that it has stopped"
        clock.now = killed.changed_at + SILENCE + 1
        with (
            contextlib.closing(console_of(store, clock, patience=60.0)) as console,
            serving(console.application()) as at,
        ):
            browser = Browser(at)
            browser.log_in()
            page = browser.get(f"bulk?id={killed.id}")
            assert f"It has stopped after {killed.done:,} of {many:,}: no process has worked on it since" in page.words
            browser.submit(page, "bulk-resume")
            eventually(lambda: operations.bulk_actions.newest()[0].state is BulkState.DONE, "the rest is done")
        assert operations.bulk_actions.newest()[0].done == many
        with store.transaction() as tx:
            (row,) = tx.read(
                select(func.count().label("rows"), func.count(RMS_MESSAGE.c.message_id.distinct()).label("ids"))
            )
        assert (row["rows"], row["ids"]) == (many, many), "each is sent once"


def test_a_reader_sees_how_far_it_is_and_cannot_cancel(browser: Browser, operations: Operations) -> None:
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, ADA)
    browser.cookies.clear()
    home = browser.log_in(READER)
    page = browser.get(f"bulk?id={bulk.id}")
    assert f"0 of {MANY}: it runs." in page.words
    assert "Cancel" not in page.words
    for action in ("bulk-cancel", "bulk-resume"):
        assert browser.post(action, home.form("logout") | {"id": str(bulk.id)}).status == 403
    assert browser.get(f"bulk-cancel?id={bulk.id}").status == 403


def test_a_piece_is_made_again_while_the_store_fails_and_not_for_ever(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk = operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, ADA)
    made, tries = BulkActions.advance, []

    def failing(actions: BulkActions, identifier: int, pieces: int = 1) -> Bulk:
        tries.append(identifier)
        if len(tries) < ATTEMPTS or len(tries) > ATTEMPTS + 1:
            raise TransientStorageError("no route to host")
        return made(actions, identifier, 1)

    monkeypatch.setattr(BulkActions, "advance", failing)
    runner = BulkRunner(operations.bulk_actions, pause=0.0)
    runner.start(bulk.id)
    runner.wait(bulk.id, 20)
    assert len(tries) == ATTEMPTS + 1 + ATTEMPTS
    ended = operations.bulk_actions.newest()[0]
    assert (ended.done, ended.state) == (2 * BATCH, BulkState.STOPPED)


def test_the_console_of_an_application_is_closed_before_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Console] = []
    monkeypatch.setattr(Console, "close", lambda console: closed.append(console))
    mercury = Mercury(f"sqlite:///{tmp_path / 'app.db'}", settings=Settings(console=SETTINGS))
    mercury.console_router()
    assert closed == []
    mercury.stop()
    assert len(closed) == 1


def test_a_console_works_on_a_bounded_number_at_once(operations: Operations, gate: Gate) -> None:
    runner = BulkRunner(operations.bulk_actions)
    for _ in range(MOST):
        runner.check_room()
        runner.start(operations.bulk_actions.begin(BulkAction.DISCARD, EVERY_LETTER, ADA).id)
    with pytest.raises(NotPossible, match=f"works on {MOST} bulk actions already"):
        runner.check_room()
    gate.let(100)
    runner.close()
    with pytest.raises(NotPossible, match="this console ends"):
        runner.check_room()
