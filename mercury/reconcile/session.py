"""Makes a Spark session: without console output, on this machine unless a cluster is named, with the running
interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercury.errors import ConfigurationError
from mercury.reconcile import java
from mercury.reconcile.config import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The number of characters of Spark's log that an error text shows.
TAIL = 600


@contextlib.contextmanager
def session(settings: SparkSettings, *, log: Path | None = None) -> Iterator[SparkSession]:
    """A session that is stopped at the end of the block. If the process has an active one, that is used and not
    stopped.

    :param log: the file for Spark's stderr; ``None`` = it is discarded.
    :raises ConfigurationError: PySpark or a Java is missing, or Spark does not start.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is missing: pip install 'mercury-rm[spark]'") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with contextlib.ExitStack() as stack:
        variables = stack.enter_context(java.home(os.environ, java.packaged()))
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if settings.master.startswith("local"):
            variables["PYSPARK_PYTHON"] = sys.executable
            variables["SPARK_LOCAL_IP"] = "127.0.0.1"
        stack.enter_context(_environment(variables))
        log_file = stack.enter_context(_log_file(log))
        with _signals_delayed():
            spark = _start(settings, log_file)
            stack.callback(spark.stop)
        yield spark


@contextlib.contextmanager
def _signals_delayed() -> Iterator[None]:
    """Delay signals until the end of the block: an interrupt while the JVM starts would leave it running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers if callable(signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda got, _frame: received.append(got))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in received[:1]:
            signal.raise_signal(number)


def _start(settings: SparkSettings, log: Path) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.appName("mercury reconcile").master(settings.master)
    for name, value in _settings(settings).items():
        builder = builder.config(name, value)
    try:
        with _stderr(log):
            spark: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        tail = " ".join(log.read_text(errors="replace")[-TAIL:].split())
        raise ConfigurationError(
            f"Spark does not start at {settings.master}: {' '.join(str(error).split())[:TAIL]} {tail}"
        ) from error
    return spark


def _settings(settings: SparkSettings) -> dict[str, str]:
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": settings.memory,
        # Few rows are shuffled; more partitions would cost more time than they save.
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        # The databases and Python do most of the work: the JVM should start fast and use little memory.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    if settings.master.startswith("local"):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return found


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _log_file(log: Path | None) -> Iterator[Path]:
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        yield log
        return
    with tempfile.TemporaryDirectory(prefix="mercury-spark-") as folder:
        yield Path(folder) / "spark.log"


@contextlib.contextmanager
def _stderr(log: Path) -> Iterator[None]:
    """Redirect the stderr of processes that start in the block (the JVM and its workers) to a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
