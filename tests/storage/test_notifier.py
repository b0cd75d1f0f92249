"""Commits announce work to other processes in their own round trip; a thread announces only what no commit has."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from mercury.storage.api import Topic
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.new_work import NewWork
from mercury.storage.sql.notify import CHANNEL, LEFT_TO_COMMITS, NOTIFICATION_WINDOW, Notifier
from mercury.storage.sql.store import SqlStore
from mercury.testing.clock import FakeClock
from mercury.testing.contract.builders import row

RMS, RMD, INVOKER = (NewWork(frozenset((topic,))) for topic in (Topic.RMS, Topic.RMD, Topic.INVOKER))
END = "the end"


class Listening:
    """Another process, which hears what is announced."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(
            make_url(url).set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
        )
        self._connection.execute(f"listen {CHANNEL}".encode())

    def heard(self) -> list[NewWork]:
        """What was announced since the last call."""
        self._connection.execute("select pg_notify(%s, %s)", (CHANNEL, END))
        found: list[NewWork] = []
        for notification in self._connection.notifies():
            if notification.payload == END:
                break
            found.append(NewWork.read(notification.payload.partition(":")[2]))
        return found

    def execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def listening(postgres_url: str) -> Iterator[Listening]:
    made = Listening(postgres_url)
    yield made
    made.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


@pytest.fixture
def notifier(postgres_url: str, clock: FakeClock) -> Iterator[Notifier]:
    made = Notifier(make_url(postgres_url), lambda _: None, clock)
    yield made
    made.close()


def test_a_commit_announces_what_has_waited_since_the_last_announcement(
    notifier: Notifier, clock: FakeClock, listening: Listening
) -> None:
    first = notifier.claim(RMS)
    assert first is not None
    assert notifier.claim(INVOKER) is None, "one was announced a moment ago"
    notifier.send(INVOKER)
    clock.advance(NOTIFICATION_WINDOW)
    second = notifier.claim(RMS)
    assert second is not None
    listening.execute(second.text)
    notifier.announced(second)
    notifier.close()
    assert listening.heard() == [RMS | INVOKER], "the thread has nothing left to announce"


def test_a_commit_that_fails_has_announced_nothing(notifier: Notifier, clock: FakeClock, listening: Listening) -> None:
    notifier.claim(RMS)
    notifier.send(INVOKER)
    clock.advance(NOTIFICATION_WINDOW)
    assert notifier.claim(RMS) is not None, "what waits is part of it, and its commit is rolled back"
    notifier.close()
    assert listening.heard() == [INVOKER]


@pytest.mark.parametrize("more", [RMD, INVOKER], ids=["other work", "the same work"])
def test_work_that_was_committed_during_an_announcement_is_announced_too(
    notifier: Notifier, clock: FakeClock, listening: Listening, more: NewWork
) -> None:
    """It may be committed behind the announcement: another process searches too early then, and finds nothing."""
    notifier.claim(RMS)
    notifier.send(INVOKER)
    clock.advance(NOTIFICATION_WINDOW)
    announcement = notifier.claim(RMS)
    assert announcement is not None
    notifier.send(more)
    notifier.announced(announcement)
    notifier.close()
    assert listening.heard() == [INVOKER | more]


def test_a_thread_announces_work_after_the_last_commit(
    notifier: Notifier, clock: FakeClock, listening: Listening
) -> None:
    notifier.claim(RMS)
    notifier.send(INVOKER)
    clock.advance(LEFT_TO_COMMITS)
    notifier.send(RMD)  # wakes it: this clock stands still
    found: list[NewWork] = []
    while not found:
        found = listening.heard()
    assert Topic.INVOKER in found[0].topics


def test_commits_of_a_stream_need_no_other_connection_to_announce_them(
    postgres_url: str, clock: FakeClock, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_sql_store(postgres_url)
    assert isinstance(store, SqlStore)
    monkeypatch.setattr(store, "_notifier", Notifier(make_url(postgres_url), lambda _: None, clock))
    for number in range(7):
        with store.transaction() as tx:
            tx.rms.append(row(f"urn:message:{number}"))
        clock.advance(NOTIFICATION_WINDOW / 2)
    store.close()
    assert len(listening.heard()) == 4, "each second commit, which leaves nothing"
