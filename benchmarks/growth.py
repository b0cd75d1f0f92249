"""How the cost of a message grows with outstanding and acknowledged messages, sequences, and the size of bodies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from benchmarks.child import Child, ChildEnded
from benchmarks.machine import resident
from benchmarks.rounds import (
    PER_TRANSACTION,
    Bench,
    GivenUp,
    Record,
    Usage,
    check_rows,
    progress,
    started,
    wait_for,
)
from benchmarks.ways import Running, Way, mercury_way

#: Messages whose cost is measured.
MEASURED = 2000
#: Fewer messages are not measured: processes' CPU time is counted in hundredths of a second.
LEAST = 100
#: Messages of each sequence.
EACH = 3
#: Seconds between two measurements of the memory of a drain.
WATCH = 1.0


def outstanding(bench: Bench, size: int) -> Iterable[Record]:
    """CPU of a message before which so many wait, and of one after so many that were acknowledged.

    Also the memory while they drain, and the time from the start of the processes to the first arrival.
    """
    progress(f"growth: {size} messages outstanding")
    run = bench.new_run()
    way = mercury_way(bench.postgres, bench.folder, run)
    application = Child(way.application)
    try:
        application.ask(f"1 {size} 1000 0")
        bench.checkpoint()
        begun = time.perf_counter()
        with started(way, application) as running:
            there = wait_for(way, running, 1, bench.patience)
            start = time.perf_counter() - begun
            usage = Usage(bench, running, None, commits=False)
            came = wait_for(way, running, min(size, there + MEASURED), bench.patience)
            if came - there >= LEAST:
                found = usage.end(came - there)
                yield {"part": "outstanding", "messages": size, "start_seconds": start, **found}
            elif size > 1:
                reason = f"{there} rows had arrived before the measurement began, so fewer than {LEAST} were left"
                yield {"part": "skipped", "way": f"outstanding {size}", "reason": reason}
            yield from _memory(bench, way, running, size)
            first = size + 1
            count = min(MEASURED, bench.rows)
            usage = Usage(bench, running, None, commits=False)
            for low in range(first, first + count, PER_TRANSACTION):
                application.ask(f"{low} {min(low + PER_TRANSACTION, first + count) - 1} {PER_TRANSACTION} 0")
            wait_for(way, running, size + count, bench.patience)
            found = usage.end(count)
            check_rows(way, size + count)
            yield {"part": "acknowledged", "messages": size, **found}
    finally:
        application.stop()
        bench.drop(run)


def _memory(bench: Bench, way: Way, running: Running, size: int) -> Iterable[Record]:
    """The memory of both sides until all rows have arrived."""
    changed, seen = time.monotonic(), -1
    while (there := way.arrived(running, size)) < size:
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
    """The use while a committed backlog is carried, after one row; the client's processes are paused until then.

    :param together: rows of a transaction.
    :param length: characters of a row.
    :raises GivenUp: the rows do not arrive in time, or not once, or not whole.
    """
    with started(way, application) as running:
        application.ask("1 1 1 0")
        wait_for(way, running, 1, bench.patience)
        time.sleep(bench.settle)  # until what follows the arrival is stored
        for child in running.sides["client"]:
            child.pause()
        application.ask(f"2 {rows + 1} {together} 0")
        bench.checkpoint()
        usage = Usage(bench, running, None, commits=False)
        for child in running.sides["client"]:
            child.resume()
        wait_for(way, running, rows + 1, bench.patience)
        found = usage.end(rows)
    check_rows(way, rows + 1, length)
    return found


def sequences(bench: Bench, count: int) -> Iterable[Record]:
    """CPU of a message and keys a second: so many sequences with three messages each, and one with as many in all."""
    for keys in dict.fromkeys((count, 1)):
        progress(f"growth: {count * EACH} messages in {keys} sequences")
        run = bench.new_run()
        way = mercury_way(bench.postgres, bench.folder, run, keys=keys)
        application = Child(way.application)
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
    progress(f"growth: {count} bodies of {size} characters")
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


def all_growth(bench: Bench, *, quick: bool, largest: int | None = None) -> Iterable[Record]:
    """The records of all sizes; one that does not end in time is skipped with the reason.

    :param largest: no larger size is measured.
    """
    for measure, small, whole in GROWTH:
        for size in small if quick else whole:
            if largest is not None and size > largest:
                continue
            try:
                yield from measure(bench, size)
            except (GivenUp, ChildEnded) as error:
                progress(f"growth: {measure.__name__} {size}: skipped: {error}")
                yield {"part": "skipped", "way": f"{measure.__name__} {size}", "reason": str(error)}
