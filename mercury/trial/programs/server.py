"""The server: every message that arrives becomes a row. ``mercury serve mercury.trial.programs.server:app`` runs it."""

from __future__ import annotations

import logging
import os
import threading

from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from mercury.engine.membership import MemberRole
from mercury.errors import MercuryError
from mercury.facade import Mercury
from mercury.service.definition import Service
from mercury.storage.application import Transaction
from mercury.trial.programs import common, tables
from mercury.trial.programs.messages import Answer, Binary, File, Record, Text, checksum, parsed, received

log = logging.getLogger("trial.server")

#: Seconds between two rows of the active member of a pair.
INTERVAL = 0.1
#: Set where the server has a stage.
STAGED = "TRIAL_STAGED"


def take(found: Text | Binary | Record | File, tx: Transaction) -> Answer:
    """Insert the row in the transaction that consumes the message."""
    branch, number = parsed(found.marker)
    digest = checksum(received(found))
    tables.add(tx.connection(), tables.INCOMING, "handle", branch, number, digest)
    return Answer(found.marker, digest)


def make_service(*, staged: bool = False) -> Service:
    """The service.

    :param staged: without the operations that a stage refuses: content in pieces, and answers.
    """
    service = Service("trial")

    @service.operation("TakeText")
    def take_text(body: Text, tx: Transaction) -> None:
        take(body, tx)

    @service.operation("TakeBinary")
    def take_binary(body: Binary, tx: Transaction) -> None:
        take(body, tx)

    @service.operation("TakeRecord")
    def take_record(body: Record, tx: Transaction) -> None:
        take(body, tx)

    if staged:
        return service

    @service.operation("TakeFile")
    def take_file(body: File, tx: Transaction) -> None:
        take(body, tx)

    @service.operation("AnswerText")
    def answer_text(body: Text, tx: Transaction) -> Answer:
        return take(body, tx)

    return service


def note_members(mercury: Mercury, ended: threading.Event) -> None:
    """Insert a row with the member's epoch again and again, while it is the active member of a pair."""
    number = 0
    while not ended.wait(INTERVAL):
        number += 1
        try:
            with mercury.transaction() as tx:
                # Read after the transaction has begun: it commits under the claim of this epoch, or not at all.
                epoch = mercury.watch.member().get("epoch")
                if isinstance(epoch, int):
                    tables.note_member(tx.connection(), epoch, number)
        except (MercuryError, DBAPIError) as error:
            log.warning("no row is written: %s", error)


def app() -> FastAPI:
    mercury = common.mercury()
    mercury.add_service(make_service(staged=STAGED in os.environ))
    pair = mercury.settings.role is MemberRole.ACTIVE_STANDBY
    return common.app_of(mercury, note_members if pair else None)
