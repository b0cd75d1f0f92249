"""Runs a server in the main thread until SIGTERM or Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

import typer

from mercury.cli.output import FAILED

if TYPE_CHECKING:
    from mercury.service.serving import Listening, Server


def run_until_signal(server: Server, listening: Listening) -> None:
    """Serve until a signal comes; then finish the open requests and return.

    The command fails if the application's start does; the log has the reason.
    """

    def end(*_: object) -> None:
        """After an orderly stop uvicorn raises the signal again; without this handler the process would die of it."""
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with contextlib.suppress(SystemExit):
        server.run(sockets=[listening.socket])
    if not server.started:
        raise typer.Exit(FAILED)
