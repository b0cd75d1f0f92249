"""MTOM over real sockets: typed bytes between two Mercuries, and a foreign client."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mercury import DestinationPolicy, Mercury, Protocol, Service, SourcePolicy
from mercury.statemachine.protocol import SoapVersion
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import PATIENCE, eventually
from tests.acceptance.test_endpoint import exchange
from tests.scenario.foreign import RM11_SOAP11, RM11_SOAP12, Foreign, identifier_in
from tests.scenario.test_mtom import PHOTO, SENT, packed, read


@dataclass(frozen=True)
class Scan:
    name: str
    pages: list[bytes]


@dataclass(frozen=True)
class Copy:
    pages: list[bytes]


@dataclass
class Archive:
    """A service in this process, and the names of what it received."""

    url: str
    names: list[str]


@pytest.fixture
def archive() -> Iterator[Archive]:
    service, names = Service("archive", policy=DestinationPolicy(mtom=True)), list[str]()

    @service.operation
    def scan(what: Scan) -> Copy:
        names.append(what.name)
        return Copy(what.pages[::-1])

    @service.operation(action="urn:test:Note")
    def note(what: bytes) -> None:
        names.append(what.decode())

    with Mercury("memory:") as mercury:
        yield Archive(mercury.listen(service) + "/services/archive", names)


PAGES = [random.Random(1).randbytes(size) for size in (5, 1024, 3_000_000)]


@pytest.mark.parametrize("soap", SoapVersion)
def test_typed_bytes_travel_as_parts_in_both_directions(archive: Archive, soap: SoapVersion) -> None:
    with Mercury("memory:") as mercury:
        policy = SourcePolicy(protocol=Protocol(soap=soap), mtom=True)
        sender = mercury.to(archive.url, policy=policy)
        assert sender.request(Scan("one", PAGES), response=Copy).result(PATIENCE) == Copy(PAGES[::-1])
    assert archive.names == ["one"]


@pytest.mark.parametrize("protocol", [RM11_SOAP11, RM11_SOAP12], ids=str)
def test_foreign_mtom_message_is_delivered_once(archive: Archive, protocol: Protocol) -> None:
    foreign, netloc = Foreign(protocol), archive.url.removeprefix("http://").partition("/")[0]

    def post(message: HttpMessage) -> HttpMessage:
        headers = {"Content_Type": message.content_type} | (
            {"SOAPAction": message.soap_action} if message.soap_action is not None else {}
        )
        reply = exchange(netloc, message.body, path="/services/archive", **headers)
        return HttpMessage(reply.body, reply.headers["content-type"], None, reply.status)

    identifier = identifier_in(post(foreign.create()))
    message = foreign.note(identifier, 1, SENT)
    for boundary in ("one", "two"):
        assert len(read(post(packed(message, boundary))).acknowledgements) == 1
    refused = post(packed(foreign.note(identifier, 2, SENT), part="other"))
    assert b"has the Content-ID" in refused.body
    eventually(lambda: len(archive.names) == 1, "the delivery")
    assert SENT in archive.names[0]
    assert len(PHOTO) < len(SENT)
