"""The worker that moves messages from the stage to the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.application import Application
from mercury.engine.context import EngineContext
from mercury.engine.exchange import Response, Step
from mercury.engine.stage.moving import read, remove, write
from mercury.engine.stage_room import StageRoom, StageSettings
from mercury.errors import StorageError
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import WorkFilter
from mercury.storage.gauges import Waits
from mercury.storage.letters import Direction
from mercury.storage.outages import PAUSES, Outages

log = logging.getLogger("mercury.engine.stage")

#: Seconds until messages are read again for which the store has no room.
FULL_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """Where the messages of a stage go, and how many it may hold meanwhile."""

    store: StorageManager
    settings: StageSettings
    room: StageRoom


class StageMover:
    """Moves messages from a stage to a store.

    :param context: of the engine whose store is the stage.
    :param target: where the messages go.
    :param application: as the engine of the target's store sees it.
    """

    def __init__(self, context: EngineContext, target: Target, application: Application) -> None:
        self._context = context
        self._store = target.store
        self._application = application
        self._settings = target.settings
        self._room = target.room
        self._outages = Outages()
        self._failures = 0
        #: Whether the messages that an earlier process has left in the stage are counted.
        self._counted = False
        #: Not before this time, because the store has failed or has no room; seconds since the epoch.
        self._retry_at = 0.0
        #: As of the worker whose place it takes: a stage has no responses, and one thread moves.
        self.answer: Callable[[list[Response]], None] = _no_responses
        self.more: Callable[[], None] = _wake_none

    def run_once(self, now: float) -> Step:
        """Move one batch."""
        if now < self._retry_at <= now + PAUSES.cap:  # the clock may have been set back
            return Step(more=False)
        stage = self._context.store
        due = stage.due_invoker(now, self._context.settings.sequence_batch, self._work_filter)
        if not due or not self._counted:
            self._room.recount(lambda: _waiting(stage, now))
            self._counted = True
        if not due:
            return Step(more=False)
        with stage.transaction() as tx:
            moves = read(tx, due, self._settings)
        try:
            with self._store.transaction() as tx:
                write(tx, self._context, self._application, moves, now)
        except StorageError as error:
            self._failures += 1
            self._retry_at = now + PAUSES.delay(self._failures, 0.0)
            self._outages.failed(error, "what is in the stage")
            return Step(more=False)
        self._failures = 0
        self._outages.worked()
        with stage.transaction() as tx:
            count = remove(tx, moves)
            tx.after_commit(lambda: self._room.change(-count))
        progress = sum(bool(move.moved or move.markers) for move in moves)
        if any(len(move.moved) < len(move.messages) for move in moves):
            self._retry_at = now + FULL_PAUSE
            log.debug("the store has no room for all of a batch; the rest stays in the stage")
        return Step(progress=progress)

    def next_due(self) -> float | None:
        """When the next batch is due without a new message."""
        found = self._context.store.next_due(Topic.INVOKER, self._work_filter)
        return None if found is None else max(found, self._retry_at)

    @property
    def _work_filter(self) -> WorkFilter:
        return WorkFilter(self._context.claims.owner, self._application.services())


def _waiting(stage: StorageManager, now: float) -> int:
    """The messages in a stage."""
    gauges = stage.gauges(now)
    waiting = sum(count for (waits, _), count in gauges.waiting.items() if waits is Waits.DELIVERY)
    return waiting + gauges.uncounted.get(Direction.INBOUND, 0)


def _no_responses(responses: list[Response]) -> None:
    """Nothing to hand over."""


def _wake_none() -> None:
    """No other thread moves."""
