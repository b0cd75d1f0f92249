"""Notices that the database of a store has taken another history: a promoted standby, or a restored back-up."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from mercury.storage.sql.dialect import Dialect

log = logging.getLogger("mercury.store")


class History:
    """The history of the database behind an engine, as its new connections see it. Thread-safe.

    Another history needs new connections, so each is asked before it is used.

    :param clock: seconds since the epoch.
    """

    def __init__(self, engine: Engine, dialect: Dialect, clock: Callable[[], float]) -> None:
        self._dialect = dialect
        self._clock = clock
        self._mutex = threading.Lock()
        self._known: str | None = None
        #: As `StorageManager.history_since`.
        self.since = -math.inf
        event.listen(engine, "connect", self._connected)

    def _connected(self, driver: object, _record: object) -> None:
        found = self._dialect.history(driver)
        if found is None:
            return
        with self._mutex:
            another = self._known not in (None, found)
            self._known = found
            if another:
                self.since = self._clock()
        if another:
            log.warning(
                "the database has failed over or was restored (%s): each sequence asks its destination what it has "
                "before it sends",
                found,
            )
