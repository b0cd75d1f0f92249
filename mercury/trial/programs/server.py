"""The server: every message that arrives becomes a row. ``mercury serve mercury.trial.programs.server:app`` runs it."""

from __future__ import annotations

import os
from collections.abc import Callable

from fastapi import FastAPI

from mercury.facade import Mercury
from mercury.service.definition import Service
from mercury.storage.application import Transaction
from mercury.trial.programs import common, tables
from mercury.trial.programs.messages import Answer, Binary, File, Record, Text, checksum, parsed, received

#: Set where the server has a stage.
STAGED = "TRIAL_STAGED"


class Handlers:
    """What is done with each message.

    :param epoch: the epoch of this member of a pair; ``None`` = it is in no pair.
    """

    def __init__(self, epoch: Callable[[], int | None]) -> None:
        self._epoch = epoch

    def take(self, found: Text | Binary | Record | File, tx: Transaction) -> Answer:
        """Insert the row in the transaction that consumes the message."""
        branch, number = parsed(found.marker)
        digest = checksum(received(found))
        tables.add(tx.connection(), tables.INCOMING, "handle", branch, number, digest, self._epoch())
        return Answer(found.marker, digest)

    def service(self, *, staged: bool = False) -> Service:
        """
        :param staged: without the operations that a stage refuses: content in pieces, and answers.
        """
        service = Service("trial")

        @service.operation("TakeText")
        def take_text(body: Text, tx: Transaction) -> None:
            self.take(body, tx)

        @service.operation("TakeBinary")
        def take_binary(body: Binary, tx: Transaction) -> None:
            self.take(body, tx)

        @service.operation("TakeRecord")
        def take_record(body: Record, tx: Transaction) -> None:
            self.take(body, tx)

        if staged:
            return service

        @service.operation("TakeFile")
        def take_file(body: File, tx: Transaction) -> None:
            self.take(body, tx)

        @service.operation("AnswerText")
        def answer_text(body: Text, tx: Transaction) -> Answer:
            return self.take(body, tx)

        return service


def service_of(mercury: Mercury, *, staged: bool = False) -> Service:
    """The service of a server; see `Handlers`."""

    def epoch() -> int | None:
        found = mercury.watch.member().get("epoch")
        return found if isinstance(found, int) else None

    return Handlers(epoch).service(staged=staged)


def app() -> FastAPI:
    mercury = common.mercury()
    return mercury.app(service_of(mercury, staged=STAGED in os.environ))
