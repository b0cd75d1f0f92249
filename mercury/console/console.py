"""`Console`: the pages of one store, put together."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.types import ASGIApp

from mercury.console.bulk_runner import BulkRunner
from mercury.console.doubt_reader import DoubtReader
from mercury.console.pages import (
    audit,
    bulk,
    doubt,
    letter_actions,
    letters,
    message_actions,
    messages,
    nodes,
    overview,
    reconcile,
    sequence_actions,
    sequences,
    services,
)
from mercury.console.reports import Reports
from mercury.console.router import router_of
from mercury.console.settings import ConsoleSettings
from mercury.console.site import Site
from mercury.console.users import ConsoleAccess
from mercury.console.visits import link
from mercury.engine.lateness import WatchSettings
from mercury.operations.operator import Operations
from mercury.operations.transactions import in_doubt
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.coordinator import Coordinator


class Console:
    """The web console of a store in a database. No process needs to run on the store.

    :param name: the store's name for people.
    :param access: the application's own check of who may use it; ``None`` = by the tokens of the settings.
    :param coordinator: returns the coordinator of two-phase commits; ``None`` = no databases are named for them.
    :param decision_log: the URL of the database with their decisions, if no databases are named.
    :param watch: the ages from which on a waiting message is a problem.
    :param clock: seconds since the epoch.
    :param secret: returns a random text that cannot be guessed, a new one for each call.
    :param patience: seconds that an answer waits for the end of an action on many dead letters.
    :raises ConfigurationError: there is neither a token nor a check.
    """

    def __init__(
        self,
        store: SqlStore,
        name: str,
        settings: ConsoleSettings,
        *,
        access: ConsoleAccess | None = None,
        coordinator: Callable[[], Coordinator | None] = lambda: None,
        decision_log: str | None = None,
        watch: WatchSettings | None = None,
        clock: Callable[[], float] = time.time,
        secret: Callable[[], str] = secrets.token_urlsafe,
        patience: float = letter_actions.PATIENCE,
    ) -> None:
        operations = Operations(store, clock, watch)
        zone: datetime.tzinfo = datetime.UTC if settings.time_zone == "UTC" else ZoneInfo(settings.time_zone)
        self._clock = clock
        self._secret = secret
        self._site = site = Site(name, settings, access, clock, secret)
        self._coordinators = coordinators = doubt.Coordinators(store, coordinator, decision_log)
        reader = DoubtReader(lambda: in_doubt(coordinators.find(), clock()))
        overview.add_pages(site, operations, reader, zone)
        sequences.add_pages(site, operations)
        messages.add_pages(site, operations, zone)
        letters.add_pages(site, operations)
        services.add_pages(site, operations, zone)
        doubt.add_pages(site, coordinators, clock)
        sequence_actions.add_actions(site, operations)
        message_actions.add_actions(site, operations)
        self._bulks = BulkRunner(operations.bulk_actions)
        letter_actions.add_actions(site, operations, self._bulks, patience)
        bulk.add_pages(site, operations, self._bulks)
        nodes.add_pages(site, operations)
        folder = Path(settings.reports) if settings.reports is not None else None
        self._reports = Reports(folder)
        reconcile.add_pages(site, operations, self._reports)
        audit.add_pages(site, operations, zone)

    def application(self) -> ASGIApp:
        """The console as an ASGI application, at the root of its server."""
        return self._site.application()

    def router(self, path: str) -> APIRouter:
        """A router with the console below a path."""
        return router_of(self.application(), path)

    def login_path(self, name: str) -> str:
        """A relative address that logs an operator with a name in, once, within ten minutes."""
        ticket = self._secret()
        self._site.gate.logins.add_ticket(ticket, name, self._clock())
        return link("login", ticket=ticket)

    def close(self) -> None:
        """End a comparison that was begun here and is running, and stop bulk actions, which can be let go on later.
        The store stays open."""
        self._bulks.close()
        self._reports.stop()
        self._coordinators.close()
