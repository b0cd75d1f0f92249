"""A buffer or sequence whose work fails is not retried during its cool-down, which grows with each failure."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mercury.engine.appended import AppendedKeys
from mercury.engine.cool_down import CoolDown
from mercury.engine.delivery.invocation import InvocationWorker
from mercury.engine.settings import EngineSettings
from mercury.engine.source.worker import SourceWorker
from mercury.errors import StorageError, TransientStorageError
from mercury.storage.api import Capabilities
from mercury.storage.claims import Claim
from mercury.storage.outages import PAUSES, Outages
from mercury.storage.records import SequenceKey

ERRORS = pytest.mark.parametrize("error", [TransientStorageError("refused"), StorageError("malformed")], ids=str)


class Failing:
    """A store that still finds what is to be done, and fails when it is to be done."""

    capabilities = Capabilities()

    def __init__(self, error: StorageError) -> None:
        self._error = error
        self.tried = 0

    def due_invoker(self, *_: object) -> dict[str, str]:
        return {"urn:one": ""}

    def stuck_invoker(self, *_: object) -> list[str]:
        return []

    def due_rms(self, *_: object) -> list[SequenceKey]:
        return [SequenceKey("http://there", "key")]

    def transaction(self) -> None:
        self.tried += 1
        raise self._error


def context(store: Failing) -> Any:
    claims = SimpleNamespace(
        owner="me",
        take=lambda resource, _now: Claim(resource, "me", 1),
        take_all=lambda resources, _now: {thing: Claim(name, "me", 1) for thing, name in resources.items()},
        monotonic=lambda: 0.0,
        run=lambda: lambda: False,
    )
    application = SimpleNamespace(services=frozenset)
    return SimpleNamespace(
        store=store,
        claims=claims,
        application=application,
        settings=EngineSettings(),
        outages=Outages(),
        rates=None,
        others=False,
        appended=AppendedKeys(),
    )


def turns(worker: InvocationWorker | SourceWorker) -> None:
    """Twenty looks a second, for ten seconds."""
    for turn in range(200):
        worker.run_once(turn / 20)


@ERRORS
@pytest.mark.parametrize("kind", [InvocationWorker, SourceWorker])
def test_work_that_the_store_fails_at_is_one_line_and_is_tried_ever_more_seldom(
    caplog: pytest.LogCaptureFixture, kind: type[InvocationWorker] | type[SourceWorker], error: StorageError
) -> None:
    caplog.set_level(logging.INFO)
    store = Failing(error)
    turns(kind(cast("Any", context(store))))
    (line,) = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert str(error) in line.getMessage()
    assert store.tried <= 16  # 0.1, 0.2, 0.4 ... seconds between; a transient failure is repeated once at once


def test_pause_is_shortest_again_after_a_success() -> None:
    put_off = CoolDown()
    for _ in range(20):
        put_off.add("it", 100.0)
    assert put_off.waits("it", 100.0 + PAUSES.cap - 0.01)
    assert not put_off.waits("it", 100.0 + PAUSES.cap)
    assert not put_off.waits("it", 50.0)  # the clock was set back
    assert (put_off.count, put_off.has_failed("it")) == (1, True)
    put_off.worked("it")
    assert (put_off.count, put_off.has_failed("it")) == (0, False)
    put_off.add("it", 200.0)
    assert put_off.waits("it", 200.0)
    assert not put_off.waits("it", 200.0 + PAUSES.base)
