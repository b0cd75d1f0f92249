"""A pool of threads that run one worker: on commit, when something is due, and every ``poll`` seconds."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from mercury.engine.exchange import Step
from mercury.errors import StorageError
from mercury.storage.outages import OUTAGE_PAUSES, PAUSES, Outages

log = logging.getLogger("mercury.runtime")

#: Seconds before work that is due but could not be done is tried again.
RETRY_DELAY = 0.05
#: The shortest time before a worker runs again after an unexpected error, in seconds.
ERROR_PAUSE = 1.0
#: Seconds after which a backup thread polls, because the busy thread has not polled again.
BACKUP_DELAY = 0.02
#: The shortest time between two polls of a busy thread, in seconds, so that one query finds several changes.
COALESCE_DELAY = 0.002
#: The longest time that a woken thread lets work gather after a turn, in seconds.
MOST_GATHERED = 0.01
#: Before every time.
_UNKNOWN = -math.inf


class Worker(Protocol):
    """One of the engine's workers."""

    def run_once(self, now: float) -> Step: ...

    def next_due(self) -> float | None: ...


class WorkerPool:
    """The threads of one worker.

    A poll costs a query and finds all work that is due. So a busy thread polls again when it has finished, and a
    waiting thread polls in its place, as a backup, only if that takes long. After a turn that has left nothing
    (`Step.drained`) the threads rest until the time that the last query has found, or that the worker knows of.

    :param turn: runs the worker once.
    :param poll: the time between two polls without a wake-up, in seconds.
    :param clock: returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        names: list[str],
        worker: Worker,
        turn: Callable[[Worker], Step],
        poll: float,
        clock: Callable[[], float],
        outages: Outages | None = None,
    ) -> None:
        self.outages = outages or Outages()
        self.worker = worker
        self.turn = turn
        self.poll = poll
        self._clock = clock
        self._mutex = threading.Lock()
        #: Wake-ups requested, and how many of them the last poll covered.
        self._requests = self._covered = 0
        #: When the next work is due, as far as it is known: `_UNKNOWN`, or a time that may be in the past.
        self._next = _UNKNOWN
        #: The turns that were not drained: a query that began before the last one says nothing.
        self._turns = 0
        self.ended = False
        self.threads = [WorkerThread(name, self) for name in names]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Let the threads end after their current turn."""
        with self._mutex:  # a thread that is about to rest sees it
            self.ended = True
        for thread in self.threads:
            thread.woken.set()

    def wake(self) -> None:
        """Wake a thread, because there may be work."""
        with self._mutex:
            self._requests += 1
            waiting = self._waiting()
            if waiting is None:
                return  # all threads are busy, and poll again afterwards
            if any(thread.began_recently() for thread in self.threads):
                if any(thread.is_backup for thread in self.threads):
                    return
                waiting.is_backup = True
            waiting.woken.set()

    def wake_one(self) -> None:
        """Wake another thread, because there is more work than the calling thread can do."""
        with self._mutex:
            self._requests += 1
            waiting = self._waiting()
            if waiting is not None:
                waiting.woken.set()

    def _waiting(self) -> WorkerThread | None:
        return next((thread for thread in self.threads if thread.waits and not thread.woken.is_set()), None)

    # --- called by the threads -------------------------------------------------------------------------------------

    def begin(self, thread: WorkerThread) -> None:
        """Record that a thread polls now."""
        with self._mutex:
            self._covered = self._requests
            thread.waits, thread.is_backup = False, False
            thread.began = time.monotonic()
            thread.woken.clear()

    def rest(self, thread: WorkerThread, seconds: float) -> bool:
        """Wait until the thread is woken, or for so many seconds. Returns whether it must poll: it was woken, or the
        pool ends."""
        with self._mutex:
            if self.ended or self._covered < self._requests:
                return True  # no poll has covered the last wake-up
            thread.waits = True
        until = time.monotonic() + seconds
        while thread.woken.wait(max(0.0, until - time.monotonic())) and thread.is_backup and not self.ended:
            time.sleep(BACKUP_DELAY)
            with self._mutex:
                if self.ended or self._covered < self._requests:
                    return True
                thread.is_backup = False
                thread.woken.clear()
        return thread.woken.is_set() or self.ended

    def pause(self, step: Step) -> float:
        """The time to wait after a turn, in seconds."""
        if not step.drained:
            with self._mutex:
                self._next, self._turns = _UNKNOWN, self._turns + 1  # it may have postponed something
        if step.progress and step.more:
            return 0.0
        if step.shared:
            return self.poll
        if step.drained and (remaining := self._known_pause(step)) > 0:
            return min(self.poll, remaining)
        with self._mutex:
            turns = self._turns
        found = self.worker.next_due()
        due = math.inf if found is None else found
        with self._mutex:
            if turns == self._turns:
                self._next = due
        remaining = due - self._clock()
        # Work that is still due was tried just now: another thread has claimed it, or the store failed.
        if remaining <= 0:
            return 0.0 if step.progress else RETRY_DELAY
        return min(self.poll, remaining)

    def gathering(self, step: Step, took: float) -> float:
        """Seconds after a turn in which a thread lets work gather although it is woken: as many as the turn took.

        In a stream so many messages share a transaction, and a thread leaves half of its time to what makes them. A
        message that comes later than that is not delayed.

        :param took: the seconds of the turn.
        """
        return 0.0 if step.more or not step.progress else min(took, MOST_GATHERED)

    def still(self, step: Step, rested: float) -> float:
        """The time to go on waiting, in seconds, because the work that was due by now is done; 0 = the store must be
        asked.

        :param step: of the last turn.
        :param rested: seconds since then.
        """
        return max(0.0, min(self.poll - rested, self._known_pause(step))) if step.drained else 0.0

    def _known_pause(self, step: Step) -> float:
        """Seconds until work is due that this process knows of without asking the store."""
        due = step.due()
        with self._mutex:
            known = self._next
        return min(known, math.inf if due is None else due) - self._clock()


class WorkerThread(threading.Thread):
    """One thread of a pool."""

    def __init__(self, name: str, pool: WorkerPool) -> None:
        super().__init__(name=name, daemon=True)
        self._pool = pool
        self.woken = threading.Event()
        #: Whether the thread waits for work.
        self.waits = False
        #: Whether it was woken to poll in place of a busy thread.
        self.is_backup = False
        #: When it last polled, by the monotonic clock.
        self.began = 0.0

    def began_recently(self) -> bool:
        """Whether the thread is busy and polled less than `BACKUP_DELAY` ago."""
        return not self.waits and time.monotonic() - self.began < BACKUP_DELAY

    def run(self) -> None:
        pool, failures = self._pool, 0
        while not pool.ended:
            pool.begin(self)
            step = Step()
            try:
                step = pool.turn(pool.worker)
                wait = pool.pause(step)
                failures = 0
                pool.outages.worked()
            except StorageError as error:
                failures += 1
                pool.outages.failed(error, self.name)
                wait = OUTAGE_PAUSES.delay(failures, 0.0)
            except Exception:
                failures += 1
                log.exception("%s failed; it will be repeated", self.name)
                wait = max(ERROR_PAUSE, PAUSES.delay(failures, 0.0))
            if wait:
                ended = time.monotonic()
                while wait and not pool.rest(self, wait):
                    wait = pool.still(step, time.monotonic() - ended)
                self.let_gather(pool.gathering(step, ended - self.began) - (time.monotonic() - ended))
            else:
                time.sleep(COALESCE_DELAY)

    def let_gather(self, seconds: float) -> None:
        """Let work gather before the next turn. Meanwhile the thread counts as busy: no other is woken for it."""
        if seconds > 0 and not self._pool.ended:
            self.waits = False
            time.sleep(seconds)
