"""Attachments in transactions over two databases: read, forwarded and rolled back with the handler's work."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import text

from mercury import Attachment, DestinationPolicy, Limits, Mercury, MessageContext, Service
from mercury.settings import load
from mercury.statemachine.retransmission import Backoff
from tests.acceptance.processes import eventually

from .places import Places

CONTENT = bytes(range(256)) * 4000


@dataclass
class Scan:
    id: int
    image: Attachment


def test_attachment_is_forwarded_in_the_transaction_of_the_handler_that_succeeds(places: Places) -> None:
    scans, archive = Service("scans", policy=DestinationPolicy(redelivery=Backoff(base=0.01))), Service("archive")
    archived: list[bytes] = []
    defaults = load(environment={})
    limits = Limits(max_bytes=100_000, max_bytes_with_attachments=10_000_000)
    settings = replace(defaults, engine=replace(defaults.engine, limits=limits))
    attempts: list[int] = []

    @scans.operation("Scan")
    def forward(scan: Scan, context: MessageContext) -> None:
        attempts.append(context.attempt)
        tx = context.transaction
        tx.connection("app").execute(text("insert into placed values (:id)"), {"id": scan.id})
        server.to(f"{url}/services/archive").send(scan, tx=tx)
        if context.attempt == 1:
            raise ValueError("not yet")

    @archive.operation("Scan")
    def keep(scan: Scan) -> None:
        archived.append(scan.image.read())

    with Mercury(
        places.store,
        resources={"app": places.app},
        decision_log=places.log,
        settings=settings,
        allow=["http://127.0.0.1:*"],
    ) as server:
        url = server.listen(scans, archive)
        with Mercury("memory:", settings=settings) as client:
            client.to(f"{url}/services/scans").send(Scan(1, Attachment(CONTENT)))
            eventually(lambda: archived, "the second delivery")
        assert archived == [CONTENT]
        assert attempts == [1, 2]
        assert places.placed() == [1]
        removed: list[int] = []
        eventually(
            lambda: removed.append(server.store.remove_attachments(9)) or not server.store.has_attachments,
            "the removal of what was received and forwarded",
        )
    assert places.prepared() == []
