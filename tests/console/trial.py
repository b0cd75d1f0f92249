"""Serves the console of the prepared store, to look at it: ``python -m tests.console.trial [--port 8001]``.

Nothing runs on the store, and its time stands still: everybody finds the same. Ctrl-C ends it and deletes the store."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mercury.storage.opening import name_resources, open_sql_store
from mercury.testing import postgres_server
from tests.xa.places import Places, fill_application

from .browsing import OPERATOR, READER, SETTINGS, console_of, serving
from .in_doubt import leave_in_doubt
from .prepared import Prepared, prepare


@dataclass(frozen=True)
class Trial:
    """A console of a prepared store that is served."""

    #: Ends with a slash.
    url: str
    #: The address that logs in an operator, once.
    login: str
    prepared: Prepared


def reports(folder: Path) -> Path:
    """A folder with reports of two days."""
    for day, verdict in (("2026-01-01", "Reconciled"), ("2025-12-31", "Not reconciled")):
        (folder / day).mkdir(parents=True)
        file = folder / day / "report.html"
        title = f"{verdict}: orders and received_orders"
        file.write_text(f"<title>{title}</title><h1>{title}</h1>", encoding="utf-8")
        at = datetime.datetime.fromisoformat(f"{day} 00:01:00+00:00").timestamp()
        os.utime(file, (at, at))
    (folder / "orders.toml").write_text("", encoding="utf-8")
    return folder


@contextlib.contextmanager
def trial(port: int = 0) -> Iterator[Trial]:
    """The prepared store in a console, with transactions in doubt in a PostgreSQL of its own.

    :param port: 0 = any free one.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prepared = prepare(folder)
        app = stack.enter_context(postgres_server()).create()
        fill_application(app)
        places = Places(prepared.url, app)
        leave_in_doubt(places, prepared.clock.now - 12.0)
        stack.callback(places.clean)
        store = stack.enter_context(contextlib.closing(open_sql_store(prepared.url)))
        coordinator = name_resources(store, {"app": app})
        settings = replace(SETTINGS, refresh=1.0, reports=str(reports(folder / "reports")))
        console = console_of(store, prepared.clock, settings, coordinator=lambda: coordinator)
        url = stack.enter_context(serving(console.application(), port=port))
        yield Trial(url, f"{url}{console.login_path('Ada')}", prepared)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.trial", description=__doc__)
    parser.add_argument("--port", type=int, default=8001, help="0 = any free port")
    port: int = parser.parse_args().port
    logging.disable(logging.ERROR)  # what the prepared store is to show is no news
    with trial(port) as made:
        sys.stdout.write(f"the console is at {made.url} (Ctrl-C ends it)\n")
        sys.stdout.write(f"log in once: {made.login}\n")
        sys.stdout.write(f"the token of operators: {OPERATOR}; that of readers: {READER}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
