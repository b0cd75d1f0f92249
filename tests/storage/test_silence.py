"""The database's machine is cut off without a word: each connection to it counts as lost after half a minute."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg
import pytest
from sqlalchemy import Connection, make_url

from mercury.storage.opening import open_engine, open_sql_store
from mercury.storage.sql.notify import Notifier
from tests.storage.round_trips import relay

LIMITS = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}

#: The kinds of connections, each as a block that has one.
Connects = Callable[[str], AbstractContextManager[psycopg.Connection]]


@contextmanager
def of_store(url: str) -> Iterator[psycopg.Connection]:
    with closing(open_sql_store(url)) as store, store.engine.connect() as connection:
        yield driver_of(connection)


@contextmanager
def of_resource(url: str) -> Iterator[psycopg.Connection]:
    engine = open_engine(url)
    with engine.connect() as connection:
        yield driver_of(connection)
    engine.dispose()


@contextmanager
def of_notifications(url: str) -> Iterator[psycopg.Connection]:
    with Notifier(make_url(url), lambda _: None)._connect() as connection:
        yield connection


def driver_of(connection: Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


@pytest.fixture(params=[of_store, of_resource, of_notifications])
def connects(request: pytest.FixtureRequest) -> Connects:
    made: Connects = request.param
    return made


@pytest.fixture
def port(postgres_url: str) -> Iterator[str]:
    """The database at a port: Unix sockets have no such options."""
    with relay(postgres_url) as between:
        yield between.url


def test_the_operating_system_notices_that_nobody_answers(port: str, connects: Connects) -> None:
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
    with connects(port) as connection, socket.socket(fileno=os.dup(connection.fileno())) as found:
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert [found.getsockopt(socket.IPPROTO_TCP, name) for name in names] == [10, 5, 3, 30_000]


def test_limits_in_the_url_stay(postgres_url: str, connects: Connects) -> None:
    given = {"keepalives_idle": "99", "tcp_user_timeout": "77000"}
    url = make_url(postgres_url).update_query_dict(given).render_as_string(hide_password=False)
    with connects(url) as connection:
        found = connection.info.get_parameters()
        assert {name: found[name] for name in LIMITS} == LIMITS | given
