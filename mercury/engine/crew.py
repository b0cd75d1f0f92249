"""Threads that turn the crank of one worker: when a commit made work, when something is due, and now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from mercury.engine.exchange import Step
from mercury.errors import StorageError
from mercury.storage.outages import PAUSES, Outages

log = logging.getLogger("mercury.runtime")

#: Seconds before work that could not be done is tried again.
AGAIN = 0.05
#: Seconds after which another thread looks for work, because the one that is at work has not come back to do so.
LATE = 0.02
#: Seconds between two looks that follow each other: what comes meanwhile is done together, for the price of one.
PACE = 0.002


class Worker(Protocol):
    """One of the engine's workers."""

    def run_once(self, now: float) -> Step: ...

    def next_due(self) -> float | None: ...


class Crew:
    """The threads of one worker.

    A look for work costs a question to the store and finds all there is. So whoever is at work looks again when it has
    done, and a thread that waits looks instead only when that takes long.

    :param turn: one turn of the worker.
    :param poll: how often to look for work that nobody announced, in seconds.
    :param clock: seconds since the epoch.
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
        #: How often work was announced, and how much of that had been when somebody last looked.
        self._calls = self._seen = 0
        self.ended = False
        self.threads = [_Member(name, self) for name in names]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing new."""
        self.ended = True
        for thread in self.threads:
            thread.called.set()

    def call(self) -> None:
        """There is work."""
        with self._mutex:
            self._calls += 1
            waiting = self._waiting()
            if waiting is None:
                return  # all are at work, and look again afterwards
            if any(thread.is_soon_back() for thread in self.threads):
                if any(thread.stands_in for thread in self.threads):
                    return
                waiting.stands_in = True
            waiting.called.set()

    def call_another(self) -> None:
        """There is more work than the calling thread can do."""
        with self._mutex:
            self._calls += 1
            waiting = self._waiting()
            if waiting is not None:
                waiting.called.set()

    def _waiting(self) -> _Member | None:
        return next((thread for thread in self.threads if thread.waits and not thread.called.is_set()), None)

    # --- for its threads -------------------------------------------------------------------------------------------

    def begin(self, member: _Member) -> None:
        """A thread looks for work now."""
        with self._mutex:
            self._seen = self._calls
            member.waits, member.stands_in = False, False
            member.began = time.monotonic()
            member.called.clear()

    def rest(self, member: _Member, seconds: float) -> None:
        """Wait until there is work for this thread, or for so long."""
        with self._mutex:
            if self._seen < self._calls and not self.ended:
                return  # nobody has looked since
            member.waits = True
        until = time.monotonic() + seconds
        while member.called.wait(max(0.0, until - time.monotonic())) and member.stands_in and not self.ended:
            time.sleep(LATE)
            with self._mutex:
                if self._seen < self._calls:
                    return
                member.stands_in = False
                member.called.clear()

    def pause(self, step: Step) -> float:
        """How long to wait after a turn."""
        if step.progress:
            return 0.0
        if step.shared:
            return self.poll
        due = self.worker.next_due()
        if due is None:
            return self.poll
        remaining = due - self._clock()
        # What is due already was tried just now: somebody else works on it, or the store could not.
        return min(self.poll, remaining if remaining > 0 else AGAIN)


class _Member(threading.Thread):
    """One thread of a crew."""

    def __init__(self, name: str, crew: Crew) -> None:
        super().__init__(name=name, daemon=True)
        self._crew = crew
        self.called = threading.Event()
        #: It has nothing to do.
        self.waits = False
        #: It was called in case that those at work are late.
        self.stands_in = False
        #: When it looked for work, by the monotonic clock.
        self.began = 0.0

    def is_soon_back(self) -> bool:
        """Whether it is at work, and has not been for long."""
        return not self.waits and time.monotonic() - self.began < LATE

    def run(self) -> None:
        crew, failures = self._crew, 0
        while not crew.ended:
            crew.begin(self)
            try:
                wait = crew.pause(crew.turn(crew.worker))
                failures = 0
                crew.outages.worked()
            except StorageError as error:
                failures += 1
                crew.outages.failed(error, self.name)
                wait = PAUSES.delay(failures, 0.0)
            except Exception:
                failures += 1
                log.exception("%s failed; it goes on", self.name)
                wait = max(crew.poll, PAUSES.delay(failures, 0.0))
            if wait:
                crew.rest(self, wait)
            else:
                time.sleep(PACE)
