"""Recovery with threads, killed servers, and broken connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mercury import Mercury
from mercury.errors import TransientStorageError
from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.settings import XaSettings, load
from mercury.storage.application import Ending
from tests.acceptance.processes import eventually
from tests.postgres import embedded_postgres

from .pausing import paused
from .places import Places, fill_application, fill_store, work
from .test_recovery import cut, leave, recover


class OwnServer:
    """A server that may be killed, with the databases of both forms."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        databases = Databases(server.url())
        self._urls = {name: databases.create(name) for name in ("app", "store", "log")}
        fill_application(self._urls["app"])
        fill_store(self._urls["store"])
        fill_store(self._urls["log"])

    def places(self, form: str) -> Places:
        made = Places(self._urls["store"], self._urls["app"], self._urls["log"] if form == "two-phase" else None)
        made.clean()
        return made


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    with embedded_postgres() as server:
        yield OwnServer(server)


@contextmanager
def running(places: Places, **xa: float) -> Iterator[Mercury]:
    """A whole Mercury over these databases."""
    settings = replace(load(environment={}), xa=XaSettings(**{"lease": 0.2, "interval": 0.05, **xa}))
    with Mercury(places.store, resources={"app": places.app}, decision_log=places.log, settings=settings) as mercury:
        yield mercury


def test_decided_transactions_are_finished_before_a_process_serves(places: Places) -> None:
    leave(places, "commit_decision")
    with running(places, interval=3600.0) as mercury:
        # A second old, so that it is no longer left to its coordinator.
        assert mercury.coordinator is not None
        eventually(lambda: look(mercury) == 0, "nothing in doubt")
        assert places.state == ([1], [1], [])


def look(mercury: Mercury) -> int:
    assert mercury.coordinator is not None
    return len(mercury.coordinator.recovery.run_once(mercury.clock())) + len(prepared_here(mercury))


def prepared_here(mercury: Mercury) -> list[object]:
    assert mercury.coordinator is not None
    resources = mercury.coordinator.recovery.resources
    return [each for resource in resources for each in resource.prepared(mercury.coordinator.store_id)]


def test_a_running_process_rolls_back_what_a_dead_one_left(places: Places) -> None:
    leave(places, "prepare")
    with running(places) as mercury:
        eventually(lambda: places.prepared() == [], "nothing prepared")
        eventually(lambda: mercury.watch.metrics()["in_doubt"] == 0, "the figure")
        assert mercury.watch.metrics()["databases_away"] == 0
    assert places.state == ([], [], [])


def test_a_process_that_gives_signs_of_life_is_left_alone_however_long_it_takes(places: Places) -> None:
    """Beside one that recovers every few milliseconds, for longer than the lease."""
    # On a busy machine a thread may not run for a second: that is no reason to be given up here.
    with running(places, lease=2.0) as living, running(places, lease=2.0) as other:
        assert living.coordinator is not None
        with paused(living.coordinator, "prepare") as stopped:
            eventually(lambda: (left := other.in_doubt()) is not None and len(left) > 0, "it is seen")
            eventually(lambda: (other.watch.metrics()["in_doubt_oldest"] or 0) > 2.5, "it takes longer than the lease")
            stopped.go_on()
            assert stopped.error is None
    assert places.state == ([1], [1], [])


def test_a_branch_that_was_away_is_committed_as_soon_as_it_is_back(places: Places) -> None:
    with running(places, interval=3600.0) as mercury:
        assert mercury.coordinator is not None
        with paused(mercury.coordinator, "commit_decision") as stopped:
            cut(places)
            stopped.go_on()
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.away == ("app",)
        # Not at the next interval: recovery is woken.
        eventually(lambda: places.state == ([1], [1], []), "it is committed")


def test_the_store_is_lost_before_its_commit_and_nothing_is_assumed(places: Places) -> None:
    if places.store.startswith("sqlite"):
        pytest.skip("a file is not lost")
    with places.process() as coordinator:
        with paused(coordinator, "decide") as stopped:
            other = Places(store=places.store, app=places.log or places.store)
            cut(other)
            other.close()
            stopped.go_on()
            assert isinstance(stopped.error, TransientStorageError)
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.ending is Ending.ROLLED_BACK
        recover(coordinator)
        assert places.state == ([], [], [])


@pytest.mark.parametrize("step", ["prepare", "decide", "commit_decision", "commit_branch"])
@pytest.mark.parametrize("form", ["last-resource", "two-phase"])
def test_the_server_is_killed_and_started_again(own_server: OwnServer, form: str, step: str) -> None:
    places = own_server.places(form)
    with places.process() as coordinator, paused(coordinator, step):
        own_server.server.kill()
        own_server.server.start()
    decided = step in ("commit_decision", "commit_branch")
    with places.process() as other:
        other.recovery.run_once(other.clock())
        assert places.state == (([1], [1], []) if decided else ([], [], []))
        assert other.decisions.heuristics() == []
        with other.transaction() as tx:
            work(tx, 2)
        assert places.state[2] == []
    places.close()
