"""Opening a store by its URL."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from mercury.errors import CapabilityError, ConfigurationError, StorageError, TransientStorageError
from mercury.masking import masked
from mercury.storage.api import StorageManager

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from mercury.storage.sql.dialect import Dialect
    from mercury.storage.sql.store import SqlStore
    from mercury.storage.xa.coordinator import Coordinator
    from mercury.storage.xa.timing import Timing

log = logging.getLogger("mercury.store")

MEMORY = "memory:"
#: Seconds between two attempts to connect to a database that does not answer.
POLL_INTERVAL = 0.5
#: Databases that may take part in transactions: URLs or engines, by the names that the application gives them.
Resources: TypeAlias = "Mapping[str, str | Engine]"
SCHEMES = "a store is memory:, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"


def open_store(url: str, *, wait: float = 0.0) -> StorageManager:
    """Open the store of a URL: ``memory:``, ``sqlite:///file`` or ``postgresql+psycopg://...``.

    An empty database gets Mercury's tables.

    :param wait: seconds to wait for a database that does not answer, for example while it starts.
    :raises ConfigurationError: the URL names no kind of store, or the schema is not this Mercury's.
    :raises StorageError: the database does not answer.
    """
    if url == MEMORY:
        from mercury.storage.memory import MemoryStore

        return MemoryStore()
    return open_sql_store(url, wait=wait)


def given_store(store: str | StorageManager, wait: float) -> StorageManager:
    """The store of an application: opened by its URL, or ``store`` itself if it is open already.

    Parameters and errors as for `open_store`; error texts begin with ``store:``.
    """
    if not isinstance(store, str):
        return store
    try:
        return open_store(store, wait=wait)
    except ConfigurationError as error:
        raise ConfigurationError(f"store: {error}") from error


def open_sql_store(
    url: str,
    *,
    lock_timeout: float = 10.0,
    idle_timeout: float = 30.0,
    database_clock: bool = True,
    wait: float = 0.0,
) -> SqlStore:
    """Open a store in a database; parameters as for `SqlStore` and `open_store`, errors as for `open_store`."""
    from mercury.storage.sql.store import SqlStore

    parsed, dialect = read_url(url)
    store = SqlStore(
        parsed,
        dialect,
        lock_timeout=lock_timeout,
        idle_timeout=idle_timeout,
        database_clock=database_clock and dialect.has_clock,
    )
    shown = masked(parsed.render_as_string())
    try:
        _make_ready(store.engine, shown, wait)
    except StorageError as error:
        store.close()
        raise StorageError(f"the store {shown} cannot be opened: {error}") from error
    except BaseException:
        store.close()
        raise
    return store


def _make_ready(engine: Engine, shown: str, wait: float) -> None:
    from mercury.storage.sql.upgrades import make_ready

    until = time.monotonic() + wait
    waits = False
    while True:
        try:
            make_ready(engine, shown)
            break
        except TransientStorageError as error:
            left = until - time.monotonic()
            if left <= 0:
                raise
            if not waits:
                waits = True
                log.warning(
                    "the store %s does not answer: %s; waiting for at most %g s (store_wait)",
                    shown,
                    error,
                    wait,
                )
        time.sleep(min(POLL_INTERVAL, left))
    if waits:
        log.info("the store is there")


def open_engine(url: str) -> Engine:
    """An engine for a store's database; the schema is not checked.

    :raises ConfigurationError: the URL names no SQL store.
    """
    parsed, dialect = read_url(url)
    return dialect.engine(parsed, 10.0, 30.0)


def read_url(url: str) -> tuple[URL, Dialect]:
    """The parts of a store's URL, and its kind of database.

    :raises ConfigurationError: the URL names no kind of store.
    """
    from mercury.storage.sql.dialects import dialect_of_url

    try:
        parsed = _parsed(url)
    except ValueError as error:
        raise ConfigurationError(f"not a store: {error} ({SCHEMES})") from None
    dialect = dialect_of_url(parsed)
    if dialect is None:
        shown = masked(parsed.render_as_string())
        raise ConfigurationError(f"not a store: {shown!r} ({SCHEMES})")
    return dialect.url(parsed), dialect


def _parsed(url: str) -> URL:
    """The parts of a database's URL.

    :raises ValueError: it is none. The text says what is wrong, and has at most the scheme of it: whatever else is in
        a mistyped URL may be the password.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:|//)", url)
    scheme = found[0] if found is not None else ""
    if "://" not in url:
        raise ValueError(f"{scheme} has to be followed by ://" if scheme else "it has no ://")
    parsed: URL | None = None
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError("what stands before :// is no scheme") from None
    except ValueError:
        if url.count("@") < 2:
            raise ValueError(f"{scheme}: the port behind the host is not a number") from None
    if parsed is None or "@" in (parsed.host or ""):  # the rest of a password, which nothing would mask
        raise ValueError(f"{scheme}: an @ in a name or a password is written %40")
    return parsed


def name_resources(
    store: StorageManager,
    resources: Resources,
    *,
    decision_log: str | None = None,
    lease: float = 5.0,
    interval: float = 1.0,
    wait: float = 0.0,
) -> Coordinator:
    """Let other databases take part in the transactions of a store. The store must not have been used yet.

    :param decision_log: the URL of the database for the decisions: then the store is prepared too (two-phase form).
    ``None`` = the store keeps the decisions (last-resource form).
    :param lease: seconds without a heartbeat after which a process counts as dead.
    :param interval: seconds between two runs of recovery.
    :param wait: seconds to wait for a decision log that does not answer.
    :raises ConfigurationError: a name or a URL is not valid.
    :raises CapabilityError: the store, or one of the databases, cannot take part; nothing was written.
    :raises StorageError: the decision log cannot be opened.
    """
    from mercury.storage.sql.store import SqlStore
    from mercury.storage.xa.timing import Timing

    if not isinstance(store, SqlStore):
        raise CapabilityError(
            "the store memory: cannot take part in a two-phase commit with other databases (resources): use "
            "sqlite:///FILE or postgresql+psycopg://..."
        )
    if decision_log is not None and not store.capabilities.two_phase:
        raise CapabilityError(
            f"a store in {store.dialect} cannot be prepared and must keep the decisions itself: leave "
            "out decision_log, or use a PostgreSQL store"
        )
    timing = Timing(interval=interval, lease=lease)
    store.coordinator = coordinator = _coordinator(store, resources, decision_log, timing, wait)
    return coordinator


def coordinator_of_operator(store: SqlStore, decision_log: str | None) -> Coordinator:
    """A coordinator by which an operator sees the transactions of a store in use: the store does not use it, and no
    other databases take part in its transactions. Close it.

    :param decision_log: as for `name_resources`; not used if the store cannot be prepared, as then it has none.
    :raises StorageError: the store or the decision log does not answer.
    """
    from mercury.storage.xa.timing import Timing

    log = decision_log if store.capabilities.two_phase else None
    return _coordinator(store, {}, log, Timing(), 0.0)


def _coordinator(
    store: SqlStore, resources: Resources, decision_log: str | None, timing: Timing, wait: float
) -> Coordinator:
    from mercury.storage.xa.coordinator import Coordinator
    from mercury.storage.xa.names import checked_resource
    from mercury.storage.xa.resources import Resource

    found = {
        checked_resource(name): Resource(name, _engine(name, where), owned=isinstance(where, str))
        for name, where in resources.items()
    }
    for each in found.values():
        each.check_kind()
    decisions = open_sql_store(decision_log, wait=wait) if decision_log is not None else None
    if decisions is not None and decisions.id == store.id:
        decisions.close()
        raise ConfigurationError(
            "decision_log: this is the store itself, which keeps the decisions when decision_log is left out"
        )
    return Coordinator(store, found, lambda: uuid.uuid4().hex[:16], log=decisions, timing=timing)


def _engine(name: str, where: str | Engine) -> Engine:
    """An engine for a database that takes part in transactions."""
    from mercury.storage.sql.dialects import KINDS

    if not isinstance(where, str):
        return where
    try:
        backend = _parsed(where).get_backend_name()
    except ValueError as error:
        raise ConfigurationError(f"resources: the value of {name!r} is not the URL of a database: {error}") from None
    if backend not in {kind.name for kind in KINDS}:
        raise CapabilityError(f"resources: {name!r} is a database of kind {backend}: only PostgreSQL can be prepared")
    return open_engine(where)
