"""Several processes that accept connections at one socket: forked before the application is loaded, and replaced when
one of them ends without a signal for the parent.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

log = logging.getLogger("mercury.service")

#: Connections that wait at the socket until a process accepts them.
BACKLOG = 2048
#: Seconds. A process that ends sooner is replaced after this pause.
PAUSE = 1.0
STARTED = b"."
ENDS = (signal.SIGINT, signal.SIGTERM)

#: Serves until the process gets such a signal; calls its argument when it accepts connections. Returns the exit code.
Serve = Callable[[Callable[[], None]], int]


@dataclass(frozen=True, slots=True)
class _Child:
    started_at: float
    #: The end of a pipe: it gives a byte when the process accepts connections, and nothing when it has ended before.
    report: int


class WorkerProcesses:
    """The parent of processes that serve. It must have no other thread: a fork copies only the one that calls it.

    :param count: how many processes.
    :param listening: the bound socket, which they share.
    :param serve: called in each of them.
    """

    def __init__(self, count: int, listening: socket.socket, serve: Serve) -> None:
        self._count = count
        self._listening = listening
        self._serve = serve
        self._children: dict[int, _Child] = {}
        self._ending = False
        #: The two ends of a pipe. Only the parent keeps the second one open, so reading ends when the parent has ended.
        self._life = os.pipe()

    def run(self, on_started: Callable[[], None]) -> int:
        """Start the processes, and wait until SIGTERM or SIGINT has ended them. It returns in each of them too.

        :param on_started: called in the parent when they accept connections.
        :returns: the exit code: in a process that serves its own, in the parent that of the first process if it could
            not start, or else 0.
        """
        self._listening.listen(BACKLOG)
        for number in ENDS:
            signal.signal(number, self._end)
        while len(self._children) < self._count and not self._ending:
            if (report := self._fork()) is not None:
                return self._be_child(report)
            # They all load the same application: if the first cannot start, none can, and it has said why.
            if len(self._children) == 1 and not self._has_started() and not self._ending:
                return self._wait()[1]
        for child in list(self._children.values())[1:]:
            self._has_started(child)
        if not self._ending:
            on_started()
        while self._children:
            child, code = self._wait()
            if self._ending:
                continue
            log.error("a process that serves has ended with code %d; another one is started", code)
            if time.monotonic() - child.started_at < PAUSE:
                time.sleep(PAUSE)
            if not self._ending and (report := self._fork()) is not None:
                return self._be_child(report)
        return 0

    def _fork(self) -> int | None:
        """Start a process. Returns ``None`` in the parent, and in the process the pipe to report at."""
        reading, writing = os.pipe()
        # A signal waits until the process is known; otherwise the process would not get it.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        pid = os.fork()
        if pid == 0:
            for number in ENDS:
                signal.signal(number, signal.SIG_DFL)
            for report in (reading, self._life[1], *(child.report for child in self._children.values())):
                os.close(report)
        else:
            os.close(writing)
            self._children[pid] = _Child(time.monotonic(), reading)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        return writing if pid == 0 else None

    def _be_child(self, report: int) -> int:
        threading.Thread(target=self._end_with_parent, name="mercury-parent", daemon=True).start()
        return self._serve(lambda: _report(report))

    def _end_with_parent(self) -> None:
        """Wait until the parent has ended, also by SIGKILL, and end this process in an orderly way."""
        os.read(self._life[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _has_started(self, child: _Child | None = None) -> bool:
        """Wait until a process accepts connections, or has ended: the first one, or the one that is given."""
        child = child or next(iter(self._children.values()))
        return os.read(child.report, 1) == STARTED

    def _wait(self) -> tuple[_Child, int]:
        """Wait until a process has ended. Returns it and its exit code; a negative one is the signal that ended it."""
        while True:
            pid, status = os.wait()
            child = self._children.pop(pid, None)
            if child is not None:
                os.close(child.report)
                return child, os.waitstatus_to_exitcode(status)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._ending = True
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)


def _report(pipe: int) -> None:
    os.write(pipe, STARTED)
    os.close(pipe)
