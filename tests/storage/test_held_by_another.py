"""A request arrives at one process and is handled by another of the same store: the exchange gets its response."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mercury import Mercury, Settings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import inbound
from tests.acceptance.processes import eventually
from tests.patience import patience

from .pair import Pair

NOW = 1_800_000_000.0
#: Seconds: far longer than a test takes.
NEVER = 3600.0
#: Seconds: a busy machine takes some.
PATIENCE = patience(120.0)


@pytest.fixture
def stores(postgres_url: str) -> Iterator[list[SqlStore]]:
    """Two processes' stores on one database."""
    made = [open_sql_store(postgres_url) for _ in range(2)]
    yield made
    for store in made:
        store.close()


def test_a_response_that_another_process_has_stored_releases_the_exchange(stores: list[SqlStore]) -> None:
    receiving, handling = stores
    pair = Pair(MemoryStore(), handling)
    pair.send(["first"], ask=True)
    pair.run(NOW)  # the handling process has the claims now
    pair.send(["one", "two"], ask=True)
    _, posts = pair.client.turn(NOW)
    # Nothing but a notification wakes it.
    with Mercury(receiving, settings=Settings(runtime=RuntimeSettings(poll=NEVER))) as mercury:
        runtime = mercury.running_runtime
        assert runtime is not None
        heard = threading.Event()
        receiving.listen(lambda _: heard.set())

        def listens() -> bool:
            with handling.transaction() as tx:
                tx.invoker.add([inbound(1)])
            return heard.wait(0.2)

        eventually(listens, "it hears of the other's commits")
        pair.server.held_exchanges = runtime.held_exchanges
        held = pair.hold(posts, NOW)
        assert len(held) == 2
        assert pair.server.engine.invocation.run_once(NOW).progress == 1
        # What it brings is for the exchanges of its own process, where no exchange waits.
        assert pair.server.engine.source.run_once(NOW).progress == 0
        for each in held:
            response = each.response.result(PATIENCE)
            assert response is not None
            assert b"<order>" in response.body
