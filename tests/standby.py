"""A PostgreSQL with a synchronous standby that can be promoted, from the embedded programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

import psycopg

from mercury.postgres import binaries
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.postgres.folder import PORT, ServerFolder
from tests.acceptance.processes import eventually

#: Of both servers.
SETTINGS = {"max_wal_senders": "4", "wal_level": "replica", "hot_standby": "on", "wal_receiver_status_interval": "1"}


class DatabasePair:
    """A primary and its standby, with the URL that finds the one that takes writes.

    :param folder: for both; a short path.
    """

    def __init__(self, folder: Path) -> None:
        self.primary = EmbeddedPostgres(folder / "a", SETTINGS)
        self._folder = folder / "b"
        self.standby = EmbeddedPostgres(self._folder, SETTINGS)

    def __enter__(self) -> Self:
        self.primary.start()
        self._copy()
        self.standby.start()
        self._run(self.primary, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        eventually(self._is_synchronous, "the standby is synchronous")
        return self

    def __exit__(self, *_: object) -> None:
        self.standby.kill()
        self.primary.kill()

    def url(self, database: str) -> str:
        """The URL of a database on the server that takes writes."""
        hosts = ",".join(server.url().rpartition("host=")[2] for server in (self.primary, self.standby))
        return (
            f"postgresql+psycopg://postgres@/{database}?host={hosts}&port={PORT},{PORT}"
            "&target_session_attrs=read-write&connect_timeout=3"
        )

    def fail_over(self) -> None:
        """Kill the primary, as a power failure would, and promote the standby. The old primary is fenced: it stays
        down."""
        self.primary.kill()
        self._run(self.standby, "select pg_promote(true)")

    def _copy(self) -> None:
        folder = ServerFolder(self._folder)
        user = folder.server_user()
        folder.create(user)
        programs = binaries.runnable(binaries.installed(), user, self._folder / "binaries")
        host = self.primary.url().rpartition("host=")[2]
        command = [str(programs / "pg_basebackup"), "-h", host, "-p", str(PORT), "-U", "postgres"]
        command += ["-D", str(folder.data), "-R", "-X", "stream", "-c", "fast"]
        done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=self._folder, **user)
        assert done.returncode == 0, done.stderr

    def _is_synchronous(self) -> bool:
        with _connected(self.primary) as connection:
            rows = connection.execute("select sync_state from pg_stat_replication").fetchall()
        return rows == [("sync",)]

    def _run(self, server: EmbeddedPostgres, *statements: str) -> None:
        with _connected(server) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def _connected(server: EmbeddedPostgres) -> psycopg.Connection[tuple[object, ...]]:
    host = server.url().rpartition("host=")[2]
    return psycopg.connect(dbname="postgres", user="postgres", host=host, port=PORT, autocommit=True)
