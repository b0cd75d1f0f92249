"""Reports the progress of Spark jobs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Called with the name of the step, the number of finished tasks, and the number of all tasks.
Progress = Callable[[str, int, int], None]

#: Seconds between two polls of Spark's tasks.
POLL_INTERVAL = 0.2


def silent(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


@contextlib.contextmanager
def watched(spark: SparkSession, what: str, progress: Progress) -> Iterator[None]:
    """Report the progress of the Spark jobs that the block runs."""
    progress(what, 0, 0)
    if progress is silent:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(spark, what, progress, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(spark: SparkSession, what: str, progress: Progress, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(POLL_INTERVAL):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        found = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
        if found:
            progress(what, sum(done for done, _ in found), sum(total for _, total in found))
