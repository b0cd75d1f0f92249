"""What is done when a test run is killed: nothing that it started stays."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

#: Where the child finds Mercury.
ROOT = Path(__file__).resolve().parents[2]

#: Nothing else has the other end of its input, so that this returns when the tests' process is gone.
WAIT = "import sys; told = sys.stdin.read().split()\n"


@contextlib.contextmanager
def guard(code: str, *arguments: str) -> Iterator[Callable[[str], None]]:
    """Run Python code if this process ends before the block does, in whatever way (kill -9 too).

    Yields what tells the code words, which it finds in its list ``told``.

    :param arguments: its ``sys.argv[1:]``.
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

        def tell(word: str) -> None:
            pipe.write(word + "\n")
            pipe.flush()

        try:
            yield tell
        finally:
            process.kill()
