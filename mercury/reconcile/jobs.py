"""The Spark jobs: they run in parallel over slices and key ranges and return their results to the driver.

The rows that are compared one by one are a small part of the tables. They are Python objects in RDDs, which start in a
second where the first DataFrame takes ten; Spark sorts them, and spills to disk. Only the join of two whole order
columns is a DataFrame.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import TYPE_CHECKING

from mercury.reconcile import checksums, rows
from mercury.reconcile.order import Displacements, Run
from mercury.reconcile.plan import Plan
from mercury.reconcile.progress import Progress, watched
from mercury.reconcile.verdicts import Judged, Row, Verdict, judged

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

#: Tasks for each processor. Several short ones, so that one slow task does not delay the whole job.
TASKS = 4
#: The most verdicts that the driver collects in one step; above that, one partition at a time.
FEW = 2000


def first_pass(spark: SparkSession, plan: Plan, progress: Progress) -> checksums.FirstPass:
    """Count and checksum of every key range.

    Threads of the driver wait for databases that compute the checksums themselves: Spark would start processes for it.
    """
    jobs, what = checksums.jobs(plan), "checksums of key ranges"
    found = checksums.FirstPass()
    if plan.pushed_down:
        threads = min(len(jobs), spark.sparkContext.defaultParallelism)
        for answer in _by_threads(plan, jobs, threads, what, progress):
            found.add(*answer)
        return found
    run = partial(checksums.run, plan)
    with watched(spark, what, progress):
        tasks = spark.sparkContext.parallelize(jobs, len(jobs))
        for answer in tasks.map(lambda job: (job.side, run(job))).collect():
            found.add(*answer)
    return found


def _by_threads(
    plan: Plan, jobs: Sequence[checksums.Job], threads: int, what: str, progress: Progress
) -> Iterator[tuple[int, checksums.Sums | int]]:
    progress(what, 0, len(jobs))
    with checksums.Connections(plan) as connections, ThreadPoolExecutor(threads) as pool:
        running = {pool.submit(connections.run, job): job.side for job in jobs}
        try:
            for done, each in enumerate(as_completed(running), 1):
                yield running[each], each.result()
                progress(what, done, len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)


def displaced_ranges(spark: SparkSession, plan: Plan, displaced: Displacements) -> set[int]:
    """The key ranges that have rows out of order."""
    slices = plan.client.slices
    look = partial(rows.displaced_ranges, plan, displaced)
    return set(spark.sparkContext.parallelize(slices, len(slices)).flatMap(look).distinct().collect())


def verdicts(spark: SparkSession, request: rows.Request) -> Iterator[Judged]:
    """A verdict for every key of the request. The driver gets one partition at a time, so that its memory is
    bounded."""
    from pyspark import StorageLevel

    context = spark.sparkContext
    portions = request.portions(context.defaultParallelism * TASKS)
    found = context.parallelize(portions, len(portions))
    if request.both_sides:
        done = found.flatMap(partial(rows.judged_ranges, request))
    else:
        together = _sorted(found.flatMap(partial(rows.of_slice, request)), len(portions))
        done = together.mapPartitions(partial(_fold, bool(request.whole)))
    done.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        # `count` computes the partitions in parallel; `toLocalIterator` alone would compute one after the other.
        yield from done.collect() if done.count() <= FEW else done.toLocalIterator()
    finally:
        done.unpersist()


def _sorted(found: RDD[Row], partitions: int) -> RDD[tuple[tuple[str, int], Row]]:
    pairs = found.map(lambda row: ((repr(row.key), row.side), row))
    return pairs.repartitionAndSortWithinPartitions(partitions, lambda key: zlib.crc32(key[0].encode()))


def _fold(delivered: bool, found: Iterable[tuple[tuple[str, int], Row]]) -> Iterator[Judged]:
    """The verdicts of a partition.

    :param delivered: whether delivered keys are included.
    """
    for each in judged(row for _, row in found):
        if delivered or each.verdict is not Verdict.DELIVERED:
            yield each


def joined_runs(spark: SparkSession, request: rows.Request, limit: int) -> list[Run] | None:
    """The runs of the keys that both sides have, from a join of the two order columns; see `order`.

    :returns: ``None`` = there are more than ``limit``.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    portions = request.portions(1)
    read = spark.sparkContext.parallelize(portions, len(portions)).flatMap(partial(rows.of_slice, request))
    taken = read.map(lambda row: (row.side, list(row.key), list(row.group), row.order))
    found = spark.createDataFrame(taken, "side int, key array<string>, grp array<string>, ord decimal(38,6)")
    found = found.where(f.col("ord").isNotNull())
    client, server = found.where("side = 0"), found.where("side = 1")
    sent = client.groupBy("key").agg(f.min("ord").alias("at"), f.min("grp").alias("grp"))
    pairs = sent.join(server.groupBy("key").agg(f.min("ord").alias("arrival")), "key")
    group = Window.partitionBy("grp")
    pairs = pairs.withColumn("sent", f.row_number().over(group.orderBy("at", "arrival")))
    pairs = pairs.withColumn("arrived", f.row_number().over(group.orderBy("arrival", "at")))
    follows = f.col("arrived") == f.lag("arrived").over(group.orderBy("sent")) + 1
    pairs = pairs.withColumn("begins", f.when(follows, 0).otherwise(1))
    pairs = pairs.withColumn("number", f.sum("begins").over(group.orderBy("sent")))
    measures = [f.min("at"), f.max("at"), f.min("sent"), f.min("arrived"), f.count("*")]
    runs = pairs.groupBy("grp", "number").agg(*measures).limit(limit + 1).collect()
    if len(runs) > limit:
        return None
    return [Run(tuple(row[0]), row[2], row[3], row[4], row[5], row[6]) for row in runs]
