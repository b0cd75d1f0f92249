"""Stores in PostgreSQL with the application's tables, restored from what `pg_dump` saved (docs/deploy.md)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from mercury.engine.source.apply_effects import FORGOTTEN, LOST_BY_DESTINATION
from mercury.postgres import binaries
from tests.acceptance.processes import eventually
from tests.reconcile.test_restored_stores import CLIENT, SERVER, TABLES, Shop, backed_up
from tests.stores import urls_of


class PostgresShop(Shop):
    """Each side's table and store in one database of PostgreSQL."""

    new_url: Callable[[], str]

    def __post_init__(self) -> None:
        self.urls = {side: self.new_url() for side in TABLES}
        for side, table in TABLES.items():
            self._execute(side, table.replace("integer primary key autoincrement", "serial primary key"))

    def url(self, side: str) -> str:
        return self.urls[side]

    def _execute(self, side: str, statement: str) -> None:
        engine = sa.create_engine(self.url(side), poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text(statement))

    def _run(self, program: str, side: str, *arguments: str) -> None:
        url = sa.make_url(self.url(side))
        command = [str(binaries.installed() / program), "-d", url.database or "", "-U", url.username or "", *arguments]
        command += ["-h", str(url.query["host"]), *(["-p", str(url.port)] if url.port else [])]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def copy(self) -> None:
        for side in TABLES:
            self._run("pg_dump", side, "--format=custom", f"--file={self.folder}/{side}.dump")

    def restore(self, *sides: str) -> None:
        for side in sides:
            self._execute(side, "drop schema public cascade")
            self._execute(side, "create schema public")
            self._run("pg_restore", side, "--no-owner", "--schema=public", f"{self.folder}/{side}.dump")

    def ids(self, side: str) -> list[int]:
        query = {CLIENT: "select id from orders order by id", SERVER: "select id from received order by arrival"}
        engine = sa.create_engine(self.url(side), poolclass=sa.NullPool)
        with engine.connect() as connection:
            return list(connection.scalars(sa.text(query[side])))


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> PostgresShop:
    """Orders 1 to 3 were handled before the back-up, 4 to 6 afterwards."""
    PostgresShop.new_url = staticmethod(urls_of("postgres", request, tmp_path))
    return backed_up(PostgresShop(tmp_path))


def test_both_sides_restored_to_one_point_go_on_from_there_and_the_client_alone_sends_nothing(
    shop: PostgresShop,
) -> None:
    shop.restore(CLIENT)
    with shop.running() as running:
        running.place(7, 8, 9)
        eventually(lambda: running.orders.last_error == FORGOTTEN, "it says what has happened")
        assert running.unacknowledged() == 3
    assert shop.ids(SERVER) == [1, 2, 3, 4, 5, 6]
    shop.restore(CLIENT, SERVER)
    with shop.running() as running:
        running.place(4, 7)
        running.settle()
    assert shop.ids(CLIENT) == shop.ids(SERVER) == [1, 2, 3, 4, 7]


def test_server_restored_alone_is_noticed_and_a_successor_brings_what_it_has_forgotten(shop: PostgresShop) -> None:
    shop.restore(SERVER)
    with shop.running() as running:
        running.place(7)
        eventually(lambda: running.orders.last_error == LOST_BY_DESTINATION, "the client says what has happened")
        eventually(lambda: running.unacknowledged() == 0, "7 is acknowledged")
    assert shop.ids(SERVER) == [1, 2, 3]
    shop.restart_the_sequence()
    with shop.running() as running:
        running.place(4, 5, 6, 7)
        eventually(lambda: shop.ids(SERVER) == [1, 2, 3, 4, 5, 6, 7], "every order is handled, once")
