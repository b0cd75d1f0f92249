"""Threads for work that blocks: a thread is started when all are busy, and ends after some idle seconds."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger("mercury.runtime")

#: Seconds after which an idle thread ends.
IDLE_TIMEOUT = 5.0


class HelperThreads:
    """Runs each call in a thread. The caller limits how many calls run at once. Thread-safe.

    The threads are daemons: a call that hangs does not keep the process.
    """

    def __init__(self, name: str, idle_timeout: float = IDLE_TIMEOUT) -> None:
        self._name = name
        self._idle_timeout = idle_timeout
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        #: Threads without a call, less the calls that wait for one of them.
        self._idle = 0
        self._started = 0

    def run(self, call: Callable[[], object]) -> None:
        """Run a call in a thread, soon. An error of the call is logged.

        If the process can have no more threads, a thread that has finished its call runs it, or the next one that
        starts.
        """
        with self._mutex:
            starts = self._idle <= 0
            if starts:
                self._started += 1
                name = f"{self._name}-{self._started}"
            else:
                self._idle -= 1
            self._calls.put(call)
        if starts:
            try:
                threading.Thread(target=self._run, name=name, daemon=True).start()
            except RuntimeError as error:
                with self._mutex:
                    self._idle -= 1
                log.error("a call waits for another thread to end: %s", error)

    def _run(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=self._idle_timeout)
            except queue.Empty:
                with self._mutex:
                    if self._calls.empty():
                        self._idle -= 1
                        return
                continue
            try:
                call()
            except Exception:
                log.exception("an unexpected error in %s", threading.current_thread().name)
            del call  # so that a message is in memory no longer than needed
            with self._mutex:
                self._idle += 1
