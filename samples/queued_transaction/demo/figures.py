"""The progress of a run, read from the applications' tables, from both processes, and from the network."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, bindparam, create_engine, distinct, func, make_url, select, text

from samples.queued_transaction.demo.databases import Pair, Urls
from samples.queued_transaction.demo.network import Network
from samples.queued_transaction.demo.options import Options
from samples.queued_transaction.demo.processes import Party
from samples.queued_transaction.tables import CONFIRMATIONS, ORDERS, RECEIVED_ORDERS

IN_DOUBT = text("select count(*) from pg_prepared_xacts where database in :names").bindparams(
    bindparam("names", expanding=True)
)
#: The timeout of a query of a process's status, in seconds.
HTTP_TIMEOUT = 2.0


@dataclass
class Figures:
    """The figures that are shown during a run."""

    options: Options
    network: Network
    sent: int = 0
    #: Sent orders that are in the server's table; repeated ones count once.
    delivered: int = 0
    confirmations: int = 0
    #: Messages that the server has acknowledged.
    acknowledged: int = 0
    in_flight: int = 0
    #: Messages that wait for an application.
    waiting: int = 0
    #: Prepared transactions that are not finished.
    in_doubt: int = 0
    kills: int = 0
    #: The kills: time, in seconds since the epoch, and process.
    killed: list[tuple[float, str]] = field(default_factory=list)
    #: The number of kills between two commits.
    between_commits: int = 0
    #: The present step, in words.
    doing: str = ""
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.begun

    @property
    def progress(self) -> tuple[int, ...]:
        """Figures that change while the run makes progress."""
        return (self.sent, self.delivered, self.confirmations, self.acknowledged, self.kills, self.in_doubt)


class Observer:
    """Updates the figures."""

    def __init__(self, figures: Figures, pair: Pair, client: Party, server: Party) -> None:
        self.figures = figures
        self._pair = pair
        self._client, self._server = client, server
        self._engines = [create_engine(urls.application, isolation_level="AUTOCOMMIT") for urls in _sides(pair)]
        #: Acknowledged numbers by sequence identifier; kept here because a store in memory loses them at a kill.
        self._acknowledged: dict[str, int] = {}

    async def update(self) -> None:
        """Read all figures once."""
        await asyncio.to_thread(self._read_databases)
        client, server = await asyncio.gather(*(asyncio.to_thread(_sequences, each) for each in self._parties))
        sources = [each for each in client if each["side"] == "source" and each["identifier"]]
        for each in sources:
            self._acknowledged[each["identifier"]] = _count(each["ranges"])
        figures = self.figures
        figures.acknowledged = sum(self._acknowledged.values())
        alive = (each for each in sources if not each["failure"])
        figures.in_flight = sum(each["highest"] - _count(each["ranges"]) for each in alive)
        figures.waiting = sum(each["waiting"] for each in (*client, *server) if each["side"] == "destination")

    def close(self) -> None:
        for engine in self._engines:
            engine.dispose()

    @property
    def _parties(self) -> tuple[Party, Party]:
        return self._client, self._server

    def _read_databases(self) -> None:
        figures = self.figures
        client, server = self._engines
        with client.connect() as at_client, server.connect() as at_server:
            figures.sent = _scalar(at_client, select(func.count(ORDERS.c.sent_at)))
            figures.confirmations = _scalar(at_client, select(func.count(distinct(CONFIRMATIONS.c.order_number))))
            figures.delivered = _scalar(at_server, select(func.count(distinct(RECEIVED_ORDERS.c.order_number))))
            sides = zip((at_client, at_server), _sides(self._pair), strict=True)
            figures.in_doubt = sum(in_doubt(connection, urls) for connection, urls in sides)


def in_doubt(connection: Connection, urls: Urls) -> int:
    """The number of unfinished prepared transactions of one side."""
    names = [make_url(url).database for url in (urls.application, urls.store) if url != "memory:"]
    return int(connection.execute(IN_DOUBT, {"names": names}).scalar_one())


def _sides(pair: Pair) -> tuple[Urls, Urls]:
    return pair.client, pair.server


def _scalar(connection: Connection, query: Any) -> int:
    return int(connection.execute(query).scalar_one())


def _count(ranges: list[list[int]]) -> int:
    return sum(high - low + 1 for low, high in ranges)


def _sequences(party: Party) -> list[dict[str, Any]]:
    """The status of all sequences of a process; empty while it does not run."""
    if party.url is None:
        return []
    connection = http.client.HTTPConnection(urlsplit(party.url).netloc, timeout=HTTP_TIMEOUT)
    try:
        connection.request("GET", "/mercury/status/sequences")
        reply = connection.getresponse()
        found: list[dict[str, Any]] = json.load(reply) if reply.status == 200 else []
        return found
    except (OSError, http.client.HTTPException):
        return []  # the process has just been killed
    finally:
        connection.close()
