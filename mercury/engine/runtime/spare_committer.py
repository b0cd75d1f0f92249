"""Handles arrivals while the committer waits for handlers that take unusually long.

Handlers that are known to be quick are called in the transaction that receives their messages (`ArrivalDelivery`). If
such a call takes long after all, a second thread handles what arrives meanwhile, apart from what concerns the sequences
of that transaction: it waits for the end of the call. The second thread only stores, as its calls might take as long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from mercury.engine.exchange import Arrival, Waiting
from mercury.engine.runtime.group_commit import ArrivalQueue
from mercury.statemachine.messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    MakeConnection,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

log = logging.getLogger("mercury.runtime")

#: Seconds of calls in one transaction after which the second thread begins.
OVERDUE = 0.22
#: Seconds between two looks of the second thread while the calls last.
PAUSE = 0.05


class SpareCommitter:
    """The second thread.

    :param arrivals: the queue of the committer.
    :param late: returns the sequences that transactions have locked whose calls have taken longer than so many seconds.
    :param decode: decodes an arrival to a service.
    :param answer: handles arrivals in one transaction and passes their answers on; it never raises.
    """

    def __init__(
        self,
        arrivals: ArrivalQueue[Waiting],
        late: Callable[[float], frozenset[str]],
        decode: Callable[[HttpMessage, str | None], Envelope | Undecodable],
        answer: Callable[[list[Waiting]], None],
    ) -> None:
        self.thread = threading.Thread(target=self._run, name="mercury-committer-2", daemon=True)
        self._arrivals = arrivals
        self._late = late
        self._decode = decode
        self._answer = answer
        self._woken = threading.Event()
        self._ended = threading.Event()

    def look(self) -> None:
        """Wake the thread if it is needed. Cheap: it is called for each arrival."""
        if self._late(OVERDUE) and self._arrivals.length:
            self._woken.set()

    def end(self) -> None:
        """Let the thread end after its present transaction."""
        self._ended.set()
        self._woken.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.wait()
            while (late := self._late(OVERDUE)) and not self._ended.is_set():
                self.help(late)
                self._ended.wait(PAUSE)
            self._woken.clear()
            self.look()  # what came just before that

    def help(self, late: frozenset[str]) -> None:
        """Handle what waits, as much as fits into one transaction, apart from what concerns these sequences."""
        apart: list[Waiting] = []
        others: list[Waiting] = []
        while not others and (waiting := self._arrivals.take_waiting()):  # the first ones may all be set apart
            for arrival, on_answer in waiting:
                each = self._decoded(arrival), on_answer
                (others if late.isdisjoint(names_of(each[0], late)) else apart).append(each)
        self._arrivals.put_back(apart)
        if others:
            self._answer(others)

    def _decoded(self, arrival: Arrival) -> Arrival:
        if arrival.envelope is not None:
            return arrival
        try:
            return replace(arrival, envelope=self._decode(arrival.http, arrival.service))
        except Exception:  # the transaction decodes it again, and answers it
            log.exception("an arrival could not be decoded")
            return arrival


def names_of(arrival: Arrival, every: Iterable[str] = ()) -> set[str]:
    """The destination sequences that an arrival may lock.

    :param every: those that it may lock if it does not name the one that it is about.
    """
    envelope, request = arrival.envelope, arrival.request
    if not isinstance(envelope, Envelope):
        return set()
    names = {requested.identifier for requested in envelope.ack_requests}
    if envelope.sequence is not None:
        names.add(envelope.sequence.identifier)
    match envelope.body:
        case CloseSequence(identifier=identifier) | TerminateSequence(identifier=identifier):
            names.add(identifier)
        case CloseSequenceResponse(identifier=identifier) | TerminateSequenceResponse(identifier=identifier):
            names.add(identifier)
        case CreateSequence(follows=str(identifier)):
            names.add(identifier)
        case MakeConnection():
            names.update(every)
    if request is not None:
        names.update(name for name in (request.pair, request.rmd) if name is not None)
    return names
