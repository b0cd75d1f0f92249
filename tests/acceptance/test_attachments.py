"""Binary content of any size over real sockets: stored and sent in pieces, delivered once, refused above the limit."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mercury import (
    Attachment,
    EngineSettings,
    LetterFilter,
    Limits,
    Mercury,
    OnFailure,
    PayloadError,
    Service,
    Settings,
    Transaction,
)
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import Backoff
from mercury.wire.envelope import HttpMessage
from mercury.wire.scan import limits_of_body
from tests.acceptance import attachments_process
from tests.acceptance.processes import PATIENCE, ROOT, eventually
from tests.acceptance.test_endpoint import Reply, exchange
from tests.scenario.foreign import RM11_SOAP12, Foreign, identifier_in
from tests.scenario.test_mtom import packed
from tests.stores import urls_of

MIB = 1024 * 1024
#: What the service takes in memory, and with attachments.
IN_MEMORY, IN_ALL = MIB, 8 * MIB


@dataclass
class Scan:
    name: str
    image: Attachment
    others: list[Attachment] = field(default_factory=list)


@dataclass
class Note:
    text: bytes


@dataclass
class Stored:
    digest: str


def settings(store: str) -> Settings:
    limits = Limits(max_bytes=IN_MEMORY, max_bytes_with_attachments=IN_ALL)
    return Settings(store=store, engine=EngineSettings(limits=limits))


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def digest(pieces: bytes | Attachment) -> str:
    found = hashlib.sha256()
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        assert len(piece) <= 256 * 1024 or isinstance(pieces, bytes)
        found.update(piece)
    return found.hexdigest()


@dataclass
class Archive:
    """A service in this process, and what it received: names, sizes and digests."""

    url: str
    mercury: Mercury
    received: list[tuple[str, int | None, str]]
    #: The names of the scans that its handler refuses.
    failing: set[str]


@pytest.fixture(params=["memory:", "sqlite"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    store = request.param if request.param == "memory:" else f"sqlite:///{tmp_path}/archive.db"
    policy = DestinationPolicy(redelivery=Backoff(base=0.01), on_failure=OnFailure.SKIP, max_attempts=2)
    service, received, failing = Service("archive", policy=policy), list[tuple[str, int | None, str]](), set[str]()

    @service.operation
    def scan(what: Scan) -> Stored:
        found = digest(what.image)
        if what.name in failing:
            raise RuntimeError("not today")
        received.append((what.name, what.image.size, found))
        received.extend((what.name, each.size, digest(each)) for each in what.others)
        return Stored(found)

    @service.operation("Keep")
    def keep(what: Scan) -> None:
        received.append((what.name, what.image.size, digest(what.image)))

    @service.operation("Note")
    def note(what: Note) -> None:
        received.append(("note", len(what.text), ""))

    with Mercury(settings=settings(store)) as mercury:
        yield Archive(mercury.listen(service) + "/services/archive", mercury, received, failing)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Mercury]:
    with Mercury(settings=settings(f"sqlite:///{tmp_path}/client.db")) as mercury:
        yield mercury


LARGE, SMALL = content(3 * MIB + 17), content(200_000, 2)


def test_content_that_is_larger_than_the_memory_limit_arrives_whole_and_its_pieces_are_removed(
    archive: Archive, client: Mercury
) -> None:
    body = Scan("one", Attachment(LARGE), [Attachment(SMALL), Attachment(b"")])
    stored = client.to(archive.url).request(body, response=Stored).result(PATIENCE)
    assert stored == Stored(digest(LARGE))
    each = [(len(content), digest(content)) for content in (LARGE, SMALL, b"")]
    assert archive.received == [("one", size, found) for size, found in each]
    for store in (client.store, archive.mercury.store):
        eventually(lambda: store.remove_attachments(9) >= 0 and not store.has_attachments, "the removal")  # noqa: B023


def test_file_and_iterator_and_path_are_read_when_the_message_is_stored(
    archive: Archive, client: Mercury, tmp_path: Path
) -> None:
    file = tmp_path / "scan.tif"
    file.write_bytes(LARGE)
    sender = client.to(archive.url)
    with client.transaction() as tx:
        sender.send(Scan("path", Attachment(file)), tx=tx)
        sender.send(Scan("file", Attachment(io.BytesIO(LARGE))), tx=tx)
        sender.send(Scan("iterator", Attachment(LARGE[at : at + 5000] for at in range(0, len(LARGE), 5000))), tx=tx)
        file.write_bytes(b"changed since")
    eventually(lambda: len(archive.received) == 3, "the deliveries")
    assert archive.received == [(name, len(LARGE), digest(LARGE)) for name in ("path", "file", "iterator")]


def test_message_of_a_transaction_that_fails_leaves_no_pieces(archive: Archive, client: Mercury) -> None:
    def broken() -> Iterator[bytes]:
        yield LARGE
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        client.to(archive.url).send(Scan("one", Attachment(broken())))
    assert client.to(archive.url).pending == 0
    assert not client.store.has_attachments or client.store.remove_attachments(1) == 0


def test_handler_that_fails_gets_the_content_again_and_then_it_is_a_dead_letter_that_can_be_redriven(
    archive: Archive, client: Mercury
) -> None:
    archive.failing.add("one")
    sender = client.to(archive.url)
    sender.send(Scan("one", Attachment(LARGE)))
    sender.send(Scan("two", Attachment(SMALL)))
    (letter,) = eventually(archive.mercury.dead_letters, "the dead letter")
    assert letter.attachments is not None
    assert letter.size > len(LARGE)
    assert archive.mercury.store.remove_attachments(9) == 0
    archive.failing.clear()
    assert archive.mercury.redrive(LetterFilter(), allow_duplicate=True).done == (letter,)
    eventually(lambda: len(archive.received) == 2, "the second delivery")
    assert archive.received == [("two", len(SMALL), digest(SMALL)), ("one", len(LARGE), digest(LARGE))]


def test_message_above_the_limit_is_refused_with_a_fault_and_the_next_one_is_taken(
    archive: Archive, client: Mercury
) -> None:
    sender = client.to(archive.url)
    sender.send(Scan("too large", Attachment(content(IN_ALL))))
    eventually(lambda: "longer than 8388608 bytes" in (sender.last_error or ""), "the refusal")
    assert archive.received == []
    other = client.to(archive.url, key="another")
    other.send(Scan("one", Attachment(LARGE)))
    eventually(lambda: archive.received, "the delivery")
    assert [name for name, _, _ in archive.received] == ["one"]


def test_operation_without_attachments_refuses_what_is_too_large_for_memory(archive: Archive, client: Mercury) -> None:
    @dataclass
    class Impostor:
        text: Attachment

    sender = client.to(archive.url)
    sender.send(Impostor(Attachment(LARGE)), operation="Note")
    eventually(lambda: sender.last_error or archive.mercury.dead_letters(), "the refusal, or a delivery that fails")
    assert "takes no attachments" in (sender.last_error or "")
    other = client.to(archive.url, key="another")
    other.send(Impostor(Attachment(SMALL)), operation="Note")  # small enough for memory: as any other MTOM message
    eventually(lambda: archive.received, "the delivery")
    assert archive.received == [("note", len(SMALL), "")]


def test_text_above_the_limit_is_refused_whatever_the_limit_with_attachments_is(
    archive: Archive, client: Mercury
) -> None:
    most = limits_of_body(Limits(max_bytes=IN_MEMORY)).max_bytes
    with pytest.raises(PayloadError, match=f"larger than {most} bytes"):
        client.to(archive.url).send(Note(LARGE))
    with Mercury("memory:") as other:  # its own limit is higher
        sender = other.to(archive.url)
        sender.send(Note(LARGE))
        eventually(lambda: "longer than 1048576 bytes" in (sender.last_error or ""), "the refusal")
    assert archive.received == []


def test_repeated_message_is_delivered_once_and_its_second_copy_is_not_stored(archive: Archive) -> None:
    foreign, netloc = Foreign(RM11_SOAP12), archive.url.removeprefix("http://").partition("/")[0]

    def post(message: HttpMessage) -> Reply:
        return exchange(netloc, message.body, path="/services/archive", Content_Type=message.content_type)

    created = post(foreign.create())
    identifier = identifier_in(HttpMessage(created.body, ""))
    text = base64.b64encode(LARGE).decode()
    store = archive.mercury.store
    for number, boundary in ((2, "one"), (2, "two"), (1, "three"), (1, "four"), (2, "five")):
        body = f'<Keep xmlns="urn:mercury:app"><name>{number}</name><image>{text}</image></Keep>'
        sequence = foreign.sequence(identifier, number)
        http = foreign.envelope("urn:mercury:app/Keep", body, headers=sequence, message_id=f"urn:{number}")
        assert post(packed(http, boundary, photo=LARGE)).status in (200, 202)
        if number == 2 and boundary != "five":  # it waits for the first one: what nothing names would be a second copy
            assert store.remove_attachments(9) == 0
    eventually(lambda: len(archive.received) == 2, "the deliveries")
    assert archive.received == [(name, len(LARGE), digest(LARGE)) for name in ("1", "2")]


def test_content_waits_in_the_store_while_the_peer_is_down(tmp_path: Path) -> None:
    service, received = Service("archive"), list[str]()

    @service.operation
    def scan(what: Scan, tx: Transaction) -> None:
        received.append(digest(what.image))

    first = Mercury(settings=settings(f"sqlite:///{tmp_path}/server.db"))
    url = first.listen(service) + "/services/archive"
    port = int(url.split(":")[2].split("/")[0])
    first.stop()
    store = f"sqlite:///{tmp_path}/client.db"
    with Mercury(settings=settings(store)) as client:
        client.to(url).send(Scan("one", Attachment(LARGE)))
        eventually(lambda: client.to(url).last_error, "a failed transmission")
    again = Service("archive")
    again.operation(scan)
    with Mercury(settings=settings(f"sqlite:///{tmp_path}/server2.db")) as server:
        server.listen(again, port=port)
        with Mercury(settings=settings(store)) as client:
            assert client.to(url).wait(PATIENCE)
            eventually(lambda: received == [digest(LARGE)], "the delivery")


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak memory differs")
@pytest.mark.parametrize(("kind", "size"), [("sqlite", 100 * MIB), ("postgres", 32 * MIB)])
def test_memory_for_a_large_attachment_does_not_grow_with_its_size(
    kind: str, size: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    new_url = urls_of(kind, request, tmp_path)
    command = [sys.executable, "-m", attachments_process.__name__, new_url(), new_url(), "300000", str(size)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True)
    small, large = (json.loads(line) for line in ended.stdout.splitlines())
    assert (large["size"], large["whole"]) == (size, True)
    # Both directions are in this one process: sender and receiver, each with its store.
    assert large["peak"] - small["peak"] < 48 * MIB
