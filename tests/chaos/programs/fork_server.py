"""``python -m tests.chaos.programs.fork_server``: imports everything once, and forks the programs' processes quickly.

For each line on stdin, ``{"side": ..., "setup": ..., "out": FILE, "err": FILE}``, it forks a process, which runs the
program with its output in these files. It prints the new process's id.
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

#: Modules that are otherwise imported at their first use.
LATER = (
    "mercury.facade",
    "mercury.service.host",
    "mercury.storage.sql.store",
    "mercury.storage.sql.upgrades",
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
    gc.freeze()  # so that garbage collection in a child does not copy the shared pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes ended children; no exit codes are needed
    hook.say("ready")
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _run(order)
        hook.say(f"made {pid}")


def _run(order: dict[str, Any]) -> None:
    """Run the program in this process; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        for number, name in ((1, order["out"]), (2, order["err"])):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, number)
        PROGRAMS[Side(order["side"])](Setup.load(order["setup"]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
