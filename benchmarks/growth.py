"""How the cost of a message grows with outstanding and acknowledged messages, sequences, and the size of bodies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from benchmarks.child import Child
from benchmarks.machine import resident
from benchmarks.rounds import (
    PER_TRANSACTION,
    Bench,
    GivenUp,
    Record,
    Usage,
    check_rows,
    started,
    wait_for,
)
from benchmarks.ways import Running, Way, mercury_way

#: Messages whose cost is measured: enough, as processes' CPU time is counted in hundredths of a second.
MEASURED = 10_000
#: Messages that arrive before that in a backlog that is larger: those that were received ahead do not count then.
WARM = 5000
#: The least messages of small backlogs, all together.
SMALL = 2000
#: The most of them: each takes half a second, and a hundred of them are enough for the clock.
MOST_BACKLOGS = 100
#: Sequences that a peer may have open by default.
OPEN = 1000
#: Messages of each sequence.
EACH = 3
#: Seconds between two measurements of the memory of a drain.
WATCH = 1.0


def outstanding(bench: Bench, size: int) -> Iterable[Record]:
    """CPU of a message before which so many wait, and of one after so many that were acknowledged.

    Also the memory while they drain, and the time from the start of the processes to the first arrival.
    """
    run = bench.new_run()
    way = mercury_way(bench.postgres, bench.folder, run)
    application = Child(way.application)
    try:
        application.ask(f"1 {size} 1000 0")
        bench.checkpoint()
        begun = time.perf_counter()
        with started(way, application) as running:
            there = wait_for(way, running, 1, bench.patience)
            about: Record = {"part": "outstanding", "messages": size, "start_seconds": time.perf_counter() - begun}
            if size > WARM + MEASURED:
                there = wait_for(way, running, there + WARM, bench.patience)
                usage = Usage(bench, running, None, commits=False)
                came = wait_for(way, running, there + MEASURED, bench.patience)
                yield {**about, **usage.end(came - there)}
            yield from _memory(bench, way, running, size)
            first = size + 1
            count = min(SMALL, bench.rows)
            usage = Usage(bench, running, None, commits=False)
            for low in range(first, first + count, PER_TRANSACTION):
                application.ask(f"{low} {min(low + PER_TRANSACTION, first + count) - 1} {PER_TRANSACTION} 0")
            wait_for(way, running, size + count, bench.patience)
            found = usage.end(count)
            last = size + count
            yield {"part": "acknowledged", "messages": size, **found}
            if size <= WARM + MEASURED:
                times = min(MOST_BACKLOGS, max(1, SMALL // size))
                yield {**about, **_several(bench, way, running, application, range(last + 1, last + 1 + size), times)}
                last += times * size
            check_rows(way, last)
    finally:
        application.stop()
        bench.drop(run)


def _several(
    bench: Bench, way: Way, running: Running, application: Child, numbers: range, times: int
) -> dict[str, object]:
    """The use for a small backlog, again and again: what one of them takes is less than the clock can tell.

    :param numbers: of the first one.
    """
    size, cpu, seconds = len(numbers), 0.0, 0.0
    for turn in range(times):
        first = numbers.start + turn * size
        found = _drained(bench, way, running, application, range(first, first + size), PER_TRANSACTION)
        cpu += float(str(found["cpu_per_1000"])) / times
        seconds += size / float(str(found["rows_per_second"]))
    return {"rows": times * size, "cpu_per_1000": cpu, "rows_per_second": times * size / seconds}


def _drained(bench: Bench, way: Way, running: Running, application: Child, numbers: range, together: int) -> Record:
    """The use while a committed backlog is carried; the client's processes are paused until then.

    :param together: rows of a transaction.
    """
    time.sleep(min(bench.settle, 0.3))  # until what follows the last arrival is stored
    for child in running.sides["client"]:
        child.pause()
    application.ask(f"{numbers.start} {numbers.stop - 1} {together} 0")
    bench.checkpoint()
    usage = Usage(bench, running, None, commits=False)
    for child in running.sides["client"]:
        child.resume()
    wait_for(way, running, numbers.stop - 1, bench.patience)
    return usage.end(len(numbers))


def _memory(bench: Bench, way: Way, running: Running, size: int) -> Iterable[Record]:
    """The memory of both sides until all rows have arrived."""
    changed, seen = time.monotonic(), -1
    with way.arrivals(running) as arrived:
        while (there := arrived(size)) < size:
            for children in running.sides.values():
                for child in children:
                    child.check()
            if there > seen:
                changed, seen = time.monotonic(), there
            if time.monotonic() - changed > bench.patience:
                raise GivenUp(f"no row came within {bench.patience:g} s: {there} of {size}")
            memory = {side: sum(resident(child.pid) for child in children) for side, children in running.sides.items()}
            yield {
                "part": "memory",
                "messages": size,
                "left": size - there,
                **{f"{side}_mb": used / 2**20 for side, used in memory.items()},
            }
            time.sleep(WATCH)


def _measured_backlog(bench: Bench, way: Way, application: Child, rows: int, together: int, length: int) -> Record:
    """The use while a committed backlog is carried, after one row.

    :param together: rows of a transaction.
    :param length: characters of a row.
    :raises GivenUp: the rows do not arrive in time, or not once, or not whole.
    """
    with started(way, application) as running:
        application.ask("1 1 1 0")
        wait_for(way, running, 1, bench.patience)
        found = _drained(bench, way, running, application, range(2, rows + 2), together)
    check_rows(way, rows + 1, length)
    return found


def sequences(bench: Bench, count: int) -> Iterable[Record]:
    """CPU of a message and keys a second: so many sequences with three messages each, and one with as many in all.

    More than a peer may have open by default are measured with a limit that admits them.
    """
    for keys in dict.fromkeys((count, 1)):
        run = bench.new_run()
        way = mercury_way(bench.postgres, bench.folder, run, keys=keys)
        if keys > OPEN:
            way.environment["MERCURY_ENGINE_MAX_SEQUENCES_PER_PEER"] = str(2 * keys)
            way.environment["MERCURY_ENGINE_MAX_SEQUENCES"] = str(2 * keys)
        application = Child(way.application, way.environment)
        try:
            found = _measured_backlog(bench, way, application, count * EACH, PER_TRANSACTION, 300)
            speed = float(str(found["rows_per_second"])) / EACH
            about = {"part": "sequences", "sequences": keys, "messages": count * EACH}
            yield {**about, **found, "keys_per_second": speed * keys / count}
        finally:
            application.stop()
            bench.drop(run)


def bodies(bench: Bench, size: int) -> Iterable[Record]:
    """CPU of a message, messages and MB a second, by the size of the body in characters.

    Bodies above the largest that is accepted by default are sent with a limit that admits them.
    """
    count = max(4, min(bench.rows, 40_000_000 // size))
    run = bench.new_run()
    way = mercury_way(bench.postgres, bench.folder, run, body=size)
    if size > 7_900_000:
        way.environment["MERCURY_ENGINE_LIMITS_MAX_BYTES"] = str(2 * size)
    application = Child(way.application, way.environment)
    try:
        found = _measured_backlog(bench, way, application, count, 10, size)
        speed = float(str(found["rows_per_second"])) * size / 1e6
        yield {"part": "bodies", "bytes": size, **found, "mb_per_second": speed}
    finally:
        application.stop()
        bench.drop(run)


#: What grows, and the sizes of a quick run and of a whole one.
GROWTH: tuple[tuple[Callable[[Bench, int], Iterable[Record]], tuple[int, ...], tuple[int, ...]], ...] = (
    (outstanding, (100, 1000), (1, 100, 1000, 10_000, 100_000, 1_000_000)),
    (sequences, (10, 30), (10, 100, 1000, 10_000)),
    (bodies, (100, 10_000, 1_000_000), (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)),
)


def guess(measure: Callable[[Bench, int], Iterable[Record]], size: int) -> float:
    """About how many seconds a size takes."""
    if measure is outstanding:
        return 15 + 0.0007 * size
    return 20 + 0.02 * size if measure is sequences else 15 + 2e-6 * size
