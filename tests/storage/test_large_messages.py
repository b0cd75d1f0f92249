"""The bytes of large messages that one process has in memory, while many wait."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.pq import Format
from psycopg.pq.abc import PGresult

from mercury import Service, testing
from mercury.engine.runtime.allocator import LARGE_BLOCK
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.releasing import GROWN_BYTES
from mercury.storage.sql.round_trips import Result, Session
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.testing.contract.builders import inbound, row

from .pair import Pair

NOW = 1_800_000_000.0
#: Bytes of one message, how many there are, and how many are in flight or handled together.
LARGE, MANY, TOGETHER = 3_000_000, 6, 2


@dataclass
class Large:
    number: int
    text: str


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[StorageManager]]:
    if request.param == "memory":
        yield [MemoryStore(), MemoryStore()]
        return
    opened = [open_sql_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("client", "server")]
    yield list(opened)
    for store in opened:
        store.close()


def test_window_counts_bytes_and_moves_on_with_acknowledgements(stores: list[StorageManager]) -> None:
    pair = Pair(*stores)
    pair.send(["first"])
    pair.run(NOW)
    pair.send(["x" * LARGE for _ in range(MANY)])
    _, posts = pair.client.turn(NOW)
    assert len(posts) == TOGETHER
    for _ in range(MANY):
        _, more = pair.client.turn(NOW)
        assert more == [], "the others wait for an acknowledgement, whether they have a number or not"
    for _ in range(MANY // TOGETHER):
        assert len(posts) == TOGETHER
        posts = [*pair.client.receive(pair.carry(posts, NOW), NOW), *pair.client.turn(NOW)[1]]
    assert posts == []
    pair.run(NOW)
    assert len(pair.server.handled) == 1 + MANY


def test_a_run_reads_so_many_bytes_and_the_next_run_the_others(stores: list[StorageManager]) -> None:
    pair = Pair(*stores)
    pair.send(["first"])
    pair.run(NOW)
    pair.send(["x" * LARGE for _ in range(MANY)])
    _, posts = pair.client.turn(NOW)
    while posts:
        posts = [*pair.client.receive(pair.carry(posts, NOW), NOW), *pair.client.turn(NOW)[1]]
    assert len(pair.server.handled) == 1
    for count in range(TOGETHER, MANY + 1, TOGETHER):
        pair.server.turn(NOW)
        assert len(pair.server.handled) == 1 + count


def test_memory_for_messages_in_flight_does_not_grow_with_their_number(tmp_path: Path) -> None:
    """Both sides together: the copies of one message of nearly the largest size on its way through both."""
    size, many = 7_900_000, 8
    service, taken = Service("large"), []

    @service.operation("Put")
    def put(large: Large) -> None:
        taken.append((large.number, len(large.text)))

    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("client", "server")]
    with testing.Pair(service, client_store=stores[0], server_store=stores[1]) as pair:
        sender = pair.to()
        for number in range(many):
            sender.send(Large(number, "x" * size), operation="Put")
        gc.collect()
        gc.disable()  # what ran before decides when a collection comes, and so the peak by up to five bodies
        tracemalloc.start()
        try:
            pair.run()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert taken == [(number, size) for number in range(many)]
    assert peak < 6 * size


# --- what the driver of PostgreSQL keeps ----------------------------------------------------------------------------


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[SqlStore]:
    store = open_sql_store(postgres_url)
    yield store
    store.close()


def connection_of(store: SqlStore, work: Callable[[SqlTransaction], object]) -> int:
    """The server's process for the connection of a transaction that does some work."""
    with store.transaction() as tx:
        assert isinstance(tx, SqlTransaction)
        work(tx)
        return int(tx.connection().exec_driver_sql("select pg_backend_pid()").scalar_one())


def read(tx: SqlTransaction) -> None:
    assert len(tx.invoker.part("urn:rmd:1", 1, 10).messages[1].payload) == GROWN_BYTES


def test_connection_that_has_carried_a_large_body_is_not_used_again(postgres: SqlStore) -> None:
    def insert(number: int, size: int) -> int:
        row = inbound(number, payload=b"x" * size)
        return connection_of(postgres, lambda tx: tx.invoker.add([row]))

    first = connection_of(postgres, lambda _: None)
    assert insert(2, GROWN_BYTES - 1) == first
    assert insert(1, GROWN_BYTES) == first, "it is used to the end of its transaction"
    second = connection_of(postgres, read)
    assert second != first, "it has sent a large body"
    third = connection_of(postgres, lambda _: None)
    assert third != second, "it has received one"
    assert connection_of(postgres, lambda _: None) == third


def test_connection_that_an_application_has_sent_a_large_body_with_is_not_used_again(postgres: SqlStore) -> None:
    first = connection_of(postgres, lambda tx: tx.rms.append(row("urn:large", payload=b"x" * GROWN_BYTES)))
    assert connection_of(postgres, lambda _: None) != first


def test_body_is_received_as_its_bytes_and_not_as_a_text_twice_as_long(
    postgres: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Format] = []
    load = Session.load

    def noting(self: Session, result: PGresult) -> Result:
        names = [result.fname(place) for place in range(result.nfields)]
        if b"payload" in names:
            received.append(Format(result.fformat(names.index(b"payload"))))
        return load(self, result)

    monkeypatch.setattr(Session, "load", noting)
    connection_of(postgres, lambda tx: tx.invoker.add([inbound(1, payload=b"x" * GROWN_BYTES)]))
    connection_of(postgres, read)
    assert received == [Format.BINARY]


def memory_of(work: Callable[[], object]) -> int:
    """The most bytes that Python, and what of psycopg uses its allocator, has meanwhile."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_body_that_is_stored_alone_is_not_put_into_a_list_for_the_driver(postgres: SqlStore) -> None:
    row = inbound(1, payload=b"x" * LARGE)
    with postgres.transaction() as tx:
        tx.invoker.add([row])
        assert memory_of(tx.send_pending) < 0.5 * LARGE, "the list has a copy of its own"


def test_body_is_sent_as_it_is_and_not_as_a_copy_that_the_driver_keeps(postgres: SqlStore) -> None:
    """Neither Mercury's own nor what a handler writes in the same transaction."""
    row, content = inbound(1, payload=b"x" * LARGE), b"y" * LARGE
    with postgres.transaction() as tx:
        assert isinstance(tx, SqlTransaction)
        connection = tx.connection()
        tx.invoker.add([row])
        assert memory_of(tx.send_pending) < 0.5 * LARGE
        query, asked = "select length(%(content)s)", {"content": content}
        assert memory_of(lambda: connection.exec_driver_sql(query, asked).scalar_one()) < 0.5 * LARGE
        assert connection.exec_driver_sql("select %(content)s", {"content": b"\0'\\"}).scalar_one() == b"\0'\\"


READS = """
import sys
from pathlib import Path
from mercury.engine.runtime.allocator import return_large_blocks
from mercury.storage.opening import open_sql_store
from mercury.testing.contract.builders import inbound

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

return_large_blocks()
store, size = open_sql_store(sys.argv[1]), int(sys.argv[2])
for number in (1, 2):
    with store.transaction() as tx:
        tx.invoker.add([inbound(number, payload=b"x" * size if number == 2 else b"x")])
for number in (1, 2):  # the first loads what a query needs
    with store.transaction() as tx:
        before = resident()
        part = tx.invoker.part("urn:rmd:1", number, number)
        print(resident() - before if number == 2 else "")
        del part
store.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_answer_of_the_database_is_freed_when_its_rows_are_read(postgres_url: str) -> None:
    """Of a body that was read, there is libpq's buffer until the connection is closed, and its bytes."""
    size = 16 * 1024 * 1024
    command = [sys.executable, "-c", READS, postgres_url, str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 2.5 * size


ALLOCATES = """
import sys
from pathlib import Path
from mercury.engine.runtime.allocator import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "returns":
    return_large_blocks()
blocks, small = [], []
before = resident()
for size in (4, 8, 16):
    blocks.append(bytes(size << 20))
    blocks.clear()
for _ in range(16):
    blocks.append(b"x" * (4 << 20))
    small.append(b"y" * 100_000)
blocks.clear()
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_blocks_of_large_messages_are_returned_when_they_are_freed() -> None:
    def kept(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", ALLOCATES, how], check=True, capture_output=True, text=True)
        return int(done.stdout)

    assert kept("returns") < 4 * LARGE_BLOCK < kept("keeps")
