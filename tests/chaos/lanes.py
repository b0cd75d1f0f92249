"""Runs several experiments in parallel: each lane has a PostgreSQL server of its own, which it may kill."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tests.chaos.databases import Site
from tests.chaos.forks import Forks
from tests.chaos.processes import Children
from tests.postgres import embedded_postgres

Work = TypeVar("Work")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Lane:
    """The server and the processes for successive experiments."""

    site: Site
    forks: Forks


@contextlib.contextmanager
def lane(orders: int, making: threading.Lock | None = None) -> Iterator[Lane]:
    """A lane. Its server and processes are removed at the end of the block.

    :param orders: the number of orders that a client has to send.
    :param making: the lock of `Site`, shared by all lanes.
    """
    with embedded_postgres() as server, Children() as children, Forks(children) as forks:
        try:
            yield Lane(Site(server, orders, making or threading.Lock()), forks)
        finally:
            server.kill()  # its data are not needed, and an orderly stop would write a checkpoint


def run_all(
    works: Iterable[Work], do: Callable[[Lane, Work], Done], *, lanes: int, orders: int, tell: Callable[[Done], None]
) -> None:
    """Run all experiments, several in parallel.

    :param tell: called with each result, by one thread at a time.
    """
    waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
    for work in works:
        waiting.put(work)
    mutex, making = threading.Lock(), threading.Lock()
    ending = threading.Event()

    def run(_: int) -> None:
        with lane(orders, making) as own:
            while not ending.is_set():
                try:
                    work = waiting.get_nowait()
                except queue.Empty:
                    return
                done = do(own, work)
                with mutex:
                    tell(done)

    with ThreadPoolExecutor(lanes) as pool:
        running = [pool.submit(run, number) for number in range(lanes)]
        try:
            for each in running:
                each.result()
        finally:
            ending.set()
