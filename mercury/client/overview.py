"""The state of one process: readiness, sequences, late messages, and what a store in memory loses at its end."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mercury.engine.events import Side
from mercury.engine.lateness import Ages, WatchSettings, lateness
from mercury.engine.membership import MemberStatus
from mercury.engine.stage_room import StageRoom
from mercury.engine.status import SequenceStatus, destination_status, status_of
from mercury.errors import StorageError
from mercury.storage.api import StorageManager
from mercury.storage.records import SequenceKey

if TYPE_CHECKING:
    from mercury.storage.xa.coordinator import Coordinator
    from mercury.storage.xa.recovery import InDoubt

log = logging.getLogger("mercury")

NOT_STARTED = "this Mercury is not started: use it as `with mercury:`, or call mercury.start()"
#: Why a standby sends and receives nothing.
STANDING_BY = "this process is a standby: the active member of its store sends and receives"
MOUNTED = (
    "In a FastAPI application: FastAPI(lifespan=mercury.lifespan), or `async with mercury.lifespan(app): yield` in its "
    "own lifespan. An application that is mounted into another one gets no lifespan: the outer one needs it"
)
#: Why work waits, in ``/readyz``.
NO_ANSWER = "the store does not answer"
STORE_FAILS = "the store fails, locked or away: work waits until it answers (the log has its error)"
#: A limit above any real number of keys that fits an integer of the database.
ALL = 2**31 - 1
#: The log line for a message that arrives while the engine does not run.
UNSTARTED = (NOT_STARTED, MOUNTED)


class Stage(Protocol):
    """A stage in front of a store: see `mercury.staging`."""

    @property
    def store(self) -> StorageManager: ...

    @property
    def room(self) -> StageRoom: ...


class Watch:
    """Health and status of one process: whether it can take messages, and which messages wait for too long.

    :param clock: seconds since the epoch.
    :param running: whether the threads run.
    :param ended_threads: the names of threads that have ended although they should run.
    :param coordinator: of two-phase commits; ``None`` = Mercury has no ``resources``.
    :param status_token: the token that HTTP requests for the status must carry.
    :param stage: what takes the messages to services in front of the store; ``None`` = nothing does.
    :param member: the process as a member of its store; ``None`` = every process on the store serves.
    :param store_fails: whether work of this process on the store has failed lately.
    """

    def __init__(
        self,
        store: StorageManager,
        clock: Callable[[], float],
        running: Callable[[], bool],
        ended_threads: Callable[[], list[str]],
        coordinator: Coordinator | None,
        settings: WatchSettings,
        status_token: str | None,
        member: Callable[[], MemberStatus | None] = lambda: None,
        stage: Stage | None = None,
        store_fails: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._stage = stage
        self._store_fails = store_fails
        self._clock = clock
        self._running = running
        self._ended_threads = ended_threads
        self._coordinator = coordinator
        self._settings = settings
        self.status_token = status_token
        self._member = member

    def running(self) -> bool:
        """Whether every thread that should run does."""
        return self._running()

    def in_doubt(self) -> InDoubt | None:
        """The branches in doubt as of the last run of recovery."""
        return self._coordinator.recovery.in_doubt() if self._coordinator is not None else None

    def readiness(self) -> dict[str, str]:
        """Each part of the process with its error, or ``ok``."""
        return readiness(self._store if self._stage is None else self._stage.store, self._running())

    def member(self) -> dict[str, object]:
        """Role, state and epoch of the process as a member of its store; empty = every process on the store serves."""
        member = self._member()
        return {} if member is None else member.as_dict()

    def ended_threads(self) -> list[str]:
        """The names of threads that have ended although they should run. Never waits for the store."""
        return self._ended_threads()

    def lateness(self) -> list[str]:
        """Texts about work that waits: because the store fails, or longer than the settings ``watch`` allow; empty =
        none."""
        found = late(self._store, self.in_doubt(), self._settings, self._clock())
        return [STORE_FAILS, *found] if self._store_fails() and NO_ANSWER not in found else found

    def metrics(self) -> dict[str, float]:
        """Figures for operators: `InDoubt.metrics` with ``resources``, the messages in the stage with a stage."""
        left = self.in_doubt()
        figures = left.metrics(self._clock()) if left is not None else {}
        return figures if self._stage is None else {**figures, "staged": self._stage.room.waiting}

    def sequences(self) -> list[SequenceStatus]:
        """All sequences in the store, source and destination, tombstones included."""
        return sequences(self._store)


def readiness(store: StorageManager, running: bool) -> dict[str, str]:
    """Each part of a process with its error, or ``ok``."""
    try:
        with store.transaction() as tx:
            tx.rmd.open_count()
        state = "ok"
    except StorageError as error:
        state = str(error)
    return {"workers": "ok" if running else "not running", "store": state}


def late(store: StorageManager, in_doubt: InDoubt | None, settings: WatchSettings, now: float) -> list[str]:
    """Texts about work in a store that waits for too long; empty = none."""
    doubtful = now - in_doubt.oldest(now) if in_doubt is not None and len(in_doubt) else None
    try:
        with store.transaction() as tx:
            found = Ages(tx.rms.oldest_unacknowledged(), tx.invoker.oldest(), doubtful)
    except StorageError as error:
        log.info("the waiting messages cannot be read: %s", error)  # the error text is not for HTTP clients
        return [NO_ANSWER]
    return lateness(found, settings, now)


def sequences(store: StorageManager) -> list[SequenceStatus]:
    """All sequences in the store, source and destination, tombstones included.

    :raises StorageError: the store failed.
    """
    with store.transaction() as tx:
        sources = [status_of(record, tx.rms.backlog(record.channel.key)) for record in tx.rms.all()]
        return sources + [destination_status(record, tx.invoker.read(record.identifier)) for record in tx.rmd.all()]


def waiting_by_key(store: StorageManager) -> dict[SequenceKey, int]:
    """The numbers of messages that are not acknowledged or not answered, by key; only keys that have any.

    :raises StorageError: the store failed.
    """
    new = store.due_rms(math.inf, ALL)  # keys with messages that have no number yet
    with store.transaction() as tx:
        keys = {record.channel.key for record in tx.rms.all() if record.machine.alive} | set(new)
        found = {key: tx.rms.backlog(key) for key in keys}
    return {key: count for key, count in found.items() if count}


def log_losses(store: StorageManager) -> None:
    """Log how many messages are lost with a store in memory that is about to end."""
    sent = sum(waiting_by_key(store).values())
    received = sum(status.waiting for status in sequences(store) if status.side is Side.DESTINATION)
    if sent or received:
        text = "lost with the store, which ends with the process: %d sent and not done, %d received and not consumed"
        log.warning(text, sent, received)
