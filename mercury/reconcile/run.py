"""One reconciliation from the config to the result.

Sources are read in the order in which messages travel: the client's table, its store, the server's store, the
server's table. A message that has already left one place is in a later one when that is read, so no message on its
way counts as lost. Rows that were added to the client's table and delivered during the run are found by a second read
of the client's table.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mercury.errors import ConfigurationError, StorageError
from mercury.reconcile import checksums, differences, jobs, order, places, relays, rows, stores, verdicts
from mercury.reconcile.config import Config
from mercury.reconcile.plan import Plan
from mercury.reconcile.planning import check, make_plan
from mercury.reconcile.progress import Progress, silent, watched
from mercury.reconcile.result import Latency, Result, Side, Timeline
from mercury.reconcile.session import session
from mercury.reconcile.source import Consistency, Source, held, shown, translating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The approximate number of rows whose latency is measured.
SAMPLE = 20_000


def reconcile(
    config: Config,
    *,
    spark: SparkSession | None = None,
    progress: Progress = silent,
    moments: Iterable[tuple[float, str]] = (),
) -> Result:
    """Compare the client's table with the server's, and the responses if the config has them.

    :param spark: the Spark session to use; by default the active one, or else one that is made from the config and
        stopped at the end of this call.
    :param progress: called when a step begins and as its tasks finish.
    :param moments: events to mark in the report's plots, each a time in seconds since the epoch and a label.
    :returns: the verdicts, counted and listed. With `Config.out` the differences (Parquet and CSV) and the report are
        written to that folder.
    :raises ConfigurationError: a table, a column, PySpark or Java is missing, or settings of the config contradict each
        other or the databases.
    :raises StorageError: a database cannot be read.
    """
    from mercury.reconcile.report import write_report

    if config.out is not None:
        try:
            config.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"the folder {config.out} cannot be created: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        if spark is None:
            _check(config)
            progress("starting Spark", 0, 0)
            log = None if config.out is None else config.out / "spark.log"
            spark = stack.enter_context(session(config.spark, log=log))
        started = time.perf_counter()
        result = _direction(config, spark, progress, "Requests", back=False)
        response_config = config.response_config()
        if response_config is not None:
            result.response = _direction(response_config, spark, progress, "Responses", back=True)
        result.moments = tuple(moments)
        result.seconds = time.perf_counter() - started
    if config.out is not None:
        result.report = config.out / "report.html"
        write_report(result, result.report)
    return result


def _check(config: Config) -> None:
    """Check the config against the databases before Spark is started, which takes some seconds."""
    for each in (config, config.response_config()):
        if each is not None:
            with (
                held(each.client.url, each.client.name, None) as client,
                _between(each, back=False),
                held(each.server.url, each.server.name, None) as server,
            ):
                check(each, client, server)


def _between(config: Config, *, back: bool) -> contextlib.AbstractContextManager[places.Places]:
    """The stores between the two tables, with their decision logs: source and destination of the messages."""
    pair, logs = (config.client_store, config.server_store), (config.client_log, config.server_log)
    if back:
        pair, logs = pair[::-1], logs[::-1]
    tables = (config.client.url, config.server.url)
    stages = () if back else config.server_stages  # a stage takes no responses
    if config.relay_stores:
        assert pair[0] is not None, "the config has both stores"
        assert pair[1] is not None, "the config has both stores"
        return relays.opened_on_the_way(
            pair[0],
            pair[1],
            config.relay_stores,
            source_log=logs[0],
            destination_log=logs[1],
            stages=stages,
            tables=tables,
        )
    return stores.opened(
        *pair, responses=back, source_log=logs[0], destination_log=logs[1], stages=stages, tables=tables
    )


def _direction(config: Config, spark: SparkSession, progress: Progress, title: str, *, back: bool) -> Result:
    client, server = config.client, config.server
    began = datetime.datetime.now(datetime.UTC)
    started = time.perf_counter()
    progress("reading the tables' sizes", 0, 0)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(held(client.url, client.name, client.where))
        between = stack.enter_context(_between(config, back=back))
        theirs = stack.enter_context(held(server.url, server.name, server.where))
        plan, client_rows, server_rows = make_plan(config, ours, theirs, spark.sparkContext.defaultParallelism)
        result = Result(
            title=title,
            client=Side(
                "server" if back else "client", client.name, shown(client.url), client_rows, ours.consistency()
            ),
            server=Side(
                "responses" if back else "server", server.name, shown(server.url), server_rows, theirs.consistency()
            ),
            columns=tuple(field.name for field in plan.client.compare),
            started_at=began,
            computed_here=plan.reason,
            complete=config.complete,
            ordered=plan.client.order is not None,
            notes=list(between.notes),
        )
        with _spark_errors():
            _compare(config, plan, spark, progress, between, theirs, result)
        result.client.consistency, result.server.consistency = ours.consistency(), theirs.consistency()
        _note_consistency(result, between)
    result.seconds = time.perf_counter() - started
    return result


def _compare(
    config: Config,
    plan: Plan,
    spark: SparkSession,
    progress: Progress,
    between: places.Places,
    server: Source,
    result: Result,
) -> None:
    first = jobs.first_pass(spark, plan, progress)
    result.client.rows, result.server.rows = first.client.rows, first.server.rows
    result.ranges = len(first.client.ranges.keys() | first.server.ranges.keys())
    if plan.client.time is not None or plan.server.time is not None:
        result.timeline = Timeline(plan.bin_width, first.client.times, first.server.times)
    displaced = _displaced(config, plan, spark, progress, server, first, result)
    wanted = set(first.differing())
    if displaced.runs:
        with watched(spark, "looking for rows out of order", progress):
            wanted |= jobs.displaced_ranges(spark, plan, displaced)
    sample = _sample(plan, first)
    result.delivered = first.client.rows
    if not wanted and not sample:
        _write(config, plan, between, displaced, result, iter(()))
        return
    request = rows.Request(plan, frozenset(wanted | sample), frozenset(sample), displaced)
    result.ranges_read = len(wanted)
    latencies: list[int] = []
    with watched(spark, "rows of differing ranges", progress):
        found = _counted(jobs.verdicts(spark, request), result, latencies)
        _write(config, plan, between, displaced, result, found)
    if latencies:
        # Every row's latency is known only if the sample covers all key ranges.
        result.latency = Latency(sorted(each / 1e6 for each in latencies), len(sample) >= len(first.client.ranges))


def _displaced(
    config: Config,
    plan: Plan,
    spark: SparkSession,
    progress: Progress,
    server: Source,
    first: checksums.FirstPass,
    result: Result,
) -> order.Displacements:
    """The displaced runs, if the config compares the order."""
    if plan.client.order is None or first.overtaken == 0:
        return order.Displacements(())
    if first.overtaken is None:
        with watched(spark, "joining the order columns", progress):
            light = replace(plan, client=_light(plan.client), server=_light(plan.server))
            runs = jobs.joined_runs(spark, rows.Request(light), order.MAX_RUNS)
    else:
        progress("looking for rows out of order", 0, 0)
        with translating(config.server.name):
            runs = order.server_runs(server.connection, plan)
    if runs is None:
        result.disordered = first.overtaken or 1
        result.notes.append(
            f"at least {result.disordered:,} rows are out of order, in more than {order.MAX_RUNS:,} places: "
            "too many to list"
        )
        return order.Displacements(())
    return order.Displacements(order.displaced(runs))


def _light(side: Any) -> Any:
    """A copy of a side that reads only the key and the order."""
    return replace(side, compare=(), time=None, handed_over=None, correlation=None, correlation_fields=())


def _sample(plan: Plan, first: checksums.FirstPass) -> set[int]:
    """Evenly spaced key ranges; the latency of their rows is measured."""
    if plan.client.time is None or plan.server.time is None:
        return set()
    numbers = sorted(first.client.ranges)
    if first.client.rows <= SAMPLE:
        return set(numbers)
    share = max(1, len(numbers) * SAMPLE // first.client.rows)
    return {numbers[len(numbers) * index // share] for index in range(share)}


def _counted(found: Iterator[verdicts.Judged], result: Result, latencies: list[int]) -> Iterator[verdicts.Judged]:
    """Yield the keys that are not plainly delivered; count the delivered ones and collect their latencies."""
    for judged in found:
        arrived = judged.verdict in (verdicts.Verdict.DELIVERED, verdicts.Verdict.OUT_OF_ORDER)
        if arrived and judged.latency is not None and len(latencies) < SAMPLE * 5:
            latencies.append(judged.latency)
        if judged.verdict is not verdicts.Verdict.DELIVERED:
            result.delivered -= judged.client_count
            yield judged


def _write(
    config: Config,
    plan: Plan,
    between: places.Places,
    displaced: order.Displacements,
    result: Result,
    found: Iterator[verdicts.Judged],
) -> None:
    if config.out is not None:
        name = "differences" if result.title == "Requests" else "response-differences"
        result.differences = config.out / f"{name}.parquet"
    found_differences = differences.find_differences(
        found, plan=plan, places=between, runs=displaced.runs, current_keys=differences.current_client_keys(plan)
    )
    with differences.writer(result, config.listed, result.differences) as writer:
        for difference in found_differences:
            writer.take(difference)


def _note_consistency(result: Result, between: places.Places) -> None:
    for side in (result.client, result.server):
        if side.consistency is Consistency.NONE:
            result.notes.append(
                f"{side.table} was not read in one snapshot: rows that changed meanwhile may have a wrong verdict"
            )
    if between.consistency() is Consistency.NONE:
        result.notes.append("the stores in between were not read in one snapshot: places may be slightly out of date")


@contextlib.contextmanager
def _spark_errors() -> Iterator[None]:
    """Translate a task's failure, which Spark raises as a Java error that contains a Python traceback."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = str(error)
        for cls, make in _TRANSLATED:
            if f"{cls}: " in text:
                raise make(text.rpartition(f"{cls}: ")[2].splitlines()[0]) from error
        raise StorageError(f"Spark: {_last_line(text)}") from error


def _last_line(text: str) -> str:
    """The last line of a traceback, which has the exception's type and text."""
    named = [line for line in text.splitlines() if "Error: " in line or "Exception: " in line]
    return (named or text.splitlines() or ["it failed"])[-1 if not named else 0].strip()


_TRANSLATED: tuple[tuple[str, Callable[[str], Exception]], ...] = (
    ("mercury.errors.ConfigurationError", ConfigurationError),
    ("mercury.errors.StorageError", StorageError),
)
