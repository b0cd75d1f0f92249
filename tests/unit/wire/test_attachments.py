"""Large parts of MTOM messages: they stay in a file when they are read, and are written in pieces (decision 36)."""

from __future__ import annotations

import base64
import io
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from mercury.errors import ConfigurationError, PayloadError
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, SoapVersion
from mercury.wire import Envelope, Limits, Payload, Undecodable, decode, encode
from mercury.wire.attachment import Attachment, LargePart
from mercury.wire.bodies import read_body, write_body
from mercury.wire.mapping import Attribute, check_type, from_xml, to_xml
from mercury.wire.multipart import split
from mercury.wire.scan import MessageRefused
from mercury.wire.spool import WINDOW, Spool
from mercury.wire.xop import LARGE

from .samples import soap
from .test_mtom import include, media_type, package, part, request, root

#: A part that stays outside, and one that does not.
BIG, LITTLE = bytes(range(256)) * (LARGE // 256 + 1), b"little"
LIMITS = Limits(max_bytes=100_000, max_bytes_with_attachments=10_000_000)


@pytest.fixture
def spooled() -> Iterator[Callable[[bytes], Spool]]:
    """Writes bytes to a file."""
    made: list[Spool] = []

    def write(data: bytes) -> Spool:
        made.append(Spool())
        for at in range(0, len(data), 10_000):
            made[-1].write(data[at : at + 10_000])
        return made[-1]

    yield write
    for spool in made:
        spool.close()


InFile = Callable[[bytes], Spool]


def reason(data: Spool, content_type: str = "") -> str:
    with pytest.raises(Undecodable) as refused:
        decode(data, content_type or media_type(), limits=LIMITS)
    return refused.value.fault.reason


# --- a file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, WINDOW - 4, WINDOW - 3, WINDOW, 2 * WINDOW - 1, 3 * WINDOW])
def test_bytes_are_found_in_a_file_wherever_its_windows_end(spooled: InFile, place: int) -> None:
    data = b"-" * place + b"sought" + b"-" * 9
    spool = spooled(data)
    assert spool.find(b"sought") == place
    assert spool.find(b"sought", place, place + 6) == place
    assert spool.find(b"sought", place + 1) == spool.find(b"sought", 0, place + 5) == -1
    assert (len(spool), spool[place : place + 6], spool[place + 15 :]) == (len(data), b"sought", b"")


@pytest.mark.parametrize("length", [0, 1, 2000, WINDOW - 100, WINDOW - 8, WINDOW - 1, WINDOW, 3 * WINDOW + 1])
def test_package_in_a_file_has_the_same_parts_as_in_memory(spooled: InFile, length: int) -> None:
    data = package(root(b"<a/>"), part("1", b"\r\n--" * (length // 4) + b"x" * (length % 4)), part("2", b""))
    in_memory, in_file = split(data, "b", 9), split(spooled(data), "b", 9)
    assert [(each.content_id, bytes(each.content())) for each in in_memory] == [
        (each.content_id, bytes(each.content())) for each in in_file
    ]
    assert b"".join(in_file[1].pieces()) == bytes(in_memory[1].content())


def test_large_part_stays_in_the_file_and_the_others_are_in_the_envelope(spooled: InFile) -> None:
    body = f"<a><b>{include('big')}</b><c>{include('little')}</c><d>{include('big')}</d></a>"
    data = request(body, part("big", BIG), part("little", LITTLE), part("unused", BIG))
    envelope = decode(spooled(data), media_type(), limits=LIMITS)
    assert isinstance(envelope.body, Payload)
    assert envelope.body.xml.count(b'cid:big"') == 2
    assert base64.b64encode(LITTLE) in envelope.body.xml
    (large,) = envelope.parts
    assert (large.content_id, large.size) == ("big", len(BIG))
    for _ in range(2):  # a transaction that is repeated reads it again
        assert b"".join(large.pieces()) == BIG


def test_message_in_a_file_takes_little_memory_whatever_its_size(spooled: InFile) -> None:
    data = spooled(request(f"<a>{include('big')}</a>", part("big", b"\r\n--xx" * 1_000_000)))
    tracemalloc.start()
    try:
        (large,) = decode(data, media_type(), limits=LIMITS).parts
        assert sum(map(len, large.pieces())) == 6_000_000
        assert tracemalloc.get_traced_memory()[1] < 4 * WINDOW
    finally:
        tracemalloc.stop()


def test_large_message_is_refused_if_it_is_no_package_or_its_envelope_is_large(spooled: InFile) -> None:
    larger = "larger than 100000 bytes"
    assert larger in reason(spooled(b"<a>" + b" " * 100_000 + b"</a>"), "application/soap+xml")
    blanks = " " * 100_000
    assert larger in reason(spooled(request(f"<a><b>{include('big')}</b>{blanks}</a>", part("big", BIG))))
    parts = [part(str(number), b"-" * LARGE) for number in range(2)]
    body = "".join(f"<b>{include(str(number))}</b>" for number in range(2))
    assert larger in reason(spooled(request(f"<a>{body}</a>", *parts)))  # each is too small to stay outside
    smaller = replace(LIMITS, max_bytes_with_attachments=60_000)  # less than what memory may have
    with pytest.raises(Undecodable, match="larger than 100000 bytes"):
        decode(spooled(request(f"<a>{include('big')}</a>", part("big", BIG * 2))), media_type(), limits=smaller)


def test_envelope_of_a_message_in_a_file_is_refused_before_it_is_in_memory(spooled: InFile) -> None:
    blanks = " " * 3_000_000
    spool = spooled(request(f"<a><b>{include('big')}</b>{blanks}</a>", part("big", BIG)))
    tracemalloc.start()
    try:
        assert "the envelope of the MTOM message is larger than 100000 bytes" in reason(spool)
        assert tracemalloc.get_traced_memory()[1] < 4 * WINDOW
    finally:
        tracemalloc.stop()


def test_large_part_in_base64_is_refused(spooled: InFile) -> None:
    encoded = part("big", base64.b64encode(BIG), "Content-Transfer-Encoding: base64")
    assert "is in base64" in reason(spooled(request(f"<a>{include('big')}</a>", encoded)))


def test_part_that_is_missing_is_refused_as_in_memory(spooled: InFile) -> None:
    assert "has the Content-ID 'big'" in reason(spooled(request(f"<a>{include('big')}</a>", part("other", BIG))))


def test_package_in_a_file_that_ends_early_is_refused(spooled: InFile) -> None:
    data = request(f"<a>{include('big')}</a>", part("big", BIG))
    assert "ends before its last boundary" in reason(spooled(data[: -len("--b--\r\n") - 2]))
    with pytest.raises(MessageRefused):
        split(spooled(data), "other", 9)


# --- writing ---------------------------------------------------------------------------------------------------------


def large_part(name: str, content: bytes) -> LargePart:
    return LargePart(name, len(content), lambda: iter([content[:5], content[5:]]))


def test_batch_with_a_large_part_is_refused(spooled: InFile) -> None:
    sequence = (
        "<wsa:Action>urn:a</wsa:Action><wsrm:Sequence><wsrm:Identifier>urn:s</wsrm:Identifier>"
        "<wsrm:MessageNumber>1</wsrm:MessageNumber></wsrm:Sequence>"
    )
    message = f'<m:Message id="urn:m"><a>{include("1")}</a></m:Message>'
    batch = f'<m:Batch xmlns:m="urn:mercury:rm" action="urn:a">{message}<m:Message id="urn:n"/></m:Batch>'
    data = package(root(soap(sequence, batch)), part("1", BIG))
    assert reason(spooled(data)) == "a batch with parts that stay in a file"
    assert len(decode(data, media_type()).body.messages) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_message_with_large_parts_is_read_as_it_was_written(protocol: Protocol) -> None:
    body = Payload(f"<a><b>{include('1@mercury')}</b><c>{include('2@mercury')}</c></a>".encode(), "a")
    envelope = Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action="urn:a",
        message_id="urn:uuid:1",
        body=body,
        parts=(large_part("1@mercury", BIG), large_part("2@mercury", LITTLE)),
    )
    http = encode(envelope)
    assert http.rest is not None
    assert len(http.body) < 4000
    assert http.rest.size == sum(map(len, http.rest.pieces()))
    whole = http.whole()
    assert whole.body == encode(envelope).whole().body  # a repeated message has the same bytes
    assert (http.soap_action is None) is (protocol.soap is SoapVersion.SOAP12)
    read = decode(whole.body, http.content_type, http.soap_action)
    assert read.action == "urn:a"
    assert isinstance(read.body, Payload)
    assert read.body.xml.count(base64.b64encode(BIG)) == read.body.xml.count(base64.b64encode(LITTLE)) == 1


# --- fields ----------------------------------------------------------------------------------------------------------


@dataclass
class Scan:
    name: str
    image: Attachment
    others: list[Attachment]
    note: Attachment | None = None


@dataclass
class Photo:
    image: bytes


def test_attachments_are_left_out_of_the_element_and_read_by_their_names() -> None:
    one, two, three = Attachment(b"1"), Attachment(b"2"), Attachment(b"3")
    payload = write_body(Scan("a", one, [two, three]), "urn:x", attached=True)
    assert payload.attachments == (("1@mercury", one), ("2@mercury", two), ("3@mercury", three))
    assert payload.xml.count(b"Include") == 3
    read = read_body(payload, Scan, "urn:x")
    assert (read.name, read.image, read.others, read.note) == ("a", one, [two, three], None)


def test_attachment_of_a_small_message_is_text() -> None:
    xml = to_xml(Scan("a", Attachment(b"one"), [Attachment(iter([b"t", b"wo"]))]), "urn:x")
    assert b"Include" not in xml
    read = from_xml(xml, Scan, "urn:x")
    assert [read.image.read(), *(each.read() for each in read.others)] == [b"one", b"two"]
    assert read.image.size == 3


@pytest.mark.parametrize(
    ("cls", "content", "why"),
    [
        (Scan, include("other"), "image: the message has no part cid:other"),
        (Scan, include("%FF"), "image: the message has no part cid:%FF"),
        (Photo, include("1"), "image: its content is a large part of an MTOM message"),
        (Scan, "<x/>", "image: there is an element x"),
        (Scan, "not base64", "image: 'not base64' is not a valid xs:base64Binary"),
    ],
)
def test_element_that_does_not_fit_is_refused_with_its_path(cls: type[Any], content: str, why: str) -> None:
    xml = f"<{cls.__name__}><name>a</name><image>{content}</image></{cls.__name__}>".encode()
    with pytest.raises(PayloadError, match=why):
        from_xml(xml, cls, attachments=[("1", Attachment(b"1"))])


def test_attachment_is_no_attribute() -> None:
    @dataclass
    class Wrong:
        image: Annotated[Attachment, Attribute()]

    with pytest.raises(ConfigurationError, match="an Attachment is the content of an element"):
        check_type(Wrong)


def test_content_is_read_from_bytes_paths_files_and_iterables(tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(BIG)
    for source in (BIG, file, io.BytesIO(BIG), [BIG[:9], b"", bytearray(BIG[9:])]):
        pieces = list(Attachment(source))  # type: ignore[arg-type]
        assert b"".join(pieces) == BIG
        assert all(type(piece) is bytes and piece for piece in pieces)


@pytest.mark.parametrize("source", [io.StringIO("text"), ["text"]], ids=["file", "iterable"])
def test_content_that_is_text_is_refused(source: Any) -> None:
    with pytest.raises(PayloadError, match=r"text mode|is bytes, not str"):
        Attachment(source).read()


def test_value_that_is_no_attachment_is_refused() -> None:
    with pytest.raises(PayloadError, match="image: b'1' cannot be written as xs:base64Binary: it is not an Attachment"):
        write_body(Scan("a", b"1", []), "urn:x", attached=True)  # type: ignore[arg-type]
