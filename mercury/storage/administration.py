"""The schema and the id of a store's database, for administrators; also of a database that is not ready for use."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from mercury.errors import ConfigurationError, StorageError
from mercury.masking import masked
from mercury.storage.opening import MEMORY, open_sql_store, read_url
from mercury.storage.sql import upgrades, versions
from mercury.storage.sql.versions import SchemaStatus

if TYPE_CHECKING:
    from mercury.storage.sql.store import SqlStore

#: Limit in seconds on a wait for a lock, and on an idle transaction of this module.
LOCK_TIMEOUT, IDLE_TIMEOUT = 60.0, 60.0


class Database:
    """The database of a SQL store. Each method connects; the constructor does not. A context manager.

    :param url: the store's URL.
    :param must_exist: raise instead of creating a SQLite file that does not exist.
    :raises ConfigurationError: the URL names no SQL store.
    :raises StorageError: the file does not exist.
    """

    def __init__(self, url: str, *, must_exist: bool = True) -> None:
        if url == MEMORY:
            raise ConfigurationError("memory: ends with its process: name a store in a database")
        parsed, dialect = read_url(url)
        #: The URL without passwords, for messages.
        self.name = masked(parsed.render_as_string())
        if must_exist and not dialect.exists(parsed):
            raise StorageError(f"there is no store {self.name}; --store or the setting store can name another one")
        self._url = url
        self._engine = dialect.engine(parsed, LOCK_TIMEOUT, IDLE_TIMEOUT)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()

    def status(self) -> SchemaStatus:
        """The version of the schema that the database has.

        :raises StorageError: the database does not answer.
        """
        try:
            return versions.status(self._engine)
        except StorageError as error:
            raise StorageError(f"{self.name}: {error}") from error

    @property
    def id(self) -> str | None:
        """The store's unique id; ``None`` = the database has no schema that this Mercury can read.

        :raises StorageError: the database does not answer.
        """
        found = self.status()
        return None if found.version is None or found.too_new else versions.identifier(self._engine)

    def upgrade(self) -> SchemaStatus:
        """Bring the schema up to date, or create it in an empty database. Returns the status before the upgrade.

        A newer schema that this Mercury can use stays as it is.

        :raises ConfigurationError: a newer Mercury has made the schema, and this one cannot use it.
        :raises StorageError: the database does not answer, or a transaction uses the tables for too long.
        """
        before = self.status()
        try:
            upgrades.upgrade(self._engine)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.name}: {error}") from error
        except StorageError as error:
            raise StorageError(f"{self.name}: {error}") from error
        return before

    def renew_id(self) -> str:
        """Give the store a new unique id. Returns it.

        :raises StorageError: the database has no schema or one that this Mercury cannot use, or does not answer.
        """
        if not self.status().usable:
            raise StorageError(f"{self.name}: its schema is not this Mercury's: see 'mercury db status'")
        return versions.renew_id(self._engine)


def open_used_store(url: str) -> SqlStore:
    """Open a store that a process has used before. An empty database stays empty.

    :raises ConfigurationError: the URL names no SQL store, or its schema is not this Mercury's.
    :raises StorageError: the database does not answer, or was never used as a store.
    """
    with Database(url) as database:
        if database.status().version is None:
            raise StorageError(f"{database.name} has no tables of Mercury's: no process has used it as its store")
    return open_sql_store(url)
