"""A stage in front of a store: commits, times of acknowledgements with a slow database, and a database that is away.

The store is wrapped: each of its transactions takes so much longer, or fails while it is away. Client and server are in
this process, and the messages go over a socket.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.rounds import GivenUp, Record, progress
from mercury import Mercury, Service, Settings
from mercury.errors import TransientStorageError
from mercury.simulation.wrapped import WrappedStore
from mercury.storage.api import BeforeCommit, StorageManager, Transaction
from mercury.storage.opening import open_store

#: Seconds that each transaction of the slow store takes longer.
SLOW = 0.05
BODY = b'<note xmlns="urn:bench">0123456789</note>'


class HamperedStore(WrappedStore):
    """A store whose transactions take longer, or that is away."""

    delay = 0.0
    away = False
    #: The number of transactions that have ended.
    ended = 0

    def transaction(self, before_commit: BeforeCommit | None = None) -> AbstractContextManager[Transaction]:
        if self.away:
            raise TransientStorageError("the database is away")
        return super().transaction(before_commit)

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        time.sleep(self.delay)
        self.ended += 1
        super().leave(inner, error)


class Served:
    """A server with or without a stage, and a client with its store in memory."""

    def __init__(self, store: StorageManager, stage: Path | None, delay: float) -> None:
        self.handled = 0
        self._mutex = threading.Lock()
        self.store = HamperedStore(store)
        self.store.delay = delay
        service = Service("notes")
        service.operation("note", action="urn:bench/note")(self._note)
        settings = Settings()
        self.server = Mercury(self.store, stage=f"sqlite:///{stage}" if stage is not None else None, settings=settings)
        self.client = Mercury("memory:", settings=settings)
        self.sender = self.client.to(f"{self.server.listen(service)}/services/notes")
        self.client.start()

    def _note(self, body: bytes) -> None:
        del body
        with self._mutex:
            self.handled += 1

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sender.send(BODY, action="urn:bench/note")

    def acknowledged(self, patience: float = 300.0) -> None:
        if not self.sender.wait(patience):
            raise GivenUp(f"not acknowledged within {patience:g} s")

    def all_handled(self, count: int, patience: float = 300.0) -> None:
        until = time.monotonic() + patience
        while self.handled < count:
            if time.monotonic() > until:
                raise GivenUp(f"{self.handled} of {count} messages are handled")
            time.sleep(0.01)
        if self.handled > count:
            raise GivenUp(f"{self.handled} messages are handled, and {count} were sent")

    def stop(self) -> None:
        self.client.stop()
        self.server.stop()


def measured(way: str, served: Served, messages: int, lone: int) -> Record:
    """Transactions of the store for a number of messages, and the times until single ones are acknowledged."""
    served.send(1)
    served.acknowledged()
    served.all_handled(1)
    before, begun = served.store.ended, time.perf_counter()
    served.send(messages)
    served.acknowledged()
    acknowledged = time.perf_counter() - begun
    served.all_handled(1 + messages)
    transactions = served.store.ended - before
    times = []
    for _ in range(lone):
        begun = time.perf_counter()
        served.send(1)
        served.acknowledged()
        times.append(time.perf_counter() - begun)
    served.all_handled(1 + messages + lone)
    return {
        "part": "stage",
        "way": way,
        "delay": served.store.delay,
        "messages": messages,
        "transactions_per_1000": round(1000 * transactions / messages, 1),
        "acknowledged_s": round(acknowledged, 3),
        "acknowledgement_ms": round(1000 * statistics.median(times), 1),
    }


def outage(way: str, served: Served, seconds: float, rate: int) -> Record:
    """Messages at a steady rate while the store is away, and how fast they are handled when it is back."""
    served.send(1)
    served.acknowledged()
    served.all_handled(1)
    served.store.away = True
    sent, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds:
        due = int(passed * rate) + 1
        served.send(due - sent)
        sent = due
        time.sleep(0.02)
    acknowledged = sent - served.sender.pending
    served.store.away = False
    back = time.perf_counter()
    served.all_handled(1 + sent)
    caught_up = time.perf_counter() - back
    served.acknowledged()
    return {
        "part": "stage",
        "way": way,
        "away_s": seconds,
        "messages": sent,
        "acknowledged_while_away": acknowledged,
        "caught_up_s": round(caught_up, 3),
        "times_the_arrival_rate": round(sent / caught_up / rate, 1),
    }


def all_stages(new_store: Callable[[str], str], folder: Path, *, quick: bool) -> Iterator[Record]:
    """The store alone, and the store behind a stage.

    :param new_store: makes a database of a name, and returns its URL.
    """
    messages, lone, away, rate = (100, 5, 1.0, 50) if quick else (1000, 50, 60.0, 100)
    for way in ("the store alone", "behind a stage"):
        for number, delay in enumerate((0.0, SLOW, None)):
            stage = folder / f"stage-{number}.db" if way == "behind a stage" else None
            name = f"{'plain' if stage is None else 'staged'}_{number}"
            served = Served(open_store(new_store(name)), stage, delay or 0.0)
            try:
                found = outage(way, served, away, rate) if delay is None else measured(way, served, messages, lone)
            finally:
                served.stop()
            progress(", ".join(f"{name} {value}" for name, value in found.items() if name != "part"))
            yield found
