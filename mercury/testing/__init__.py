"""Tools for tests of applications that use Mercury, of stores, and of Mercury itself.

`Pair` is a client and a server in one thread, without sockets and without sleeping. They are joined by a `Wire`, which
loses, repeats and holds messages as the test says, and they use a `FakeClock`, which the test advances.
`SimulatedStore` fails or crashes at a commit. `postgres_server` is a PostgreSQL for a test run. docs/testing.md shows
how to use them. `StoreContract` has the tests that every store must pass; see docs/stores.md.

Each name is imported when it is first used, because only `StoreContract` needs pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercury.postgres.embedded import EmbeddedPostgres
    from mercury.testing.clock import FakeClock
    from mercury.testing.contract.stores import OpenStore
    from mercury.testing.contract.suite import StoreContract
    from mercury.testing.flights import Flight, name_of
    from mercury.testing.ids import CountedIds
    from mercury.testing.pair import Node, Pair
    from mercury.testing.postgres import PostgresServer, embedded_postgres, postgres_server
    from mercury.testing.process import Process
    from mercury.testing.store import Crash, SimulatedStore
    from mercury.testing.wire import Wire

_WHERE = {
    "CountedIds": "mercury.testing.ids",
    "Crash": "mercury.testing.store",
    "EmbeddedPostgres": "mercury.postgres.embedded",
    "FakeClock": "mercury.testing.clock",
    "Flight": "mercury.testing.flights",
    "Node": "mercury.testing.pair",
    "OpenStore": "mercury.testing.contract.stores",
    "Pair": "mercury.testing.pair",
    "PostgresServer": "mercury.testing.postgres",
    "Process": "mercury.testing.process",
    "SimulatedStore": "mercury.testing.store",
    "StoreContract": "mercury.testing.contract.suite",
    "Wire": "mercury.testing.wire",
    "embedded_postgres": "mercury.testing.postgres",
    "name_of": "mercury.testing.flights",
    "postgres_server": "mercury.testing.postgres",
}

__all__ = [
    "CountedIds",
    "Crash",
    "EmbeddedPostgres",
    "FakeClock",
    "Flight",
    "Node",
    "OpenStore",
    "Pair",
    "PostgresServer",
    "Process",
    "SimulatedStore",
    "StoreContract",
    "Wire",
    "embedded_postgres",
    "name_of",
    "postgres_server",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'mercury.testing' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
