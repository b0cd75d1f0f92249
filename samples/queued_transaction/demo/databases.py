"""The databases of a run, for two applications and two stores, on an embedded PostgreSQL or on the user's servers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlalchemy import create_engine, insert

from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from samples.queued_transaction.demo.options import Options, Store
from samples.queued_transaction.demo.rows import orders
from samples.queued_transaction.tables import CLIENT, ORDERS, SERVER

#: The number of rows in one INSERT.
BATCH = 100


@dataclass(frozen=True)
class Urls:
    """The URLs of one side's databases."""

    application: str
    store: str


@dataclass(frozen=True)
class Pair:
    """The URLs of both sides' databases."""

    client: Urls
    server: Urls


@contextmanager
def cleaned_up(options: Options, clean: Callable[[], None]) -> Iterator[None]:
    """Call ``clean`` after the block, unless the option keep is set; after an interrupt always."""
    keep = options.keep
    try:
        yield
    except KeyboardInterrupt:
        keep = False
        raise
    finally:
        if not keep:
            clean()


@contextmanager
def servers(options: Options, folder: Path) -> Iterator[tuple[Databases, Databases]]:
    """The PostgreSQL servers of the client and of the server; an embedded one is stopped at the end of the block.

    :param folder: the folder of the embedded server, if one is needed.
    """
    named = (options.client_postgres, options.server_postgres)
    embedded = EmbeddedPostgres(folder) if None in named else None
    with cleaned_up(options, embedded.stop if embedded is not None else lambda: None):
        if embedded is not None:
            embedded.start()
        client, server = (Databases(embedded.url() if embedded and url is None else url or "") for url in named)
        yield client, server


@contextmanager
def databases(options: Options, client: Databases, server: Databases) -> Iterator[Pair]:
    """The databases of one run, with the applications' tables and the orders; dropped at the end of the block unless
    kept.

    :raises StorageError: they cannot be created.
    """
    run = secrets.token_hex(4)
    made: list[tuple[Databases, str]] = []

    def make(where: Databases, name: str) -> str:
        name = f"demo_{run}_{name}"
        url = where.create(name)
        made.append((where, name))
        return url

    def drop() -> None:
        for where, name in made:
            where.drop(name)

    with cleaned_up(options, drop):
        pair = Pair(_side(options.store, client, "client", make), _side(options.store, server, "server", make))
        _fill(pair, options)
        yield pair


def _side(store: Store, where: Databases, name: str, make: Callable[[Databases, str], str]) -> Urls:
    application = make(where, name)
    if store.separate:
        return Urls(application, make(where, f"{name}_store"))
    return Urls(application, "memory:" if store is Store.MEMORY else application)


def _fill(pair: Pair, options: Options) -> None:
    for url, tables in ((pair.client.application, CLIENT), (pair.server.application, SERVER)):
        engine = create_engine(url)
        tables.create_all(engine)
        engine.dispose()
    engine = create_engine(pair.client.application)
    with engine.begin() as connection:
        rows = orders(options.seed, options.orders)
        while part := list(islice(rows, BATCH)):
            connection.execute(insert(ORDERS), part)
    engine.dispose()
