"""The client: takes the rows of its table, in order, and sends each as a message, in one transaction.

``mercury serve mercury.trial.programs.client:app`` runs it, so that it has the probes and the roles of a server.
"""

from __future__ import annotations

import logging
import os
import threading

from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from mercury.errors import MercuryError
from mercury.facade import Mercury
from mercury.storage.application import Transaction
from mercury.trial.programs import common, tables
from mercury.trial.programs.messages import Answer, Kind, message, parsed

log = logging.getLogger("trial.client")

#: The callback for answers, stored with each request.
SETTLE = "settle"
#: Seconds between two polls of the table, and before a retry.
POLL, RETRY = 0.05, 0.1


def hand_over_next(mercury: Mercury) -> bool:
    """One transaction takes rows and stores their messages; returns whether there were any."""
    with mercury.transaction() as tx:
        rows = tables.next_rows(tx.connection())
        for row in rows:
            if tables.take(tx.connection(), row):
                send(mercury, row, tx)
    return bool(rows)


def send(mercury: Mercury, row: tables.Row, tx: Transaction) -> None:
    answered = row.way == "in-out"
    body = message(row.branch, row.number, Kind(row.kind), row.size)
    name = type(body).__name__
    sender = mercury.to(os.environ[common.TARGET], key=row.branch, listen=answered)
    correlation = f"{row.branch}:{row.number}"
    if answered:
        sender.request_with_callback(body, SETTLE, operation=f"Answer{name}", correlation=correlation, tx=tx)
    elif row.expires_in is not None:
        sender.send(body, operation=f"Take{name}", correlation=correlation, tx=tx, expires_in=row.expires_in)
    else:
        sender.send(body, operation=f"Take{name}", correlation=correlation, tx=tx)


def settle(answer: Answer, tx: Transaction) -> None:
    """Insert the answer in the transaction that settles the request."""
    branch, number = parsed(answer.marker)
    tables.add(tx.connection(), tables.ANSWERS, "settle", branch, number, answer.checksum)


def poll(mercury: Mercury, ended: threading.Event) -> None:
    """Hand over rows until the event is set. A standby, and a process whose database is away, tries again."""
    while not ended.is_set():
        try:
            if mercury.running_runtime is None or not hand_over_next(mercury):
                ended.wait(POLL)
        except (MercuryError, DBAPIError) as error:
            log.warning("will retry: %s", error)
            ended.wait(RETRY)


def app() -> FastAPI:
    mercury = common.mercury(os.environ[common.ADDRESS])
    mercury.callback(SETTLE)(settle)
    return common.app_of(mercury, poll)
