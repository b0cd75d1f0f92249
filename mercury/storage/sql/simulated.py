"""A SQLite store for the simulation: in virtual time, without fsync, and with interruptions by the simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event, make_url, select

from mercury.storage.sql.schema import RMS_MESSAGE
from mercury.storage.sql.sqlite_dialect import Sqlite
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.upgrades import make_ready


class SimulatedStore(SqlStore):
    """A SQLite store without fsync. Only simulated processes crash, so data in the file system cache is never lost.

    :param clock: virtual seconds since the epoch.
    :param interrupt: called before each statement; an exception from it rolls the transaction back.
    """

    def __init__(self, file: Path, clock: Callable[[], float], interrupt: Callable[[], None]) -> None:
        super().__init__(make_url(f"sqlite:///{file}"), Sqlite(clock), database_clock=False, clock=clock)

        @event.listens_for(self.engine, "connect")
        def skip_flushing(connection: Any, _record: Any) -> None:
            connection.execute("pragma synchronous = off").close()

        make_ready(self.engine, str(file))

        @event.listens_for(self.engine, "before_cursor_execute")
        def before(*_statement: Any) -> None:
            interrupt()

    def message_ids(self) -> list[str]:
        """The MessageIDs of all outbound rows."""
        with self.reading() as connection:
            return list(connection.execute(select(RMS_MESSAGE.c.message_id)).scalars())
