"""Retention: finished records are deleted when they are no longer needed, and no others, so tables do not grow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, func, select, text

from mercury import ConfigurationError, Mercury
from mercury.engine.exchange import Step
from mercury.engine.runtime.retention import (
    ATTACHMENTS_BATCH,
    ATTACHMENTS_PAUSE,
    BATCH_PAUSE,
    FIRST_DELAY,
    RetentionSettings,
    RetentionWorker,
)
from mercury.engine.runtime.threads import RETENTION_POLL_INTERVAL
from mercury.engine.runtime.worker_pool import WorkerPool
from mercury.engine.settings import EngineSettings
from mercury.errors import StorageError
from mercury.operations.acting import entry_of
from mercury.operations.operator import Operations
from mercury.storage.api import StorageManager
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.sql import steering
from mercury.storage.sql.schema import METADATA, STORE
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import KEY, buffer, inbound, rmd_record, row
from tests.acceptance.processes import eventually

from .pair import Pair
from .shop import settings

DAY = 86400.0
#: Sequences that come and go.
MANY = 8
SETTINGS = RetentionSettings(kept=30 * DAY, claims=DAY, interval=100.0, batch=7)


@pytest.fixture
def now() -> float:
    return time.time()  # databases have clocks of their own


@pytest.fixture
def store(sql_url: str) -> Iterator[StorageManager]:
    opened = open_store(sql_url)
    yield opened
    opened.close()


def sizes(url: str) -> dict[str, int]:
    """How many rows each table has that has some."""
    engine = create_engine(url)
    with engine.connect() as connection:
        counts = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in METADATA.tables.items()
            if table is not STORE
        }
    engine.dispose()
    return {name: count for name, count in counts.items() if count}


def sweep(store: StorageManager, now: float) -> int:
    """All that a worker removes at this time. Returns how many turns it took."""
    worker = RetentionWorker(store, SETTINGS, now)
    now += FIRST_DELAY
    turns = 0
    while worker.run_once(now).progress:
        due = worker.next_due()
        assert due is not None
        now, turns = due, turns + 1
    return turns


def test_of_many_finished_sequences_nothing_is_left_in_the_end(store: StorageManager, sql_url: str, now: float) -> None:
    pair = Pair(store, MemoryStore())
    served = Pair(MemoryStore(), store)
    for number in range(MANY):
        for each in (pair, served):
            each.send(["a", "b", "c"], key=f"till {number}", end=True)
            each.run(now)
    before = sizes(sql_url)
    assert before["mercury_rms_sequence"] == 2 * MANY  # half of them for responses
    assert before["mercury_rmd_sequence"] == 2 * MANY
    assert before["mercury_rms_kept"] == 3 * MANY
    assert before["mercury_claim"] >= 2 * MANY
    assert before["mercury_rms_key"] >= MANY
    assert "mercury_rms_message" not in before
    sweep(store, now + 1.5 * DAY)
    assert sizes(sql_url)["mercury_rms_kept"] == 3 * MANY  # a reconciler may ask for them
    for each in (pair, served):
        each.run(now + 2 * DAY)  # their tombstones are over
    sweep(store, now + 2 * DAY)
    assert set(sizes(sql_url)) - {"mercury_claim", "mercury_commit"} == {"mercury_compatibility", "mercury_rms_kept"}
    assert sweep(store, now + 40 * DAY) > 3 * MANY // SETTINGS.batch
    assert sizes(sql_url) == {"mercury_compatibility": 1}


def test_of_sequences_that_a_peer_makes_and_ends_as_many_are_left_as_are_remembered(
    store: StorageManager, sql_url: str, now: float
) -> None:
    pair = Pair(MemoryStore(), store, EngineSettings(max_ended_per_peer=3, remember_ended=2.0))
    for number in range(MANY):
        pair.send([f"{number}"], key=f"till {number}", ask=True, end=True)
        for second in range(12):  # the client is to acknowledge its response, and to end its sequence
            pair.run(now + second)
        now += 12
        left = sizes(sql_url)
        assert left["mercury_rmd_sequence"] == left["mercury_invoker_buffer"] <= 3
        assert left.get("mercury_rms_sequence", 0) <= 4
    assert len(pair.server.handled) == MANY


def test_the_audit_loses_its_oldest_entries_in_batches_and_no_others(
    store: StorageManager, sql_url: str, now: float
) -> None:
    assert isinstance(store, SqlStore)
    with store.transaction() as tx:
        for days in [*range(410, 390, -1)]:
            actor, at = Actor("Ada"), now - days * DAY
            steering.note(tx, entry_of(at, actor, "pause", TargetKind.SERVICE, f"{days}"))
    before = now - 400 * DAY
    assert store.sweep(kept_before=0.0, idle_before=0.0, limit=7, audit_before=0.0) == 0  # for ever
    assert store.sweep(kept_before=0.0, idle_before=0.0, limit=7, audit_before=before) == 7
    assert sizes(sql_url)["mercury_audit"] == 13
    for _ in range(3):
        store.sweep(kept_before=0.0, idle_before=0.0, limit=7, audit_before=before)
    left = [each.target for each in Operations(store).audit().items]
    assert left == [str(days) for days in range(391, 401)]  # the one of exactly 400 days too


def test_a_process_keeps_the_audit_for_as_long_as_it_is_set(store: StorageManager, sql_url: str, now: float) -> None:
    assert isinstance(store, SqlStore)
    with store.transaction() as tx:
        steering.note(tx, entry_of(now - 500 * DAY, Actor("Ada"), "pause", TargetKind.SERVICE, "shop"))
    for kept, count in ((None, 1), (501 * DAY, 1), (499 * DAY, 0)):
        worker = RetentionWorker(store, replace(SETTINGS, audit=kept), now)
        worker.run_once(now + FIRST_DELAY)
        assert sizes(sql_url).get("mercury_audit", 0) == count


def test_used_entries_stay(store: StorageManager, sql_url: str, now: float) -> None:
    """A claim that is held, a buffer that waits, a buffer of a sequence that lives, a key with something to send."""
    with store.transaction() as tx:
        tx.invoker.insert(buffer("urn:waits"))
        tx.invoker.add([inbound(1, "urn:waits")])
        tx.rmd.insert(rmd_record("urn:lives"))
        tx.invoker.insert(buffer("urn:lives"))
        tx.invoker.insert(buffer("urn:over"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        tx.rms.append(row("message"))
    assert store.claim("held", "me", now, 30.0) is not None
    sweep(store, now)
    with store.transaction() as tx:
        assert [record.sequence for record in tx.invoker.all()] == ["urn:lives", "urn:waits"]
        assert tx.invoker.numbers("urn:waits").count == 1
    found = sizes(sql_url)
    assert (found["mercury_claim"], found["mercury_rms_key"], found["mercury_rms_message"]) == (1, 1, 1)


def test_a_clock_that_is_an_hour_ahead_removes_nothing_that_is_used(postgres_url: str, now: float) -> None:
    """The claim of another process, and the marker of its commit, are by the database's clock."""
    store = open_store(postgres_url)
    ahead = open_sql_store(postgres_url)
    ahead.clock = lambda: now + 3600.0
    assert store.claim("held", "me", now, 30.0) is not None
    ahead.sweep(kept_before=now + 3600.0, idle_before=now + 3600.0 - 600.0, limit=10)
    assert sizes(postgres_url)["mercury_claim"] == 1
    for each in (store, ahead):
        each.close()


def test_a_clock_that_is_behind_the_database_removes_nothing_that_is_used(postgres_url: str, now: float) -> None:
    """Processes note themselves and the messages of the last minutes by their own clocks."""
    store = open_sql_store(postgres_url)
    store.clock = lambda: now - 3600.0
    with store.transaction() as tx:
        tx.replay.add({"digest": now - 3600.0 + 60.0})
    store.sweep(kept_before=now - 3600.0, idle_before=now - 3600.0 - 600.0, limit=10)
    assert sizes(postgres_url)["mercury_replay"] == 1
    store.close()


def test_the_marker_of_a_commit_outlives_idle_rows(sql_url: str, now: float) -> None:
    """The process that has made it may look for it days later."""
    store = open_sql_store(sql_url)
    with store.engine.begin() as connection:
        store.dialect.insert_marker(connection, *store.commit_markers.new())
    sweep(store, now + 1.5 * DAY)
    assert sizes(sql_url)["mercury_commit"] == 1
    sweep(store, now + 3 * DAY)
    assert "mercury_commit" not in sizes(sql_url)
    store.close()


def test_commit_under_a_lost_and_forgotten_claim_is_refused(store: StorageManager, now: float) -> None:
    claim = store.claim("rms x", "me", now, 30.0)
    assert claim is not None
    sweep(store, now + 3 * DAY)
    assert store.claim("rms x", "somebody else", now, 30.0) is not None
    with pytest.raises(StorageError, match="the claim on rms x is lost"), store.transaction() as tx:
        tx.guard(claim)
        tx.rms.append(row("message"))


def test_a_locked_key_is_not_swept_away(postgres_url: str, now: float) -> None:
    first, second = open_store(postgres_url), open_store(postgres_url)
    with first.transaction() as tx:
        tx.rms.lock([KEY])
    with first.transaction() as tx:
        tx.rms.lock([KEY])
        assert second.sweep(kept_before=now, idle_before=now, limit=10) == 0  # and does not wait
    assert second.sweep(kept_before=now, idle_before=now, limit=10) == 1
    first.close()
    second.close()


class WithoutAttachments:
    has_attachments = False

    def remove_attachments(self, limit: int) -> int:
        return 0


def test_attachments_are_searched_soon_while_there_are_any_and_else_with_everything_else() -> None:
    class Attic(WithoutAttachments):
        left = ATTACHMENTS_BATCH + 1
        searches = 0

        @property
        def has_attachments(self) -> bool:  # type: ignore[override]
            return self.left > 0

        def remove_attachments(self, limit: int) -> int:
            self.searches += 1
            gone = min(self.left, limit)
            self.left -= gone
            return gone

        def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
            return 0

    attic = Attic()
    worker = RetentionWorker(attic, SETTINGS, 0.0)
    assert worker.next_due() == 0.0
    assert worker.run_once(0.0).progress == ATTACHMENTS_BATCH
    assert worker.next_due() == 0.0  # there may be more
    assert worker.run_once(1.0).progress == 1
    assert worker.next_due() == FIRST_DELAY  # none is left
    attic.left = 1
    assert worker.next_due() == 1.0 + ATTACHMENTS_PAUSE
    assert worker.run_once(ATTACHMENTS_PAUSE).progress == 0
    attic.left = 0
    worker.run_once(FIRST_DELAY)  # another process may have left some
    assert attic.searches == 3


def test_attachments_that_are_written_while_the_worker_rests_are_searched_soon() -> None:
    class Attic(WithoutAttachments):
        def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
            return 0

    attic = Attic()
    worker = RetentionWorker(attic, SETTINGS, 0.0)
    pool = WorkerPool(["rests"], worker, lambda _: Step(), RETENTION_POLL_INTERVAL, lambda: FIRST_DELAY)
    step = worker.run_once(FIRST_DELAY)
    assert step.progress == 0
    rest = pool.pause(step)
    attic.has_attachments = True
    assert rest <= ATTACHMENTS_PAUSE
    assert pool.pause(step) <= ATTACHMENTS_PAUSE


def test_a_batch_is_no_larger_than_it_is_set_and_the_next_one_soon() -> None:
    class Heap(WithoutAttachments):
        left = 20

        def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
            assert (kept_before, idle_before) == (pytest.approx(-30 * DAY + 100, abs=200), pytest.approx(-DAY, abs=300))
            gone = min(self.left, limit)
            self.left -= gone
            return gone

    worker = RetentionWorker(Heap(), SETTINGS, 0.0)
    assert worker.run_once(FIRST_DELAY - 1).progress == 0
    now, gone, pauses = FIRST_DELAY, [], []
    for _ in range(4):
        gone.append(worker.run_once(now).progress)
        due = worker.next_due()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert gone == [7, 7, 6, 0]
    assert pauses == [BATCH_PAUSE, BATCH_PAUSE, SETTINGS.interval, SETTINGS.interval]


def test_an_unreachable_store_is_queried_again_later() -> None:
    class Away(WithoutAttachments):
        def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
            raise StorageError("it is away")

    worker = RetentionWorker(Away(), SETTINGS, 0.0)
    with pytest.raises(StorageError, match="it is away"):  # the retention loop logs it, and retries
        worker.run_once(FIRST_DELAY)
    due = worker.next_due()
    assert due is not None
    assert due <= FIRST_DELAY


def test_a_store_in_memory_forgets_too(now: float) -> None:
    store = MemoryStore()
    pair = Pair(MemoryStore(), store)
    for number in range(5):
        pair.send(["a"], key=f"till {number}", end=True)
        pair.run(now)
    assert len(store.committed.invoker.buffers) > 0
    pair.run(now + 2 * DAY)
    sweep(store, now + 2 * DAY)
    assert (store.committed.invoker.buffers, store.committed.rmd.records, store.committed.rms.keys) == ({}, {}, {})


@pytest.mark.parametrize("wrong", [{"kept": -1.0}, {"claims": 0.0}, {"interval": 0.0}, {"batch": 0}], ids=str)
def test_a_figure_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        RetentionSettings(**wrong)  # type: ignore[arg-type]


def test_letters_stay_until_an_operator_decides(store: StorageManager, sql_url: str, now: float) -> None:
    engine = create_engine(sql_url)
    pair = Pair(store, MemoryStore())
    pair.send(["a"])
    with engine.begin() as connection:
        connection.execute(text("update mercury_rms_body set checksum = 'x'"))
    engine.dispose()
    pair.run(now)
    sweep(store, now + 400 * DAY)
    assert sizes(sql_url)["mercury_dead_letter"] == 1


def test_a_mercury_that_runs_does_it_by_itself(store: StorageManager, sql_url: str) -> None:
    engine = create_engine(sql_url)
    with engine.begin() as connection:
        values = "('message', 'order:1', null, null, 1.0, 1.0)"
        connection.execute(text(f"insert into mercury_rms_kept values {values}"))
    engine.dispose()
    with Mercury(sql_url, settings=settings(retention=RetentionSettings(interval=0.1))):
        eventually(lambda: "mercury_rms_kept" not in sizes(sql_url), "what is long over goes")
