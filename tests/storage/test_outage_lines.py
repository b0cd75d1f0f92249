"""Log lines for a database that is unreachable or corrupt: one when it fails, and one when it works again."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mercury import Mercury
from mercury.postgres.embedded import EmbeddedPostgres
from tests.acceptance.app import Note
from tests.acceptance.processes import MERCURY, Running, Serving, eventually, get, mercury

from .shop import settings

#: Seconds that the database is away.
AWAY = 6.0
NOWHERE = "postgresql+psycopg://somebody:secret@127.0.0.1:1/orders"
LOGS = {"MERCURY_LOG_LEVEL": "INFO", "MERCURY_LOG_FORMAT": "json"}


def lines(process: Running, *levels: str) -> list[str]:
    found = [json.loads(line) for line in process.err.splitlines() if line.startswith("{")]
    assert "Traceback" not in process.err, process.err
    return [f"{line['logger']}: {line['message']}" for line in found if line["level"] in levels]


def of_the_store(said: list[str]) -> list[str]:
    return [line for line in said if line.startswith("mercury.store: ")]


def test_an_outage_is_a_line_in_each_process_when_it_begins_and_one_when_it_is_over(
    own_postgres: EmbeddedPostgres,
) -> None:
    at_server, at_client = own_postgres.create_database("server"), own_postgres.create_database("client")
    with (
        Serving(MERCURY_STORE=at_server, **LOGS) as server,
        Running(sys.executable, "-m", "tests.storage.outage", server.url, MERCURY_STORE=at_client, **LOGS) as client,
        Mercury("memory:", settings=settings()) as stranger,
    ):
        client.says("sent 50")
        own_postgres.kill()
        sender = stranger.to(f"{server.url}/services/desk")
        sender.send(Note("from elsewhere"))
        eventually(lambda: "cannot be used now" in (sender.last_error or ""), "the peer gets a 503 and tries again")
        asked = mercury("sequences", "list", "--at", server.url)
        asked.refused("503", "the store cannot be read now: ", "connection", code=1)
        status, body = get(server.netloc, "/mercury/status/sequences")
        assert (status, list(json.loads(body))) == (503, ["error"])
        time.sleep(AWAY)
        own_postgres.start()
        for process in (server, client):
            eventually(lambda each=process: "the store is back" in each.err, "it is back")  # type: ignore[misc]
        assert sender.wait(60)
        for process in (server, client):
            bad, good = lines(process, "WARNING", "ERROR", "CRITICAL"), lines(process, "INFO")
            assert len(of_the_store(bad)) == 1, bad
            assert len(bad) <= 4, bad
            assert of_the_store(good) == ["mercury.store: the store is back"]


def test_a_server_that_is_started_before_its_database_waits_for_it(own_postgres: EmbeddedPostgres) -> None:
    store = own_postgres.create_database("server")
    own_postgres.kill()
    with Running(MERCURY, "serve", "tests.acceptance.app:app", "--port", "0", MERCURY_STORE=store, **LOGS) as server:
        eventually(lambda: "waiting for at most" in server.err, "it says what it waits for")
        own_postgres.start()
        netloc = server.says(r"(http://[^\s\"]+)").removeprefix("http://")
        assert get(netloc, "/readyz")[0] == 200
        (waits,) = lines(server, "WARNING", "ERROR", "CRITICAL")
        assert "waiting for at most 30 s (store_wait)" in waits
        assert of_the_store(lines(server, "INFO")) == ["mercury.store: the store is there"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_the_waiting_for_a_database(number: signal.Signals) -> None:
    target = ("serve", "tests.acceptance.app:app", "--port", "0")
    with Running(MERCURY, *target, MERCURY_STORE=NOWHERE, MERCURY_STORE_WAIT="3600", **LOGS) as server:
        eventually(lambda: "waiting for at most" in server.err, "it waits")
        server.signal(number)
        server.ends()
        assert "Traceback" not in server.err


def test_a_database_that_does_not_come_is_an_error_after_the_timeout() -> None:
    settings = {"MERCURY_STORE": NOWHERE, "MERCURY_STORE_WAIT": "0.1", **LOGS}
    with Running(MERCURY, "serve", "tests.acceptance.app:app", "--port", "0", **settings) as server:
        ended = server.ends()
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(
        "error: the store postgresql+psycopg://somebody:***@127.0.0.1:1/orders"
    )


def test_a_corrupt_file_is_one_line_in_the_log_however_often_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with (
        Serving(MERCURY_STORE=f"sqlite:///{file}", **LOGS) as server,
        Mercury("memory:", settings=settings()) as client,
    ):
        sender = client.to(f"{server.url}/services/desk")
        for number in range(200):
            sender.send(Note(str(number)))
        assert sender.wait(60)
        spoil(file)
        sender.send(Note("one more"))
        eventually(lambda: "cannot be used now" in (sender.last_error or ""), "the peer gets a 503 and tries again")
        time.sleep(AWAY)
        bad = lines(server, "WARNING", "ERROR", "CRITICAL")
        assert len(of_the_store(bad)) == len(bad) == 1, bad
        assert "malformed" in bad[0] or "not a database" in bad[0]
        mercury("sequences", "list", "--at", server.url).refused("503", "the store cannot be read now: ", code=1)


def spoil(file: Path) -> None:
    """Write nonsense over a database that is in use, but for its first page; its log is put into it before."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").close()
    size = file.stat().st_size
    with file.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xa5" * (size - 4096))
