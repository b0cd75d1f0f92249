"""Java and Spark: the one that is used, the error if one is missing, and the clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mercury.errors import ConfigurationError
from mercury.reconcile import SparkSettings, java
from mercury.reconcile.session import _signals_delayed, session

FAKE = """#!/bin/sh
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE.format(version=version))
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21), ("none", None)]
)
def test_the_version_of_a_java_is_read(tmp_path: Path, text: str, version: int | None) -> None:
    assert java.version(str(fake_java(tmp_path, text))) == version


def test_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.version(str(tmp_path / "java")) is None


def test_the_machines_java_is_used_when_it_is_new_enough(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.1")
    with java.home({"JAVA_HOME": str(tmp_path)}, None) as found:
        assert found == {"JAVA_HOME": str(tmp_path)}
    with java.home({"PATH": str(tmp_path / "bin")}, None) as found:
        assert found == {}


def test_the_packaged_java_is_used_without_the_module_it_lacks(tmp_path: Path) -> None:
    """It is called through a script that passes every argument on, but for one."""
    fake_java(tmp_path / "old", "11.0.2")
    echo = tmp_path / "it's packaged" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    echo.chmod(0o755)
    with java.home({"JAVA_HOME": str(tmp_path / "old")}, str(echo)) as found:
        shim = Path(found["JAVA_HOME"]) / "bin" / "java"
        arguments = ["-cp", "a b:*", java.MISSING_MODULE, "", "$HOME", "-Dx='y'"]
        done = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b:*><><$HOME><-Dx='y'>"
    assert not shim.exists()


def test_without_any_java_it_says_what_to_install(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"Java 17 or newer: none is installed.*mercury-rm"),
        java.home({"PATH": str(tmp_path)}, None),
    ):
        raise AssertionError
    old = fake_java(tmp_path, "11.0.2")
    with (
        pytest.raises(ConfigurationError, match="too old"),
        java.home({"JAVA_HOME": str(old.parent.parent)}, None),
    ):
        raise AssertionError


def test_the_packaged_java_is_new_enough_if_it_is_installed() -> None:
    found = java.packaged()
    assert found is not None
    assert (java.version(found) or 0) >= java.MIN_JAVA


def test_a_session_that_is_there_is_used_and_left(spark: object) -> None:
    before = dict(os.environ)
    with session(SparkSettings(master="local[1]")) as found:
        assert found is spark
    assert found.range(3).count() == 3
    assert dict(os.environ) == before


ALONE = """
import os, sys
from pathlib import Path
from mercury.reconcile import SparkSettings
from mercury.reconcile.session import _signals_delayed, session
before = dict(os.environ)
with session(SparkSettings(master="local[1]"), log=Path(sys.argv[1])) as spark:
    worker = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).collect()
    assert worker == [sys.executable], worker
    assert spark._jvm.System.getProperty("java.version")
assert dict(os.environ) == before
print("quiet")
"""


def test_a_session_of_its_own_is_quiet_and_uses_this_interpreter_and_the_packaged_java(tmp_path: Path) -> None:
    """A machine without Java, and a PATH with another python first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "python3"):
        (folder / name).write_text("#!/bin/sh\nexit 3\n")
        (folder / name).chmod(0o755)
    for name in ("bash", "sh", "dirname", "ps", "env", "cat", "readlink", "uname", "rm", "mkdir", "chmod"):
        found = next((path for path in (Path("/usr/bin") / name, Path("/bin") / name) if path.exists()), None)
        if found is not None:
            (folder / name).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, tmp_path / "spark.log"],
        env={**environment, "PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "quiet\n", "")


def test_an_interrupt_while_spark_starts_comes_when_it_has_started() -> None:
    """Spark forgets a JVM whose start is interrupted, and leaves it behind."""
    done = []
    handler = signal.getsignal(signal.SIGINT)  # Spark's own, if a test before this one has started it
    with pytest.raises(KeyboardInterrupt):
        with _signals_delayed():
            signal.raise_signal(signal.SIGINT)
            done.append("started")
        done.append("not interrupted")
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is handler
