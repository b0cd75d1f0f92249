"""Starts the built-in programs: a process that has loaded Mercury once, and forks a process for each start.

A restart so takes a tenth of a second instead of two. Each line of its input is a program to start, as JSON: ``argv``
(of the command `mercury`), ``environment``, ``log``. It prints a line for each start (``pid``) and each end (``ended``
and ``code``), and ends with its input, with all that it has started.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import signal
import sys
from typing import Any

from mercury.cli.main import run

#: What the programs need. No thread is started by an import: a fork has only the thread that forks.
LOADED = (
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl"),
    *("mercury.cli.serve", "mercury.service.host", "mercury.service.serving", "mercury.storage.sql.postgres_dialect"),
    *("mercury.storage.sql.store", "mercury.storage.sql.upgrades"),
    *("mercury.trial.programs.client", "mercury.trial.programs.server", "mercury.relaying"),
)


def become(program: dict[str, Any]) -> None:
    """Be the program: called in the new process."""
    os.setsid()
    log = os.open(program["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(program["environment"])
    faulthandler.register(signal.SIGUSR1)  # the stacks of all threads go to the log
    sys.argv = ["mercury", *program["argv"]]
    run()


def main() -> int:
    for name in LOADED:
        importlib.import_module(name)
    children: set[int] = set()
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    say(ready=True)
    pending = b""
    while True:
        readable, _, _ = select.select([0, awake], [], [])
        if awake in readable:
            os.read(awake, 4096)
            for pid, status in ended(children):
                children.discard(pid)
                say(ended=pid, code=os.waitstatus_to_exitcode(status))
        if 0 not in readable:
            continue
        given = os.read(0, 1 << 20)
        if not given:
            break
        *lines, pending = (pending + given).split(b"\n")
        for line in lines:
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(awake)
                os.close(wake)
                become(json.loads(line))
                return 0
            children.add(pid)
            say(pid=pid)
    for pid in children:
        os.killpg(pid, signal.SIGKILL)
    return 0


def ended(children: set[int]) -> list[tuple[int, int]]:
    found = ((pid, os.waitpid(pid, os.WNOHANG)) for pid in children)
    return [(pid, status) for pid, (there, status) in found if there == pid]


def say(**values: object) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
