"""A PostgreSQL restored from a base back-up and its archived WAL, to a point in time (docs/deploy.md)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from mercury.postgres import binaries
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.postgres.folder import PORT, ServerFolder
from tests.acceptance.processes import eventually
from tests.postgres import postgres_folder
from tests.reconcile.test_restored_postgres import PostgresShop
from tests.reconcile.test_restored_stores import CLIENT, SERVER


def archiving(folder: Path) -> EmbeddedPostgres:
    """A server that copies each finished file of its WAL to the folder ``wal`` beside it."""
    wal = folder.parent / "wal"
    settings = {"archive_mode": "on", "archive_command": f"cp %p {wal}/%f", "wal_level": "replica"}
    return EmbeddedPostgres(folder, settings | {"max_wal_senders": "4"})


def run(folder: Path, program: str, *arguments: str) -> None:
    user = ServerFolder(folder).server_user()
    found = binaries.runnable(binaries.installed(), user, folder / "binaries") / program
    done = subprocess.run([str(found), *arguments], capture_output=True, text=True, cwd=folder, check=False, **user)
    assert done.returncode == 0, done.stderr


class Site:
    """A server with both sides' databases, its archive, and a base back-up of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        wal = folder / "wal"
        wal.mkdir()
        wal.chmod(0o777)  # the server's user writes to it, if this one is root
        self.server = archiving(folder / "a").start()
        names = iter((CLIENT, SERVER))
        PostgresShop.new_url = staticmethod(lambda: self.server.create_database(next(names)))
        self.shop = PostgresShop(folder)

    def back_up(self) -> None:
        host = self.server.url().rpartition("host=")[2]
        target = self.folder / "a" / "base"
        arguments = ("-h", host, "-p", str(PORT), "-U", "postgres", "-D", str(target), "-X", "none", "-c", "fast")
        run(self.folder / "a", "pg_basebackup", *arguments, "--no-sync")

    def now(self) -> str:
        """The time of the server; the WAL up to it is archived."""
        engine = sa.create_engine(self.server.url(), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            at = str(connection.scalar(sa.text("select clock_timestamp()")))
            connection.execute(sa.text("create table if not exists later (at timestamptz default clock_timestamp())"))
            last = connection.scalar(sa.text("select pg_walfile_name(pg_switch_wal())"))
            archived = sa.text("select last_archived_wal from pg_stat_archiver")
            eventually(lambda: str(connection.scalar(archived) or "") >= str(last), "the WAL is archived")
        return at

    def restore(self, at: str) -> None:
        """Put a server in the place of the one that was lost, as it was at a time; it has both databases."""
        self.server.kill()
        other = ServerFolder(self.folder / "b")
        user = other.server_user()
        other.create(user)
        shutil.move(str(self.folder / "a" / "base"), other.data)
        (other.data / "recovery.signal").touch()
        recovery = {
            "restore_command": f"cp {self.folder}/wal/%f %p",
            "recovery_target_time": at,
            "recovery_target_action": "promote",
            "archive_mode": "off",
        }
        self.server = EmbeddedPostgres(self.folder / "b", recovery).start()
        for side in (CLIENT, SERVER):
            self.shop.urls[side] = self.server.url(side)
        engine = sa.create_engine(self.server.url(), poolclass=sa.NullPool)
        with engine.connect() as connection:
            query = sa.text("select pg_is_in_recovery()")
            eventually(lambda: connection.scalar(query) is False, "it takes writes")


@pytest.fixture
def site() -> Iterator[Site]:
    with postgres_folder() as folder:
        folder.chmod(0o755)
        made = Site(folder)
        try:
            yield made
        finally:
            made.server.stop()


def test_a_base_backup_with_wal_brings_both_sides_to_one_point_in_time_and_they_go_on(site: Site) -> None:
    """Orders 1 and 2 are in the base back-up, 3 and 4 in its WAL before the time, 5 and 6 after it."""
    with site.shop.running() as running:
        running.place(1, 2)
        running.settle()
        site.back_up()
        running.place(3, 4)
        running.settle()
    at = site.now()  # the processes have ended: no claim of theirs has to expire after the restore
    with site.shop.running() as running:
        running.place(5, 6)
        running.settle()
    site.restore(at)
    assert site.shop.ids(CLIENT) == site.shop.ids(SERVER) == [1, 2, 3, 4]
    with site.shop.running() as running:
        running.place(5, 7)
        running.settle()
    assert site.shop.ids(CLIENT) == site.shop.ids(SERVER) == [1, 2, 3, 4, 5, 7]
