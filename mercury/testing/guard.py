"""Cleans up after a test run that was killed, by a child process that notices the end of its parent."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

#: The folder from which the child imports Mercury.
ROOT = Path(__file__).resolve().parents[2]

#: Only the tests' process has the other end of the child's input, so `read` returns when that process has ended.
WAIT = "import sys; words = sys.stdin.read().split()\n"


@contextlib.contextmanager
def guard(code: str, *arguments: str) -> Iterator[Callable[[str], None]]:
    """Run Python code if this process ends before the block does, also by SIGKILL.

    Yields a function that passes words to the code, which finds them in its list ``words``.

    :param code: run in a child process.
    :param arguments: the child's ``sys.argv[1:]``.
    """
    with subprocess.Popen(  # noqa: S603  our own code
        [sys.executable, "-c", WAIT + code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdin is not None
        pipe = process.stdin

        def send_word(word: str) -> None:
            pipe.write(word + "\n")
            pipe.flush()

        try:
            yield send_word
        finally:
            process.kill()
