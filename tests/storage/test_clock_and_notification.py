"""On PostgreSQL, leases use the database's clock, and processes notify each other of new work."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy import make_url
from typer.testing import CliRunner

from mercury import ConfigurationError, Mercury
from mercury.cli.main import app
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import ACTIVE_MEMBER
from mercury.storage.opening import open_sql_store, open_store
from mercury.store_access import refuse_beside_active_member
from mercury.testing.contract.builders import KEY, inbound, row
from tests.acceptance.processes import eventually

from .shop import Order, Shop, settings

HOUR = 3600.0
#: Seconds: far longer than a test takes.
NEVER = 60.0


@pytest.fixture
def stores(postgres_url: str) -> Iterator[list[StorageManager]]:
    """Two processes' stores on one database."""
    made: list[StorageManager] = [open_store(postgres_url), open_store(postgres_url)]
    yield made
    for store in made:
        store.close()


@pytest.mark.parametrize("wrong", [-HOUR, HOUR], ids=["slow", "fast"])
def test_a_clock_that_is_wrong_by_an_hour_changes_nothing(stores: list[StorageManager], wrong: float) -> None:
    first, second = stores
    now = time.time()
    held = first.claim("rms x", "first", now + wrong, 30.0)
    assert held is not None
    assert second.claim("rms x", "second", now, 30.0) is None  # a slow clock did not make it end at once
    assert second.claim("rms x", "second", now + HOUR, 30.0) is None  # nor does the fast clock of another process
    with first.transaction() as tx:
        tx.guard(held)
        tx.rms.append(row("message"))
    short = first.claim("rms y", "first", now + wrong, 0.05)
    assert short is not None
    taken = eventually(
        lambda: second.claim("rms y", "second", now - wrong, 30.0), "it is taken over when the lease is over"
    )
    assert taken.epoch > short.epoch


@pytest.mark.parametrize("wrong", [-HOUR, HOUR], ids=["slow", "fast"])
def test_process_whose_clock_is_wrong_by_an_hour_does_not_start_beside_an_active_member(
    stores: list[StorageManager], wrong: float
) -> None:
    active, other = stores
    claim = active.claim(ACTIVE_MEMBER, "active", time.time(), 600.0)
    assert claim is not None
    with pytest.raises(ConfigurationError, match=r"its lease ends in (5\d\d|600) s"):
        refuse_beside_active_member(other, time.time() + wrong)
    active.release(claim)
    refuse_beside_active_member(other, time.time() + wrong)


def test_process_whose_clock_is_an_hour_behind_starts_after_the_lease_of_a_member_that_has_died(
    stores: list[StorageManager],
) -> None:
    died, other = stores
    assert died.claim(ACTIVE_MEMBER, "died", time.time(), 0.0) is not None
    refuse_beside_active_member(other, time.time() - HOUR)


@pytest.mark.parametrize(("lease", "said"), [(7000.0, r"lease for 1 h 5\d min"), (0.0, r"lease over for \d+ s")])
def test_status_of_a_machine_whose_clock_is_wrong_shows_what_is_left_of_the_lease(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, lease: float, said: str
) -> None:
    store = open_store(postgres_url)
    assert store.claim(ACTIVE_MEMBER, "active", time.time(), lease) is not None
    store.close()
    monkeypatch.setattr("mercury.cli.status.time", SimpleNamespace(time=lambda: time.time() + HOUR))
    shown = CliRunner().invoke(app, ["status", "--store", postgres_url])
    assert re.search(said, " ".join(shown.stdout.split()))


def test_a_commit_notifies_another_process_without_polling(stores: list[StorageManager]) -> None:
    first, second = stores
    told: list[frozenset[Topic]] = []
    heard = threading.Event()

    def listen(topics: frozenset[Topic]) -> None:
        told.append(topics)
        heard.set()

    second.listen(listen)

    def tells() -> bool:
        with first.transaction() as tx:
            tx.invoker.add([inbound(1)])
        return heard.wait(0.2)

    eventually(tells, "it is notified")  # its thread may not listen yet when the first commits come
    heard.clear()
    told.clear()
    with first.transaction() as tx:
        tx.rms.append(row("message"))
    assert heard.wait(10)
    assert frozenset((Topic.RMS,)) in told


def test_a_notification_names_the_key_that_a_message_was_appended_to(stores: list[StorageManager]) -> None:
    first, second = stores
    said: list[frozenset[str]] = []
    second.listen(lambda _: None, keys=said.append)

    def tells() -> bool:
        with first.transaction() as tx:
            tx.rms.append(row(str(uuid.uuid4())))
        return bool(said)

    eventually(tells, "it is notified")
    assert said[0] == frozenset((KEY.digest,))


def test_a_store_that_is_closed_right_after_a_commit_has_notified(stores: list[StorageManager]) -> None:
    """Its second commit comes too soon after the first for a notification of its own: a thread was to send it."""
    first, second = stores
    told: list[frozenset[Topic]] = []
    second.listen(told.append)

    def tells() -> bool:
        with first.transaction() as tx:
            tx.rms.append(row(str(uuid.uuid4())))
        return bool(told)

    eventually(tells, "it listens")
    with first.transaction() as tx:
        tx.rms.append(row("message"))
    with first.transaction() as tx:
        tx.invoker.add([inbound(1)])
    first.close()
    eventually(
        lambda: any(Topic.INVOKER in topics for topics in told), "it is notified of the last commit", patience=20.0
    )


def test_a_url_with_options_is_understood_for_notifications_too(postgres_url: str) -> None:
    url = make_url(postgres_url).update_query_dict({"options": "-c work_mem=1MB"}).render_as_string(hide_password=False)
    first, second = open_store(url), open_store(url)
    heard = threading.Event()
    second.listen(lambda _: heard.set())

    def tells() -> bool:
        with first.transaction() as tx:
            tx.invoker.add([inbound(1)])
        return heard.wait(0.2)

    eventually(tells, "it is notified", patience=15.0)
    first.close()
    second.close()


def test_a_process_hears_of_its_own_commits_once(stores: list[StorageManager]) -> None:
    first, second = stores
    told: list[frozenset[Topic]] = []
    others: list[frozenset[Topic]] = []
    first.listen(told.append)
    second.listen(others.append)

    def tells() -> bool:
        with first.transaction() as tx:
            tx.invoker.add([inbound(1)])
        return bool(others)

    eventually(tells, "the other one is notified")
    before = len(told)
    with second.transaction() as tx:
        tx.rms.append(row("theirs"))
    eventually(lambda: len(told) > before, "it is notified of the other's")
    mine = [topics for topics in told[:before] if topics == frozenset((Topic.INVOKER,))]
    assert len(mine) == before  # one for each commit of its own, and no echo


def test_commit_of_a_process_that_only_sends_wakes_the_process_that_transmits(postgres_url: str) -> None:
    """One process hands over and another one's workers do the rest, although no process polls."""
    shop = Shop()
    rare = RuntimeSettings(poll=NEVER)
    with shop.open() as (_, url), Mercury(postgres_url, settings=settings(runtime=rare)):
        hands_over = Mercury(postgres_url, settings=settings(runtime=rare))  # and is never started
        sender = hands_over.to(url)
        sender.send(Order(1), operation="put")
        eventually(lambda: shop.orders == [1], "the first is handled", NEVER / 2)
        for number in range(2, 6):
            begun = time.monotonic()
            sender.send(Order(number), operation="put")
            eventually(lambda number=number: shop.orders[-1] == number, "it is handled", NEVER / 2)  # type: ignore[misc]
            assert time.monotonic() - begun < NEVER / 2
        hands_over.stop()


def test_notifications_missed_while_disconnected_are_made_up_for(postgres_url: str) -> None:
    first, second = open_sql_store(postgres_url), open_sql_store(postgres_url)
    told: list[frozenset[Topic]] = []
    second.listen(told.append)

    def tells() -> bool:
        with first.transaction() as tx:
            tx.invoker.add([inbound(1)])
        return bool(told)

    eventually(tells, "it listens")
    told.clear()
    with first.connection() as connection:
        ended = connection.exec_driver_sql(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'mercury-notify' "
            "and query ilike 'listen%%'"
        ).scalar_one()
    assert ended == 1
    eventually(lambda: frozenset(Topic) in told, "it looks for everything when it listens again")
    first.close()
    second.close()


def test_the_settings_of_a_session_are_those_that_the_promises_rest_on(postgres_url: str) -> None:
    """Also when the URL brings options of its own."""

    url = make_url(postgres_url)
    url = url.update_query_dict({"options": "-c work_mem=5MB"})
    store = open_sql_store(url.render_as_string(hide_password=False), lock_timeout=7.0, idle_timeout=71.0)
    with store.connection() as connection:
        shown = {
            name: connection.exec_driver_sql(f"show {name}").scalar_one()
            for name in ("lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit", "work_mem",
                         "transaction_isolation")
        }  # fmt: skip
    assert shown == {
        "lock_timeout": "7s",
        "idle_in_transaction_session_timeout": "71s",
        "synchronous_commit": "on",
        "work_mem": "5MB",
        "transaction_isolation": "read committed",
    }
    store.close()
