"""Several experiments at once: each lane has a PostgreSQL server of its own, which it may kill."""

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
    """What one experiment after the other needs."""

    site: Site
    forks: Forks


@contextlib.contextmanager
def lane(orders: int, making: threading.Lock | None = None) -> Iterator[Lane]:
    """A server and a maker of processes; nothing is left of them.

    :param orders: how many a client has to send.
    :param making: one for all lanes; see `Site`.
    """
    with embedded_postgres() as server, Children() as children, Forks(children) as forks:
        try:
            yield Lane(Site(server, orders, making or threading.Lock()), forks)
        finally:
            server.kill()  # nobody needs its data: an orderly end takes a checkpoint


def run_all(
    works: Iterable[Work], do: Callable[[Lane, Work], Done], *, lanes: int, orders: int, tell: Callable[[Done], None]
) -> None:
    """Do all of them, several at once.

    :param tell: is called with each result, one at a time.
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
