"""The setup that the driver passes to a program, and the objects that both programs make from it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import FastAPI
from sqlalchemy import Connection, Engine, Table, create_engine

from mercury import (
    DestinationPolicy,
    Mercury,
    RetransmissionPolicy,
    Settings,
    SourcePolicy,
    Transaction,
)
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.settings import EngineSettings
from mercury.service.serving import server_for
from mercury.settings import HttpSettings, XaSettings
from mercury.statemachine.retransmission import Backoff
from tests.chaos import hook
from tests.chaos.kinds import Form, Mode, Moment, Way
from tests.chaos.points import POINTS, point

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HOST = "127.0.0.1"
SERVICE = "orders"
#: The line that a program prints when it has started.
STARTED = "serving\n"
#: The name of the application's database, if it is not the store's.
RESOURCE = "app"

#: The lease of claims in seconds; short, so that another process soon takes over from a stopped one.
LEASE = 0.6
BASE, CAP = 0.1, 0.4
#: The idle timeout of sequences, in seconds, in a soak, where orders do not end but pause.
IDLE_TIMEOUT = 8.0
#: How often the end of a sequence is posted. By default it is given up after 12 attempts; while one of two servers is
#: stopped, half of the attempts are lost, and an end that was given up would leave the sequence open at the server.
END_ATTEMPTS = 1000
#: The timeouts of an exchange, in seconds; the short one is used if the other process may be stopped for long.
EXCHANGE, SHORT_EXCHANGE = 15.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parameters of one program in an experiment."""

    form: Form
    mode: Mode
    way: Way
    #: The URLs of the store and of the application's database; the same one with `Form.SAME_DATABASE`.
    store: str
    app: str
    #: The URL of the decision log, with `Form.TWO_PHASE`; otherwise empty.
    log: str = ""
    #: The port of this program, and the port of the server.
    port: int
    server_port: int
    #: The URL by which peers reach this program through a proxy; empty = without one.
    reached_at: str = ""
    exchange: float = EXCHANGE
    #: The lease of claims in seconds; other timeouts grow with it.
    lease: float = LEASE
    #: The window of a sequence, in messages.
    window: int = 6
    #: With a number above 0, orders come under so many keys as long as the program runs; 0 = all orders exist at the
    #: start.
    keys: int = 0
    #: Where to stop: the point's name, the moment, and the number of the visit.
    stop: tuple[str, Moment, int] | None = None
    #: Count the visits to all points instead, and print them at the end.
    count: bool = False

    def dump(self) -> str:
        """The setup as text for a command line."""
        return json.dumps(dataclasses.asdict(self), default=lambda member: member.value)

    @classmethod
    def load(cls, text: str) -> Setup:
        given = json.loads(text)
        given |= {"form": Form(given["form"]), "mode": Mode(given["mode"]), "way": Way(given["way"])}
        if given["stop"] is not None:
            name, moment, visit = given["stop"]
            given["stop"] = (name, Moment(moment), visit)
        return cls(**given)

    @property
    def address(self) -> str | None:
        """The URL by which peers reach this program; ``None`` = a client that does not listen."""
        if self.reached_at:
            return self.reached_at
        listens = self.port == self.server_port or self.way is not Way.FETCHED
        return f"http://{HOST}:{self.port}" if listens else None


class Place:
    """A program's Mercury and its application's database."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr, format="%(relativeCreated)6d %(levelname)s %(name)s: %(message)s"
        )
        self._visits = hook.count(POINTS) if setup.count else None
        if setup.stop is not None:
            name, moment, visit = setup.stop
            hook.stop_at(point(name, setup.form), moment, visit)
        self._engine: Engine | None = create_engine(setup.app) if setup.form.separate else None
        self.mercury = Mercury(
            setup.store,
            resources={RESOURCE: setup.app} if setup.form.xa else None,
            decision_log=setup.log or None,
            address=setup.address,
            allow=[f"http://{HOST}:*"],
            settings=_settings(setup),
        )

    @contextlib.contextmanager
    def connection(self, tx: Transaction | None) -> Iterator[Connection]:
        """A connection to the application's database: in Mercury's transaction, or with a separate commit."""
        if self._engine is not None:
            with self._engine.begin() as connection:
                yield connection
        elif tx is not None:
            yield tx.connection(self._resource)

    def insert(self, tx: Transaction, table: Table, row: DataclassInstance) -> None:
        """Insert a row into the application's database: as a statement that may wait, or with a separate commit."""
        statement = table.insert().values(dataclasses.asdict(row))
        if self._engine is not None:
            with self.connection(tx) as connection:
                connection.execute(statement)
        else:
            tx.execute_later(str(statement), dataclasses.asdict(row), resource=self._resource)

    @property
    def _resource(self) -> str | None:
        """The application's database in Mercury's transactions; ``None`` = the store's own."""
        return RESOURCE if self.setup.form.xa else None

    def report(self) -> None:
        """Print the counted visits."""
        if self._visits is not None:
            hook.say(f"visits {json.dumps(self._visits)}")


def serve(app: FastAPI, port: int, on_started: Callable[[], None]) -> None:
    """Serve until SIGTERM, at a port that the driver has reserved; several processes may share it."""

    def started() -> None:
        hook.say(STARTED.rstrip())
        on_started()

    server = server_for(app, HttpSettings(shutdown_deadline=3.0), started)

    def end(*_: object) -> None:
        server.should_exit = True

    # After an orderly stop uvicorn raises the signal again; without this handler the process would die of it.
    signal.signal(signal.SIGTERM, end)
    with _listening(port) as listening:
        server.run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((HOST, port))
    return bound


def _settings(setup: Setup) -> Settings:
    scale = setup.lease / LEASE
    base, cap = BASE * scale, CAP * scale
    destination = DestinationPolicy(
        acknowledgement_interval=0.05, acknowledge_every=4, redelivery=Backoff(base=base, cap=cap)
    )
    source = SourcePolicy(
        retransmission=RetransmissionPolicy(base=base, cap=cap),
        window=setup.window,
        offer=setup.way is not Way.CREATED,
        idle_timeout=IDLE_TIMEOUT if setup.keys else SourcePolicy().idle_timeout,
        end_attempts=END_ATTEMPTS,
    )
    return Settings(
        store="memory:",
        engine=EngineSettings(lease=setup.lease, invoke_batch=4, number_batch=setup.window),
        runtime=RuntimeSettings(senders=8 if setup.keys else 4, invokers=2, poll=0.2 * scale),
        http=HttpSettings(timeout=setup.exchange, back_channel_wait=0.3, shutdown_deadline=3.0),
        source=source,
        destination=destination,
        xa=XaSettings(lease=setup.lease, interval=0.2 * scale),
    )
