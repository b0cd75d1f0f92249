"""The worker that moves messages from the stage to the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.application import Application
from mercury.engine.context import EngineContext
from mercury.engine.exchange import Response, Step
from mercury.engine.stage.damage import restore_ends
from mercury.engine.stage.moving import Move, read, remove, write
from mercury.engine.stage_room import StageRoom, StageSettings
from mercury.errors import DataError, StorageError
from mercury.statemachine.retransmission import is_due
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import WorkFilter
from mercury.storage.gauges import MOST_ROWS, Waits
from mercury.storage.letters import Direction
from mercury.storage.outages import OUTAGE_PAUSES, Outages

log = logging.getLogger("mercury.engine.stage")

#: Seconds until the messages of a sequence are read again for which the store has no room, or which it refuses.
REFUSED_PAUSE = 0.5
#: Seconds between two counts of a stage that has more than `MOST_ROWS` rows: each reads all of them, 1 s per million.
COUNT_INTERVAL = 60.0
#: More rows than a stage has.
ALL_ROWS = 2**31 - 1


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
        #: When the messages are counted again, in seconds since the epoch.
        self._count_at = 0.0
        #: Not before this time, because the store has failed; seconds since the epoch.
        self._retry_at = 0.0
        #: When the stage is searched for damaged rows, in seconds since the epoch.
        self._search_at = 0.0
        #: The peer whose sequence was the last of a batch: the peers after it are served first.
        self._after = ""
        #: As of the worker whose place it takes: a stage has no responses, and one thread moves.
        self.answer: Callable[[list[Response]], None] = _no_responses
        self.more: Callable[[], None] = _wake_none

    def run_once(self, now: float) -> Step:
        """Move one batch."""
        if now < self._retry_at <= now + OUTAGE_PAUSES.cap:  # the clock may have been set back
            return Step(more=False)
        stage = self._context.store
        self._restore_ends(now)
        due = stage.due_invoker(now, self._context.settings.sequence_batch, self._work_filter)
        if not self._room.is_counted or (not due and is_due(self._count_at, now, COUNT_INTERVAL)):
            self._room.recount(lambda: self._waiting(now))
        if not due:
            return Step(more=False)
        with stage.transaction() as tx:
            moves = read(tx, due, self._settings)
        try:
            self._write(moves, now)
        except StorageError as error:
            self._failures += 1
            self._retry_at = now + OUTAGE_PAUSES.delay(self._failures, 0.0)
            self._outages.failed(error, "what is in the stage")
            return Step(more=False)
        self._failures = 0
        self._outages.worked()
        with stage.transaction() as tx:
            count = remove(tx, moves, now + REFUSED_PAUSE)
            tx.after_commit(lambda: self._room.change(-count))
        self._after = next((due[move.sequence] for move in reversed(moves) if move.moved), self._after)
        if any(move.rest for move in moves):
            log.debug("the store does not take all of a batch; the rest stays in the stage")
        return Step(progress=sum(bool(move.moved or move.markers) for move in moves))

    def _restore_ends(self, now: float) -> None:
        """At an interval, search for sequences whose end nothing tells any more."""
        settings = self._context.settings
        if not is_due(self._search_at, now, settings.integrity_interval):
            return
        self._search_at = now + settings.integrity_interval
        limit = settings.sequence_batch
        stuck = self._context.store.stuck_invoker(now, limit, self._work_filter)
        if stuck:
            with self._context.store.transaction() as tx:
                restore_ends(tx, stuck, complete=len(stuck) < limit)

    def _write(self, moves: list[Move], now: float) -> None:
        """Write a batch to the store. If the store refuses a value in it, each sequence is written alone: the one with
        that value stays in the stage, and the others do not wait for it.

        :raises StorageError: the store has failed.
        """
        try:
            with self._store.transaction() as tx:
                write(tx, self._context, self._application, moves, now)
        except DataError as error:
            for move in moves:
                move.moved = []
            if len(moves) > 1:
                for move in moves:
                    self._write([move], now)
            else:
                moves[0].refused = True
                self._outages.failed(error, f"sequence {moves[0].sequence}, which stays in the stage")

    def _waiting(self, now: float) -> int:
        """The messages in the stage."""
        gauges = self._context.store.gauges(now, MOST_ROWS)
        if gauges.uncounted.get(Direction.INBOUND, 0):
            # That is at most so many: the positions of messages that have left the stage count in it.
            gauges = self._context.store.gauges(now, ALL_ROWS)
            self._count_at = now + COUNT_INTERVAL
        return sum(count for (waits, _), count in gauges.waiting.items() if waits is Waits.DELIVERY)

    def next_due(self) -> float | None:
        """When the next batch is due without a new message."""
        found = self._context.store.next_due(Topic.INVOKER, self._work_filter)
        return None if found is None else max(found, self._retry_at)

    @property
    def _work_filter(self) -> WorkFilter:
        return WorkFilter(self._context.claims.owner, self._application.services(), self._after)


def _no_responses(responses: list[Response]) -> None:
    """Nothing to hand over."""


def _wake_none() -> None:
    """No other thread moves."""
