"""The databases of a trial: made on its own PostgreSQL, or pair of them, reached by links, broken and restored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from mercury.errors import ConfigurationError
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.postgres.pair import PostgresPair, url_of
from mercury.trial.faults import Fault
from mercury.trial.filling import Names, filled
from mercury.trial.link import Address, Link
from mercury.trial.scenario import EMBEDDED, Scenario

#: Undoes a fault, and returns the time at which what it was set on worked again, in seconds since the epoch.
Undo: TypeAlias = Callable[[], Awaitable[float]]
Log: TypeAlias = Callable[[str], None]


class Databases:
    """The databases of a scenario.

    :param folder: the trial's.
    """

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._server: EmbeddedPostgres | PostgresPair | None = None
        #: The sockets of the servers.
        self._sockets: list[str] = []

    def make(self) -> dict[str, str]:
        """Start the servers, and make the databases; returns their URLs by name. Blocks.

        :raises StorageError: a server does not start.
        """
        if self._scenario.embedded:
            folder = self._folder / "postgres"
            # With a standby there are two folders in this one.
            self._server = PostgresPair(folder) if self._scenario.standby else EmbeddedPostgres(folder)
            self._server.start()
            self._sockets = [_socket(server) for server in self._servers]
        urls = {}
        for name, url in self._scenario.databases.items():
            if url == EMBEDDED:
                self._primary.create_database(_database(name))
                url = self._server.url(_database(name)) if self._server is not None else url
            urls[name] = filled(url, Names(folder=str(self._folder), databases={}))
        return urls

    async def start_link(self, name: str) -> tuple[Link, str]:
        """Start the link to the servers; returns it, and the URL of the database through it.

        :param name: the link's: the one of the database, and ``-db``.
        """
        link, hosts = Link(name, lambda: None), []
        for number, socket in enumerate(self._sockets):
            folder = self._folder / f"{name}-{number}"
            folder.mkdir(mode=0o700)
            there: Address = socket
            await link.start(str(folder / Path(socket).name), lambda there=there: (there, None))  # type: ignore[misc]
            hosts.append(str(folder))
        database = _database(name.removesuffix("-db"))
        if self._scenario.standby:
            return link, url_of(database, hosts)
        return link, f"{self._primary.url(database).partition('?host=')[0]}?host={hosts[0]}"

    def kill(self) -> None:
        """End the servers."""
        if self._server is not None:
            self._server.kill()

    # --- faults ----------------------------------------------------------------------------------------------------

    async def set(self, fault: Fault, log: Log) -> Undo:
        """Set a fault on the servers; returns what undoes it.

        :raises ConfigurationError: the scenario has no such server.
        """
        server = self._server
        match fault, server:
            case ((Fault.DATABASE_STOP | Fault.DATABASE_KILL), EmbeddedPostgres() | PostgresPair()):
                return await self._restart(self._primary, fault is Fault.DATABASE_KILL, "the database", log)
            case ((Fault.DATABASE_FAILOVER | Fault.DATABASE_SWITCHOVER), PostgresPair()):
                return await self._fail_over(server, fault is Fault.DATABASE_FAILOVER, log)
            case Fault.STANDBY_KILL, PostgresPair():
                return await self._restart(server.standby, True, "the standby of the database", log)
            case _:
                needed = "standby database" if fault in STANDBY else "embedded database"
                raise ConfigurationError(f"{fault.value}: the scenario has no {needed}")

    async def _restart(self, server: EmbeddedPostgres, kills: bool, name: str, log: Log) -> Undo:
        log(f"SIGKILL to {name}" if kills else f"{name} stops")
        await asyncio.to_thread(server.kill if kills else server.stop)

        async def start() -> float:
            await asyncio.to_thread(server.start)
            if isinstance(self._server, PostgresPair):
                await asyncio.to_thread(self._server.wait_until_synchronous)
            log(f"{name} runs again")
            return time.time()

        return start

    async def _fail_over(self, pair: PostgresPair, kills: bool, log: Log) -> Undo:
        log("SIGKILL to the primary database" if kills else "the primary database stops")
        await asyncio.to_thread(pair.primary.kill if kills else pair.primary.stop)
        await asyncio.to_thread(pair.promote)
        promoted = time.time()
        log("the standby of the database is promoted")

        async def rebuild() -> float:
            await asyncio.to_thread(pair.rebuild)
            log("the former primary is a standby")
            return promoted

        return rebuild

    @property
    def _servers(self) -> tuple[EmbeddedPostgres, ...]:
        match self._server:
            case PostgresPair():
                return self._server.servers
            case EmbeddedPostgres():
                return (self._server,)
            case _:
                return ()

    @property
    def _primary(self) -> EmbeddedPostgres:
        assert self._server is not None, "the scenario has an embedded database"
        return self._server.primary if isinstance(self._server, PostgresPair) else self._server


#: The faults that need a standby.
STANDBY = frozenset({Fault.DATABASE_FAILOVER, Fault.DATABASE_SWITCHOVER, Fault.STANDBY_KILL})


def _database(name: str) -> str:
    return f"trial_{name}"


def _socket(server: EmbeddedPostgres) -> str:
    """The path of a server's socket."""
    path, _, folder = server.url().partition("?host=")
    port = path.split("@:")[1].split("/")[0]
    return f"{folder}/.s.PGSQL.{port}"
