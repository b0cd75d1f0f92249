"""``mercury serve --workers``: several processes at one port and on one store."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from mercury import Mercury
from tests.acceptance.node import Ask, Order, Taken
from tests.acceptance.processes import ROOT, Running, Serving, eventually, get, mercury

TARGET = "tests.acceptance.node:app"
KEYS, COUNT = 8, 25


@pytest.fixture
def store(postgres_database: Callable[..., str]) -> Iterator[tuple[str, Engine]]:
    url = postgres_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table taken (at serial, key text, id int, pid int)"))
        connection.execute(text("create table answered (id int)"))
    yield url, engine
    engine.dispose()


def rows(engine: Engine) -> list[tuple[str, int, int]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text("select key, id, pid from taken order by at"))]


def pids(parent: Running) -> set[int]:
    """The processes that a parent has started."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the test reads /proc")


def test_two_processes_on_one_store_handle_each_message_once_and_in_order(store: tuple[str, Engine]) -> None:
    url, engine = store
    with Serving(TARGET, "--workers", "2", MERCURY_STORE=url) as server, Mercury("memory:") as client:
        address = f"{server.url}/services/orders"
        for key in range(KEYS):
            sender = client.to(address, key=str(key))
            with client.transaction() as tx:
                for number in range(COUNT):
                    sender.send(Order(str(key), number), tx=tx)
        asked = [client.to(address, key=f"ask {n}").request(Ask("asked", n), response=Taken) for n in range(KEYS)]
        assert [each.result(timeout=60).id for each in asked] == list(range(KEYS))
        eventually(lambda: len(rows(engine)) >= KEYS * (COUNT + 1), "all are handled")
        found = rows(engine)
        assert {pid for _, _, pid in found} <= pids(server)
        server.signal(signal.SIGTERM)
        ended = server.ends()
    assert (ended.code, ended.err) == (0, "")
    for key in range(KEYS):
        assert [number for name, number, _ in found if name == str(key)] == list(range(COUNT))
    assert sorted(number for name, number, _ in found if name == "asked") == list(range(KEYS))


def test_a_process_that_is_killed_is_replaced(store: tuple[str, Engine]) -> None:
    with Serving(TARGET, "--workers", "2", MERCURY_STORE=store[0]) as server:
        before = pids(server)
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        eventually(lambda: len(pids(server) - before) == 1, "another one is started")
        eventually(lambda: "a process that serves has ended with code -9" in server.err, "the log says so")
        assert get(server.netloc, "/healthz")[0] == 200
        server.signal(signal.SIGTERM)
        assert server.ends().code == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in before)


def test_processes_whose_parent_is_killed_end() -> None:
    with Serving(TARGET, "--workers", "2", MERCURY_STORE="memory:") as server:
        before = pids(server)
        server.signal(signal.SIGKILL)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before), "they have ended")


def test_an_application_that_cannot_start_is_reported_once() -> None:
    ended = mercury("serve", "tests.acceptance.node:nothing", "--workers", "2", "--port", "0", cwd=ROOT)
    ended.refused("has no 'nothing'", code=2)
