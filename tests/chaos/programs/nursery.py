"""``python -m tests.chaos.programs.nursery``: has imported everything, and makes a process of a program in no time.

For each line on stdin, ``{"side": ..., "setup": ..., "out": FILE, "err": FILE}``, it forks: the new process is the
program and writes to these files. It prints the new process's number.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import signal
import sys
import traceback
from typing import Any

from tests.chaos import hook
from tests.chaos.kinds import Side
from tests.chaos.programs import client, server
from tests.chaos.programs.setup import Setup

#: What is otherwise imported when it is first needed.
LATER = (
    "mercury.facade",
    "mercury.service.host",
    "mercury.storage.sql.store",
    "mercury.storage.sql.versions",
    "sqlalchemy.dialects.postgresql.psycopg",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)

PROGRAMS = {Side.CLIENT: client.main, Side.SERVER: server.main}


def main() -> None:
    for name in LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here stays: no child need copy it to look at it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are nobody's business here
    hook.say("ready")
    for line in sys.stdin:
        told = json.loads(line)
        pid = os.fork()
        if not pid:
            _be(told)
        hook.say(f"made {pid}")


def _be(told: dict[str, Any]) -> None:
    """Be the program; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        for number, name in ((1, told["out"]), (2, told["err"])):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, number)
        PROGRAMS[Side(told["side"])](Setup.load(told["setup"]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
