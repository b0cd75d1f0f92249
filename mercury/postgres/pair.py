"""A primary and its synchronous standby, both embedded: a database that can fail over, and back."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import psycopg

from mercury.errors import StorageError
from mercury.postgres import binaries
from mercury.postgres.databases import CONNECT_TIMEOUT
from mercury.postgres.embedded import START_TIMEOUT, EmbeddedPostgres
from mercury.postgres.folder import PORT, ServerFolder

#: Of both servers, beside those of every embedded one.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {"max_wal_senders": "4", "wal_level": "replica", "hot_standby": "on", "wal_receiver_status_interval": "1"}
)


class PostgresPair:
    """Two servers: `primary` takes writes, and `standby` has what is committed there before the commit returns.

    :param folder: for both; a short path, because their sockets are in it.
    """

    def __init__(self, folder: Path) -> None:
        #: Both, in the order of the URL; which of them is the primary changes.
        self.servers = (EmbeddedPostgres(folder / "a", SETTINGS), EmbeddedPostgres(folder / "b", SETTINGS))
        self._folders = (folder / "a", folder / "b")
        self._primary = 0

    @property
    def primary(self) -> EmbeddedPostgres:
        """The server that takes writes, or was the last one to do so."""
        return self.servers[self._primary]

    @property
    def standby(self) -> EmbeddedPostgres:
        """The other one. After `promote` it is the former primary, which is down, until `rebuild`."""
        return self.servers[1 - self._primary]

    def start(self) -> PostgresPair:
        """Start both; returns when the standby is synchronous.

        :raises ConfigurationError: the programs are not installed, or the folder cannot be used.
        :raises StorageError: a server does not start.
        """
        self.primary.start()
        self.rebuild()
        return self

    def promote(self) -> None:
        """Make the standby the primary; returns when it takes writes. The former primary must be down: nothing else
        keeps it from taking writes too.

        Until `rebuild` commits wait for no other server.

        :raises StorageError: it cannot be promoted.
        """
        _run(self.standby, "select pg_promote(true)")
        self._primary = 1 - self._primary

    def rebuild(self) -> None:
        """Make the server that is down a standby of the primary, from a copy; returns when it is synchronous.

        :raises StorageError: the primary cannot be copied, or the standby does not connect to it.
        """
        place = 1 - self._primary
        self._copy_to(self._folders[place])
        self.servers[place].start()
        _run(self.primary, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        self.wait_until_synchronous()

    def stop_replication(self) -> None:
        """Let commits wait for the standby no more, and give it none of the following ones, until it is rebuilt."""
        _run(self.primary, "alter system set synchronous_standby_names = ''", "select pg_reload_conf()")
        _run(self.standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()")
        self._wait_for_standbys([], "the standby does not leave the primary")

    def wait_until_synchronous(self) -> None:
        """Return when commits wait for the standby.

        :raises StorageError: the standby does not connect to the primary.
        """
        self._wait_for_standbys(["sync"], "the standby does not become synchronous")

    def _wait_for_standbys(self, states: list[str], otherwise: str) -> None:
        """Return when the primary has standbys in these states."""
        until = time.monotonic() + START_TIMEOUT
        with _connected(self.primary) as connection:
            while [row[0] for row in connection.execute("select sync_state from pg_stat_replication")] != states:
                if time.monotonic() > until:
                    raise StorageError(otherwise)
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill both, as a power failure would."""
        for server in self.servers:
            server.kill()

    def url(self, database: str) -> str:
        """The URL of a database on the server that takes writes, whichever that is."""
        return url_of(database, [_host(server) for server in self.servers])

    def _copy_to(self, path: Path) -> None:
        folder = ServerFolder(path)
        user = folder.server_user()
        folder.create(user)
        shutil.rmtree(folder.data, ignore_errors=True)
        programs = binaries.runnable(binaries.installed(), user, path / "binaries")
        command = [str(programs / "pg_basebackup"), "-h", _host(self.primary), "-p", str(PORT), "-U", "postgres"]
        # Not flushed: a copy that a crash of the machine damages is made again.
        command += ["-D", str(folder.data), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=path, **user)  # noqa: S603
        if done.returncode:
            raise StorageError(f"the primary cannot be copied: {' '.join(done.stderr.split())}")


def url_of(database: str, hosts: list[str]) -> str:
    """The URL of a database on the one of several servers that takes writes.

    :param hosts: the folders of their sockets.
    """
    ports = ",".join([str(PORT)] * len(hosts))
    return (
        f"postgresql+psycopg://postgres@/{database}?host={','.join(hosts)}&port={ports}"
        "&target_session_attrs=read-write&connect_timeout=3"
    )


def _host(server: EmbeddedPostgres) -> str:
    return server.url().rpartition("host=")[2]


def _run(server: EmbeddedPostgres, *statements: str) -> None:
    with _connected(server) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _connected(server: EmbeddedPostgres) -> psycopg.Connection[tuple[object, ...]]:
    """
    :raises StorageError: it does not answer.
    """
    try:
        return psycopg.connect(
            dbname="postgres",
            user="postgres",
            host=_host(server),
            port=PORT,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
        )
    except psycopg.OperationalError as error:
        raise StorageError(f"the embedded PostgreSQL in {server.folder} does not answer: {error}") from error
