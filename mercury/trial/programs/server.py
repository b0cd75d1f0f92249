"""The server: every message that arrives becomes a row. ``mercury serve mercury.trial.programs.server:app`` runs it."""

from __future__ import annotations

from fastapi import FastAPI

from mercury.service.definition import Service
from mercury.storage.application import Transaction
from mercury.trial.programs import common, tables
from mercury.trial.programs.messages import Answer, Binary, File, Record, Text, checksum, parsed, received


def take(found: Text | Binary | Record | File, tx: Transaction) -> Answer:
    """Insert the row in the transaction that consumes the message."""
    branch, number = parsed(found.marker)
    digest = checksum(received(found))
    tables.add(tx.connection(), tables.INCOMING, "handle", branch, number, digest)
    return Answer(found.marker, digest)


def make_service() -> Service:
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

    @service.operation("TakeFile")
    def take_file(body: File, tx: Transaction) -> None:
        take(body, tx)

    @service.operation("AnswerText")
    def answer_text(body: Text, tx: Transaction) -> Answer:
        return take(body, tx)

    return service


def app() -> FastAPI:
    return common.mercury().app(make_service())
