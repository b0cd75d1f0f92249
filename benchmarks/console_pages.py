"""Every page of the console over a large store: its time, its statements and the rows that they read.

The console is served on a socket of this process, and asked by a client that has logged in. Statements and rows are
counted in a request of their own, so that counting takes no time of the others.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from httpx import Client
from sqlalchemy import event

from benchmarks.console_store import Shown, fill
from benchmarks.rounds import GivenUp, Record, progress
from mercury.console.console import Console
from mercury.console.settings import ConsoleSettings
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

TOKEN = "the-token-of-the-benchmark"
STORES = ("postgresql", "sqlite")
MESSAGES, SEQUENCES = 1_000_000, 10_000
#: Requests of each page after a first one, which loads the template.
REQUESTS = 20
REPORT = "report-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How large the stores are, in which databases, and how often each page is asked for."""

    messages: int = MESSAGES
    sequences: int = SEQUENCES
    stores: tuple[str, ...] = STORES
    requests: int = REQUESTS


def pages(shown: Shown) -> dict[str, str]:
    """The addresses of all pages, and of lists with filters, by their names."""

    def of(page: str, **query: object) -> str:
        return f"{page}?{urlencode(query)}"

    outbound = {"direction": "outbound", "position": shown.outbound}
    inbound = {"direction": "inbound", "position": shown.inbound}
    return {
        "login": "login",
        "overview": "",
        "sequences": "sequences",
        "sequences, stuck": of("sequences", stuck="yes"),
        "sequences, active destinations": of("sequences", side="destination", active="yes"),
        "sequences in a state": of("sequences", state="FAILED"),
        "sequences of an endpoint": of("sequences", endpoint=shown.endpoint),
        "sequences with a part of the identifier": of("sequences", id=shown.source[-9:]),
        "sequences with a part of every identifier": of("sequences", id="urn:"),
        "sequence, source": of("sequence", id=shown.source),
        "sequence, destination with a gap": of("sequence", id=shown.destination),
        "close a sequence?": of("sequence-close", id=shown.source),
        "terminate a sequence?": of("sequence-terminate", id=shown.source),
        "restart a sequence?": of("sequence-restart", id=shown.source),
        "is it a new destination?": of("sequence-destination", id=shown.source),
        "messages to send": of("messages", direction="outbound"),
        "messages received": of("messages", direction="inbound"),
        "messages of a key": of("messages", direction="outbound", endpoint=shown.endpoint, key=shown.key),
        "messages of an endpoint": of("messages", direction="outbound", endpoint=shown.endpoint),
        "messages of a service": of("messages", direction="inbound", endpoint=shown.service),
        "messages of a sequence": of("messages", direction="inbound", sequence=shown.destination),
        "messages with a correlation": of("messages", correlation=shown.correlation),
        "messages, not answered": of("messages", direction="outbound", state="unanswered"),
        "messages, failing": of("messages", direction="inbound", state="failing"),
        "messages since a time": of("messages", direction="outbound", since=_minutes_ago(60)),
        "messages that are done": of("messages", state="done"),
        "messages of a key that are done": of("messages", state="done", endpoint=shown.endpoint, key=shown.key),
        "message that is done": of("settled", message_id=shown.settled),
        "message to send": of("message", **outbound),
        "message received": of("message", **inbound),
        "park a message?": of("message-park", **inbound),
        "dead letters": "letters",
        "dead letters of an endpoint": of("letters", endpoint=shown.endpoint),
        "dead letters with a reason": of("letters", reason="expired"),
        "dead letter": of("letter", id=shown.letter),
        "redrive all of an endpoint?": of("letters-redrive", endpoint=shown.endpoint),
        "redirect all of an endpoint?": of("letters-redirect", endpoint=shown.endpoint),
        "discard all?": "letters-discard",
        "edit a dead letter?": of("letter-edit", id=shown.letter),
        "bulk action": of("bulk", id=shown.bulk),
        "cancel a bulk action?": of("bulk-cancel", id=shown.bulk),
        "services": "services",
        "service": of("service", name=shown.service),
        "in doubt": "doubt",
        "resolve a transaction?": of("doubt-resolve", gtrid=shown.gtrid, verdict="commit"),
        "nodes": "nodes",
        "reconcile": "reconcile",
        "report": of("report", name=REPORT),
        "audit": "audit",
        "audit of a sequence": of("audit", target=shown.source),
        "audit of a bulk action": of("audit", bulk=shown.bulk),
        "audit of an actor": of("audit", actor="nobody"),
    }


def _minutes_ago(minutes: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(time.time() - 60 * minutes))


# --- measured --------------------------------------------------------------------------------------------------------


def one_console(kind: str, new_database: Callable[[str], str], folder: Path, asked: Asked) -> Iterator[Record]:
    """The pages over a store in a kind of database.

    :param kind: one of `STORES`.
    :param new_database: makes a database of a name in PostgreSQL, and returns its URL.
    :param folder: for the file of SQLite.
    """
    url = new_database("console") if kind == "postgresql" else f"sqlite:///{folder / 'console.db'}"
    with contextlib.closing(open_sql_store(url)) as store:
        begun = time.perf_counter()
        shown = fill(store, asked.messages, asked.sequences, time.time())
        progress(f"console: {kind}: {asked.messages:,} messages in {time.perf_counter() - begun:.0f} s")
        about = {"part": "console", "store": kind, "messages": asked.messages, "sequences": asked.sequences}
        for found in measured(store, shown, asked.requests):
            progress(f"console: {kind}: {found['page']}: {found['median_ms']} ms, at most {found['max_ms']} ms")
            yield {**about, **found}


def measured(store: SqlStore, shown: Shown, requests: int) -> Iterator[Record]:
    """Each page, with its times in milliseconds.

    :raises GivenUp: a page is not what was asked for.
    """
    with served(store) as client:
        for name, address in pages(shown).items():
            first = _seconds(client, address)
            times = [_seconds(client, address) for _ in range(requests)]
            with counted(store) as statements:
                _seconds(client, address)
            yield {
                "page": name,
                "requests": requests,
                "first_ms": round(1000 * first, 1),
                "median_ms": round(1000 * statistics.median(times), 1),
                "max_ms": round(1000 * max(times), 1),
                "statements": len(statements),
                "rows_read": rows_read(store, statements),
            }


@contextlib.contextmanager
def served(store: SqlStore) -> Iterator[Client]:
    """A client of the console of a store that has logged in as an operator."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-reports-")))
        (folder / REPORT).mkdir()
        (folder / REPORT / "report.html").write_text("<title>Reconciled: orders</title>", encoding="utf-8")
        console = Console(store, "the benchmark's", ConsoleSettings(token=TOKEN, reports=str(folder)))
        stack.callback(console.close)
        server = BackgroundServer("127.0.0.1", 0, TlsSettings())
        server.start(console.application(), HttpSettings())
        stack.callback(server.stop)
        client = stack.enter_context(Client(base_url=f"{server.url}/", trust_env=False, timeout=60.0))
        login = client.get(console.login_path("Ada"))
        if login.status_code != 303:
            raise GivenUp(f"the console refuses the login: {login.status_code}")
        gc.collect()
        gc.freeze()  # as `mercury console` does
        stack.callback(gc.unfreeze)
        yield client


def _seconds(client: Client, address: str) -> float:
    begun = time.perf_counter()
    answer = client.get(address)
    taken = time.perf_counter() - begun
    if answer.status_code != 200:
        raise GivenUp(f"{address or 'the overview'}: {answer.status_code}")
    return taken


# --- counted ---------------------------------------------------------------------------------------------------------

#: A statement with its parameters, as the driver gets them.
Statement = tuple[str, Any]


@contextlib.contextmanager
def counted(store: SqlStore) -> Iterator[list[Statement]]:
    """The statements of a store until the end of the block."""
    found: list[Statement] = []

    def note(_connection: object, _cursor: object, text: str, parameters: Any, _context: object, _many: bool) -> None:
        found.append((text, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def rows_read(store: SqlStore, statements: list[Statement]) -> int | None:
    """The rows of tables that these queries read, used or not; ``None`` = the database does not say it."""
    if store.dialect.name != "postgresql":
        return None
    total = 0.0
    with store.reading() as connection:
        for text, parameters in statements:
            if text.lstrip().lower().startswith(("select", "with")):
                explained = f"explain (analyze, costs off, timing off, format json) {text}"
                (plan,) = connection.exec_driver_sql(explained, parameters).scalar_one()
                total += _rows_of(plan["Plan"])
    return round(total)


def _rows_of(node: dict[str, Any]) -> float:
    """The rows that the scans of a plan read."""
    read = 0.0
    if "Relation Name" in node:
        removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        read = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return read + sum(_rows_of(each) for each in node.get("Plans", ()))
