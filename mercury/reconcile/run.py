"""One reconciliation from the config to the result.

Sources are read in the order in which messages travel: the client's table, its store, the server's store, the
server's table. What has left one place by the time it is read has reached the next one when that is, so
nothing that is on its way counts as lost. Rows that came meanwhile and arrived are found by a second read.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mercury.errors import ConfigurationError, StorageError
from mercury.reconcile import checksums, differences, jobs, order, places, rows, stores, verdicts
from mercury.reconcile.config import Config
from mercury.reconcile.plan import Plan
from mercury.reconcile.planning import check, make_plan
from mercury.reconcile.progress import Progress, silent, watched
from mercury.reconcile.result import Latency, Result, Side, Timeline
from mercury.reconcile.session import session
from mercury.reconcile.source import Consistency, Source, held, shown, translating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rows whose latency is sampled, about.
SAMPLE = 20_000


def reconcile(
    config: Config,
    *,
    spark: SparkSession | None = None,
    progress: Progress = silent,
    moments: Iterable[tuple[float, str]] = (),
) -> Result:
    """Compare the client's table with the server's, and the responses if the config has them.

    :param spark: a session to be used; left out, the active one, or one of the config's that ends with this call.
    :param progress: called with the progress.
    :param moments: what happened while the rows were on their way, to be marked in the report: seconds since the epoch,
        and words.
    :returns: what was found. With `Config.out` the differences are files there, Parquet and CSV, and the report is
        written.
    :raises ConfigurationError: a table, a column, PySpark or Java is missing, or something in the config does not fit.
    :raises StorageError: a database cannot be read.
    """
    from mercury.reconcile.report import write_report

    if config.out is not None:
        try:
            config.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{config.out} cannot be made: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        if spark is None:
            _check(config)
            progress("starting Spark", 0, 0)
            log = None if config.out is None else config.out / "spark.log"
            spark = stack.enter_context(session(config.spark, log=log))
        started = time.perf_counter()
        result = _direction(config, spark, progress, "Requests", back=False)
        way_back = config.way_back()
        if way_back is not None:
            result.response = _direction(way_back, spark, progress, "Responses", back=True)
        result.moments = tuple(moments)
        result.seconds = time.perf_counter() - started
    if config.out is not None:
        result.report = config.out / "report.html"
        write_report(result, result.report)
    return result


def _check(config: Config) -> None:
    """Say what cannot work before Spark is started, which takes some seconds."""
    for each in (config, config.way_back()):
        if each is not None:
            with (
                held(each.client.url, each.client.name, None) as client,
                _between(each, back=False),
                held(each.server.url, each.server.name, None) as server,
            ):
                check(each, client, server)


def _between(config: Config, *, back: bool) -> contextlib.AbstractContextManager[places.Places]:
    """The stores between the two tables, with their decision logs, in the direction of the messages."""
    pair, logs = (config.client_store, config.server_store), (config.client_log, config.server_log)
    if back:
        pair, logs = pair[::-1], logs[::-1]
    tables = (config.client.url, config.server.url)
    return stores.opened(*pair, responses=back, source_log=logs[0], destination_log=logs[1], tables=tables)


def _direction(config: Config, spark: SparkSession, progress: Progress, title: str, *, back: bool) -> Result:
    client, server = config.client, config.server
    began = datetime.datetime.now(datetime.UTC)
    started = time.perf_counter()
    progress("looking at the tables", 0, 0)
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
    with watched(spark, "checksums of key ranges", progress):
        first = jobs.first_pass(spark, plan)
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
        # What was on the way is known of every row when every range was wanted as a whole.
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
    """The runs that are out of order, if order counts."""
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
            "too many to be named one by one"
        )
        return order.Displacements(())
    return order.Displacements(order.displaced(runs))


def _light(side: Any) -> Any:
    """A side with nothing to read but key and order."""
    return replace(side, compare=(), time=None, handed_over=None, correlation=None, correlation_fields=())


def _sample(plan: Plan, first: checksums.FirstPass) -> set[int]:
    """Key ranges, evenly chosen, whose rows show the latency."""
    if plan.client.time is None or plan.server.time is None:
        return set()
    numbers = sorted(first.client.ranges)
    if first.client.rows <= SAMPLE:
        return set(numbers)
    share = max(1, len(numbers) * SAMPLE // first.client.rows)
    return {numbers[len(numbers) * index // share] for index in range(share)}


def _counted(found: Iterator[verdicts.Judged], result: Result, latencies: list[int]) -> Iterator[verdicts.Judged]:
    """Only what was not simply delivered goes on; what was shows how long it took."""
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
    sorted_out = differences.sort_out(
        found, plan=plan, places=between, runs=displaced.runs, known_now=differences.client_now(plan)
    )
    with differences.writer(result, config.listed, result.differences) as writer:
        for difference in sorted_out:
            writer.take(difference)


def _note_consistency(result: Result, between: places.Places) -> None:
    for side in (result.client, result.server):
        if side.consistency is Consistency.NONE:
            result.notes.append(
                f"{side.table} was not read at one moment: rows that changed meanwhile may look different than they are"
            )
    if between.consistency() is Consistency.NONE:
        result.notes.append("the stores in between were not read at one moment: places may be a little old")


@contextlib.contextmanager
def _spark_errors() -> Iterator[None]:
    """What failed in a task comes as a Java error with a Python traceback in it: say what it was."""
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
    """The line of a traceback that says what happened."""
    named = [line for line in text.splitlines() if "Error: " in line or "Exception: " in line]
    return (named or text.splitlines() or ["it failed"])[-1 if not named else 0].strip()


_TRANSLATED: tuple[tuple[str, Callable[[str], Exception]], ...] = (
    ("mercury.errors.ConfigurationError", ConfigurationError),
    ("mercury.errors.StorageError", StorageError),
)
