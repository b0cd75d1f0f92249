"""How far the messages of one key have come: their sequences, what delays them, and waiting for them."""

from __future__ import annotations

import time

from mercury.client.results import WaitResult
from mercury.client.sender_port import SenderPort
from mercury.engine.source.apply_effects import LOST_BY_DESTINATION
from mercury.engine.status import SequenceStatus, status_of
from mercury.errors import MercuryError
from mercury.statemachine.waiting import waits_for
from mercury.storage.letters import Direction, LetterFilter
from mercury.storage.records import Channel

#: The state of a request that the store does not have, while its future still waits.
TAKEN_ELSEWHERE = (
    "it is not in the store. Its transaction or savepoint may have been rolled back; another process on the store may "
    "have received its response; or an operator has parked it: see mercury dlq list. A future exists in one process; "
    "with several on a store, use request_with_callback"
)
#: Seconds between two checks in `wait`.
POLL_INTERVAL = 0.01


class KeyProgress:
    """The part of a sender that looks at what was sent under its key."""

    _port: SenderPort
    _channel: Channel
    #: `wait` counts dead letters from this time on.
    _made_at: float

    @property
    def endpoint(self) -> str:
        return self._channel.key.endpoint

    @property
    def key(self) -> str:
        return self._channel.key.name

    def status(self) -> list[SequenceStatus]:
        """The sequences of this key, oldest first, tombstones included."""
        store = self._port.store
        with store.transaction() as tx:
            backlog = tx.rms.backlog(self._channel.key)
            return [status_of(record, backlog) for record in tx.rms.peek(self._channel.key)]

    @property
    def pending(self) -> int:
        """The number of messages of this key that are not acknowledged, or whose response is not consumed yet."""
        with self._port.store.transaction() as tx:
            return tx.rms.backlog(self._channel.key)

    @property
    def last_error(self) -> str | None:
        """The last known error that keeps the messages of this key from arriving; ``None`` = none is known.

        It is the error of the last exchange with the endpoint, or else the last fault about waiting messages, the
        reason why the last sequence failed, or a text about work that waits for too long. For people: the next attempt
        may succeed.
        """
        found = self._port.why_not_running or self._port.last_error(self.endpoint)
        if found is not None:
            return found
        known = self.status()
        if not known:
            return None
        newest = known[-1]
        if newest.failure is not None:
            why = f" ({newest.last_error})" if newest.last_error else ""
            return f"the sequence failed: {newest.failure.value}{why}"
        if newest.last_error and (newest.waiting or newest.last_error == LOST_BY_DESTINATION):
            return newest.last_error
        store = self._port.store
        with store.transaction() as tx:
            record = next(reversed(tx.rms.peek(self._channel.key)), None)
        if record is None:
            return None
        return waits_for(record.machine, record.channel.policy, self._port.clock())

    def wait(self, timeout: float | None = None) -> WaitResult:
        """Wait until each message of this key is acknowledged (requests: answered) or a dead letter.

        After `close` it waits for the end of the sequence too, so that the peer need not keep the sequence open.

        :param timeout: seconds; ``None`` = no limit.
        :returns: true if all messages have arrived. False after the time-out (``settled`` is false), or if messages of
            this key became dead letters since this sender was made (``dead`` counts them). Its text has the reasons.
        :raises MercuryError: messages wait, but Mercury was not started, or was stopped.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._at_rest():
            idle = self._port.why_not_running
            if idle is not None:
                raise MercuryError(f"{self.endpoint}: nothing is sent to it: {idle}")
            if until is not None and time.monotonic() >= until:
                return self._wait_result(settled=False)
            time.sleep(POLL_INTERVAL)
        return self._wait_result(settled=True)

    def _wait_result(self, *, settled: bool) -> WaitResult:
        which = LetterFilter(
            direction=Direction.OUTBOUND, endpoint=self.endpoint, key=self.key, dead_since=self._made_at
        )
        with self._port.store.transaction() as tx:
            dead = tuple(tx.dead_letters.count(which))
            left = 0 if settled else tx.rms.backlog(self._channel.key)
        return WaitResult(settled=settled, left=left, last_error="" if settled else self.last_error or "", letters=dead)

    def _at_rest(self) -> bool:
        with self._port.store.transaction() as tx:
            if tx.rms.backlog(self._channel.key):
                return False
            machines = [record.machine for record in tx.rms.peek(self._channel.key)]
        return not any(machine.alive and machine.last_message is not None for machine in machines)

    def _state_of(self, message_id: str) -> str:
        """The state of a request, for people."""
        with self._port.store.transaction() as tx:
            row = tx.rms.row(message_id)
        if row is None:
            return TAKEN_ELSEWHERE
        last_error = self.last_error
        if last_error is not None:
            return last_error
        return "it is acknowledged and not answered" if row.acknowledged else "it is not acknowledged"
