"""Makes the console of a store, if it can be."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mercury.console.settings import ConsoleSettings
from mercury.engine.lateness import WatchSettings
from mercury.errors import ConfigurationError
from mercury.storage.api import StorageManager

if TYPE_CHECKING:
    from mercury.console.console import Console
    from mercury.console.users import ConsoleAccess
    from mercury.storage.xa.coordinator import Coordinator


def console_of(
    store: StorageManager,
    name: str,
    settings: ConsoleSettings,
    *,
    access: ConsoleAccess | None = None,
    coordinator: Callable[[], Coordinator | None] = lambda: None,
    decision_log: str | None = None,
    watch: WatchSettings | None = None,
    clock: Callable[[], float] = time.time,
) -> Console:
    """The console of a store; parameters as for `Console`.

    :raises ConfigurationError: no user could log in; the store is not in a database; or the extra is not installed.
    """
    try:
        from mercury.console.console import Console
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("jinja2", "markupsafe"):
            raise
        raise ConfigurationError(f"{error.name} is missing: pip install 'mercury-rm[console]'") from error
    from mercury.storage.sql.store import SqlStore

    if not isinstance(store, SqlStore):
        raise ConfigurationError("the console reads a store in a database (SQLite or PostgreSQL), and this is none")
    return Console(
        store,
        name,
        settings,
        access=access,
        coordinator=coordinator,
        decision_log=decision_log,
        watch=watch,
        clock=clock,
    )
