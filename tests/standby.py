"""A PostgreSQL with a synchronous standby that can be promoted, from the embedded programs."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from mercury.postgres.embedded import EmbeddedPostgres
from mercury.postgres.pair import PostgresPair


class DatabasePair:
    """A primary and its standby, with the URL that finds the one that takes writes.

    :param folder: for both; a short path.
    """

    def __init__(self, folder: Path) -> None:
        self._pair = PostgresPair(folder)
        #: The server that takes writes at first.
        self.primary: EmbeddedPostgres = self._pair.primary

    def __enter__(self) -> Self:
        self._pair.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pair.kill()

    def url(self, database: str) -> str:
        """The URL of a database on the server that takes writes."""
        return self._pair.url(database)

    def fail_over(self) -> None:
        """Kill the primary, as a power failure would, and promote the standby. The old primary is fenced: it stays
        down."""
        self.primary.kill()
        self._pair.promote()

    def stop_replication(self) -> None:
        """Let commits wait for the standby no more, and give it none of the following ones."""
        self._pair.stop_replication()
