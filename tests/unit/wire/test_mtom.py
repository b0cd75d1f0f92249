"""MTOM messages: what peers write, what hostile peers write, and what Mercury writes (HTTP-01)."""

from __future__ import annotations

import base64
import re
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercury.statemachine.faults import FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT
from mercury.statemachine.protocol import AddressingVersion, SoapVersion
from mercury.wire import DEFAULT_LIMITS, Envelope, Limits, Payload, Undecodable, check_payload, decode, encode
from mercury.wire.xop import MOST_PARTS

from .samples import SOAP11, SOAP12, refusal, soap

XOP = "http://www.w3.org/2004/08/xop/include"
PHOTO, SIGNATURE = b"\x00\xff\r\n--photo\r\n" * 3, bytes(range(256))


def include(name: str) -> str:
    return f'<xop:Include xmlns:xop="{XOP}" href="cid:{name}"/>'


def part(name: str, content: bytes, *more: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"Content-ID: <{name}>", *more))
    return head.encode() + b"\r\n" + content


def root(envelope: bytes, media: str = "application/soap+xml", name: str = "root") -> bytes:
    return part(name, envelope, f'Content-Type: application/xop+xml; charset=UTF-8; type="{media}"')


def package(*parts: bytes, boundary: str = "b") -> bytes:
    return b"".join(f"\r\n--{boundary}\r\n".encode() + each for each in parts) + f"\r\n--{boundary}--\r\n".encode()


def media_type(start_info: str = "application/soap+xml", boundary: str = "b", more: str = '; start="<root>"') -> str:
    return f'multipart/related; boundary="{boundary}"; type="application/xop+xml"; start-info="{start_info}"{more}'


def request(body: str, *parts: bytes) -> bytes:
    return package(root(soap(body=body)), *parts)


def body_of(data: bytes, content_type: str = "", **options: object) -> bytes:
    envelope = decode(data, content_type or media_type(), **options)  # type: ignore[arg-type]
    assert isinstance(envelope.body, Payload)
    return envelope.body.xml


def text(content: bytes) -> bytes:
    return base64.b64encode(content)


def reason(data: bytes, content_type: str = "", **options: object) -> str:
    fault = refusal(data, content_type or media_type(), **options).fault
    assert fault.code is FaultCode.SENDER
    return fault.reason


# --- what peers write ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("soap11", [False, True])
def test_example_of_the_specification_reads_as_without_mtom(soap11: bool) -> None:
    """XOP 1.0, examples 1 and 2, with the Content-IDs that they have."""
    ns = SOAP11 if soap11 else SOAP12
    media = "text/xml" if soap11 else "application/soap+xml"
    data = (
        '<m:data xmlns:m="http://example.org/stuff"><m:photo xmlmime:contentType="image/png" '
        'xmlns:xmlmime="http://www.w3.org/2004/11/xmlmime">%s</m:photo><m:sig>%s</m:sig></m:data>'
    )
    package_ = package(
        root(
            soap(body=data % (include("http://example.org/me.png"), include("http://example.org/my.hsh")), ns=ns), media
        ),
        part("http://example.org/me.png", PHOTO, "Content-Type: image/png", "Content-Transfer-Encoding: binary"),
        part("http://example.org/my.hsh", SIGNATURE, "Content-Transfer-Encoding: binary"),
        boundary="MIME_boundary",
    )
    read = decode(package_, media_type(media, "MIME_boundary"), '"urn:a"' if soap11 else None)
    plain = decode(soap(body=data % (text(PHOTO).decode(), text(SIGNATURE).decode()), ns=ns), media)
    assert read == plain
    assert read.mtom
    assert not plain.mtom


@pytest.mark.parametrize(
    "content_type",
    [
        media_type(more=""),
        media_type(more="; start=root"),
        'Multipart/Related;boundary=b;type="Application/XOP+XML";start="<root>"',
        media_type('application/soap+xml; action=\\"urn:a\\"'),
        media_type(more='; action="urn:a"'),
    ],
)
def test_forms_of_the_media_type_that_peers_write_are_read(content_type: str) -> None:
    assert body_of(request(f"<a>{include('p')}</a>", part("p", PHOTO)), content_type) == b"<a>%b</a>" % text(PHOTO)


def test_root_need_not_be_the_first_part() -> None:
    data = package(part("p", PHOTO), root(soap(body=f"<a>{include('p')}</a>")))
    assert body_of(data) == b"<a>%b</a>" % text(PHOTO)


@pytest.mark.parametrize(
    ("href", "name"),
    [
        ("cid:http%3A%2F%2Ftempuri.org%2F1%2F63", "http://tempuri.org/1/63"),
        ("CID:a%40cxf.apache.org", "a@cxf.apache.org"),
        ("cid:t%C3%A4g", "täg"),
        (" cid:a+b ", "a+b"),
    ],
)
def test_url_of_a_part_is_decoded(href: str, name: str) -> None:
    data = request(f'<a><i:Include xmlns:i="{XOP}" href="{href}"></i:Include></a>', part(name, PHOTO))
    assert body_of(data) == b"<a>%b</a>" % text(PHOTO)


@pytest.mark.parametrize("encoding", ["binary", "8bit", "7bit", "BASE64", None])
def test_content_is_read_in_each_transfer_encoding(encoding: str | None) -> None:
    sent = base64.encodebytes(PHOTO).replace(b"\n", b"\r\n") if encoding == "BASE64" else PHOTO
    more = () if encoding is None else (f"content-transfer-encoding:  {encoding}",)
    assert body_of(request(f"<a>{include('p')}</a>", part("p", sent, *more))) == b"<a>%b</a>" % text(PHOTO)


def test_parts_in_header_blocks_and_between_blanks_are_read() -> None:
    data = soap(
        f"<wsa:Action>urn:a</wsa:Action><t:Token xmlns:t='urn:t'>{include('h')}</t:Token>",
        f"<a><b>\n {include('p')} \t</b><c>{include('p')}</c></a>",
    )
    read = decode(package(root(data), part("p", PHOTO), part("h", SIGNATURE)), media_type())
    assert read.headers == (b"<t:Token xmlns:t='urn:t'>%b</t:Token>" % text(SIGNATURE),)
    assert isinstance(read.body, Payload)
    assert read.body.xml == b"<a><b>\n %b \t</b><c>%b</c></a>" % (text(PHOTO), text(PHOTO))


def test_empty_part_and_parts_that_no_element_names_are_read() -> None:
    data = request(f"<a>{include('p')}</a>", part("p", b""), part("q", PHOTO), b"\r\nwithout a name")
    assert body_of(data) == b"<a></a>"


def test_text_before_and_after_the_parts_is_ignored_and_the_boundary_may_be_padded() -> None:
    data = request(f"<a>{include('p')}</a>", part("p", PHOTO)).replace(b"\r\n--b\r\n", b"\r\n--b \t\r\n")
    assert body_of(b"a preamble" + data + b"--b\r\nan epilogue") == b"<a>%b</a>" % text(PHOTO)


def test_folded_header_of_a_part_is_one_line() -> None:
    head = b'Content-Type: application/xop+xml;\r\n\ttype="application/soap+xml";\r\n charset=utf-16\r\n\r\n'
    data = package(head + soap(body="<a/>").decode().encode("utf-16"))
    assert body_of(data, media_type(more="")) == b"<a/>"


def test_action_of_the_root_counts_as_action_of_http() -> None:
    media = r"application/soap+xml;action=\"urn:b\""
    plain = decode(package(root(soap(""), media)), media_type())
    assert plain.action == "urn:b"


@given(st.lists(st.binary(max_size=60).filter(lambda content: b"\r\n--b" not in content), max_size=5))
def test_any_content_comes_out_as_its_base64(contents: Sequence[bytes]) -> None:
    filler = b" " * 200  # small parts that are named often are allowed in a large enough message
    names = [f"{number}@x" for number, _ in enumerate(contents)]
    body = "".join(f"<c>{include(name)}</c>" for name in names)
    data = filler + request(f"<a>{body}</a>", *map(part, names, contents))
    assert body_of(data) == b"<a>%b</a>" % b"".join(b"<c>%b</c>" % text(each) for each in contents)


# --- what cannot be used -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "parts", "why"),
    [
        (f"<a>{include('q')}</a>", [part("p", PHOTO)], "no part of the MTOM message has the Content-ID 'q'"),
        (f"<a>{include('root')}</a>", [], "no part of the MTOM message has the Content-ID 'root'"),
        (f"<a>{include('p')}</a>", [part("p", PHOTO), part("p", b"")], "two parts"),
        (f"<a>x{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a>{include('p')}x</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a>&#32;{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a><!-- -->{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a>{include('p')}{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a><b/>{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a><b></b>{include('p')}</a>", [part("p", PHOTO)], "not the only content"),
        (f"<a>{include('p')}<b/></a>", [part("p", PHOTO)], "not the only content"),
        (f'<a><i:Include xmlns:i="{XOP}" href="cid:p">x</i:Include></a>', [part("p", PHOTO)], "has content"),
        (f'<a><i:Include xmlns:i="{XOP}" href="cid:p"><b/></i:Include></a>', [part("p", PHOTO)], "has content"),
        (f'<a><i:Include xmlns:i="{XOP}"/></a>', [part("p", PHOTO)], "by a cid URL"),
        (f'<a><i:Include xmlns:i="{XOP}" href="http://x/p"/></a>', [part("p", PHOTO)], "by a cid URL"),
        (f'<a><i:Include xmlns:i="{XOP}" href="cid:%ff"/></a>', [part("p", PHOTO)], "invalid URL"),
        (include("p"), [part("p", PHOTO)], "text between the elements of the Body"),
        (f"<a>{include('p')}</a>", [part("p", b"?", "Content-Transfer-Encoding: base64")], "not in base64"),
        (f"<a>{include('p')}</a>", [part("p", b"a=\r\n", "Content-Transfer-Encoding: base64")], "not in base64"),
        (f"<a>{include('p')}</a>", [part("p", b"x", "Content-Transfer-Encoding: x-zip")], "'x-zip' is not supported"),
        ("<a/>", [part("p", b"x", "Content-Type: multipart/mixed; boundary=c")], "has parts itself"),
        ("<a/>", [part("p", b"x", "Content-ID: <q>")], "content-id twice"),
        ("<a/>", [b"no header"], "no header of at most"),
        ("<a/>", [part("p", b"x", "Content Type: y")], "not well-formed"),
        ("<a/>", [part("p", b"x", "x: a\rb")], "not well-formed"),
        ("<a/>", [part("p", b"x", "x: " + "y" * 9000)], "no header of at most"),
        ("<a/>", [part("p", b"x\r\n--boundary")], "begins with the boundary and continues"),
    ],
)
def test_parts_that_do_not_fit_are_refused(body: str, parts: Sequence[bytes], why: str) -> None:
    assert why in reason(request(body, *parts))


@pytest.mark.parametrize(
    ("content_type", "why"),
    [
        ("multipart/related", "not a media type of SOAP"),
        ('multipart/related; type="text/xml"; boundary=b', "not a media type of SOAP"),
        ('multipart/mixed; type="application/xop+xml"; boundary=b', "not a media type of SOAP"),
        ('multipart/related; type="application/xop+xml"', "boundary"),
        (media_type(boundary=""), "boundary"),
        (media_type(boundary="x" * 71), "boundary"),
        (media_type(boundary="b "), "boundary"),
        (media_type(boundary="ü"), "boundary"),
        (media_type(boundary="c"), "does not have the boundary"),
        (media_type(more="; boundary=c"), "two parameters 'boundary'"),
        (media_type(more='; start="<other>"'), "is its root 'other'"),
        (media_type(more='; start=""'), "is its root ''"),
        (media_type("text/html"), "not a media type of SOAP"),
        (media_type("text/xml"), "two versions of SOAP"),
        (media_type(r"application/soap+xml; action=\"urn:x\"", more='; action="urn:y"'), "two actions"),
    ],
)
def test_media_type_that_does_not_fit_is_refused(content_type: str, why: str) -> None:
    assert why in reason(request("<a/>"), content_type)


@pytest.mark.parametrize("cut", [b"\r\n--b--\r\n", b"--\r\n", b"\r\n"])
def test_message_that_ends_early_is_refused(cut: bytes) -> None:
    data = request("<a/>", part("p", PHOTO)).removesuffix(cut)
    if cut == b"\r\n":  # only the end of the last line is missing
        assert body_of(data) == b"<a/>"
    else:
        assert "MTOM message" in reason(data)


def test_root_that_is_not_an_envelope_with_parts_is_refused() -> None:
    assert "not application/xop+xml" in reason(package(part("root", soap(), "Content-Type: text/xml")))
    assert "no parts" in reason(b"--b--")
    assert "well-formed" in reason(package(root(b"<Include")))


def test_fault_about_a_missing_part_names_the_request_and_its_versions() -> None:
    headers = "<wsa:Action>urn:a</wsa:Action><wsa:MessageID>urn:m</wsa:MessageID>"
    error = refusal(package(root(soap(headers, f"<a>{include('p')}</a>"))), media_type())
    assert (error.soap, error.addressing, error.message_id) == (SoapVersion.SOAP12, AddressingVersion.WSA10, "urn:m")


def test_include_of_a_message_without_mtom_is_an_element_like_any_other() -> None:
    plain = f"<a>{include('p')}</a>"
    assert body_of(soap(body=plain), "application/soap+xml") == plain.encode()


# --- limits --------------------------------------------------------------------------------------------------------


def test_size_is_that_with_the_content_of_the_parts() -> None:
    content = b"x" * 3000
    data = request(f"<a>{include('p')}</a>", part("p", content))
    size = len(soap(body=f"<a>{'x' * 4000}</a>"))
    assert len(data) < size
    assert body_of(data, limits=Limits(max_bytes=size)) == b"<a>%b</a>" % text(content)
    small = Limits(max_bytes=size - 1)
    assert f"larger than {size - 1} bytes with the content of its parts" in reason(data, limits=small)


def test_part_that_is_named_often_does_not_grow_the_message_above_twice_its_size() -> None:
    content = b"x" * 30_000
    bodies = {count: "<a>" + f"<c>{include('p')}</c>" * count + "</a>" for count in (1, 2, 90)}
    assert len(body_of(request(bodies[1], part("p", content)))) > 40_000
    for count in (2, 90):
        data = request(bodies[count], part("p", content))
        tracemalloc.start()
        assert "2 times as large" in reason(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * len(data)


def test_parts_are_counted() -> None:
    data = request("<a/>", *(part(str(number), b"") for number in range(9)))
    assert body_of(data, limits=Limits(max_parts=10)) == b"<a/>"
    assert "more than 9 parts" in reason(data, limits=Limits(max_parts=9))


def test_limits_of_the_envelope_hold_before_the_parts_are_inserted() -> None:
    deep = "<a>" * 70 + include("p") + "</a>" * 70
    assert "nested deeper" in reason(request(deep, part("p", PHOTO)))
    assert "DOCTYPE" in reason(package(root(b"<!DOCTYPE Include>" + soap()), part("p", PHOTO)))


MEGA = 1024 * 1024


@pytest.mark.parametrize(
    "made",
    [
        lambda: request("<a/>", part("p", b"\r\n--" * MEGA)),
        lambda: request("<a/>", part("p", b"\r\n--b" * MEGA)),
        lambda: request("<a/>", part("p", b"\r\n" * MEGA)),
        lambda: request("<a/>", *[part(str(number), b"") for number in range(150_000)]),
        lambda: request("<a/>", b"x: y\r\n" * MEGA),
        lambda: request("<a/>", *[b"x:" + b" " * 8000 + b"y\r\n\r\n" for _ in range(700)]),
        lambda: request("<a/>", *[b"x:" + b"\r\n " * 2600 + b"y\r\n\r\n" for _ in range(700)]),
        lambda: request("<a/>", b"\r\n--b" + b" " * 4 * MEGA),
        lambda: request("<a>" + f"<b>{include('p')}</b>" * 40_000 + "</a>", part("p", b"")),
        lambda: request("<a>" + " " * 3 * MEGA + "<b/>" * 10 + f"{include('p')}</a>", part("p", b"")),
        lambda: request(f"<a>{include('%41' * MEGA)}</a>", part("p", b"")),
        lambda: request("<a>" + " " * 3 * MEGA + f"{include('p')}" + " " * 3 * MEGA + "</a>", part("p", b"")),
        lambda: request("<a>" + "<Include>" * 49_000, part("p", b"")),
        lambda: request(f"<a>{include('p')}</a>", part("p", b"=" * 7 * MEGA, "Content-Transfer-Encoding: base64")),
    ],
    ids=range(14),
)
def test_hostile_message_takes_time_linear_in_its_size(made: Callable[[], bytes]) -> None:
    data = made()
    assert len(data) < 8 * MEGA
    started = time.thread_time()
    with suppress(Undecodable):
        decode(data, media_type())
    assert time.thread_time() - started < 2


def test_largest_message_is_read_with_few_copies_of_it() -> None:
    content = bytes(5 * MEGA)
    data = request(f"<a>{include('p')}</a>", part("p", content))
    tracemalloc.start()
    started = time.thread_time()
    assert len(body_of(data)) > 4 * len(content) // 3
    taken, peak = time.thread_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1
    assert peak < 6 * len(data)


# --- what Mercury writes -------------------------------------------------------------------------------------------


def written(xml: bytes, soap_version: SoapVersion = SoapVersion.SOAP12, *, mtom: bool = True) -> Envelope:
    return Envelope(
        soap=soap_version,
        addressing=AddressingVersion.WSA10,
        rm=None,
        action="urn:a",
        to=ANONYMOUS_ENDPOINT,
        message_id="urn:m",
        body=check_payload(xml),
        mtom=mtom,
    )


LARGE = bytes(range(256)) * 6


@pytest.mark.parametrize("version", SoapVersion)
def test_binary_content_leaves_as_a_part_and_comes_back(version: SoapVersion) -> None:
    envelope = written(b'<o xmlns="urn:o"><photo kind="a>b">%b</photo><sig>c2ln</sig></o>' % text(LARGE), version)
    http = encode(envelope)
    soap11 = version is SoapVersion.SOAP11
    media = "text/xml" if soap11 else "application/soap+xml"
    assert http.content_type.startswith('multipart/related; type="application/xop+xml"; start="<root@mercury>"')
    assert f'start-info="{media}"' in http.content_type
    assert (http.soap_action, 'action="urn:a"' in http.content_type) == (('"urn:a"', False) if soap11 else (None, True))
    assert LARGE in http.body
    assert text(LARGE) not in http.body
    assert b">c2ln<" in http.body
    assert decode(http.body, http.content_type, http.soap_action) == envelope
    assert encode(envelope) == http


def test_message_without_large_content_is_a_package_with_one_part() -> None:
    http = encode(written(b"<a/>"))
    assert http.body.count(b"Content-ID") == 1
    assert decode(http.body, http.content_type) == written(b"<a/>")


@pytest.mark.parametrize(
    "xml",
    [
        b"<a>%b </a>" % text(LARGE),
        b"<a>%b</a>" % text(LARGE[:1023]),
        b"<a>%b</a>" % text(LARGE)[:-1],
        b"<a>%bB=</a>" % text(LARGE)[:-2],
        b"<a>%bAB==</a>" % text(LARGE),
        b"<a>%b====</a>" % text(LARGE),
        b"<a>%b</a>" % base64.encodebytes(LARGE),
        b"<a>%b</a>" % base64.urlsafe_b64encode(b"\xff" * 3000),
        b"<a>%b&#61;</a>" % text(LARGE),
        b"<a><b/>%b</a>" % text(LARGE),
        b"<a><b></b>%b</a>" % text(LARGE),
        b"<a>%b<b/></a>" % text(LARGE),
        b"<a><!-- <b>%b</b> --></a>" % text(LARGE),
        b"<a><!-- <b> -->%b</a>" % text(LARGE),
        b"<a><![CDATA[<b>%b</b>]]></a>" % text(LARGE),
        b"<a><![CDATA[%b]]></a>" % text(LARGE),
        b"<a b='<'/>".replace(b"<'", b">%b'" % text(LARGE)),
    ],
)
def test_text_that_would_not_come_back_in_the_same_characters_stays(xml: bytes) -> None:
    http = encode(written(xml))
    assert xml in http.body
    assert http.body.count(b"Content-ID") == 1
    assert decode(http.body, http.content_type) == written(xml)


def test_element_that_xop_forbids_is_sent_without_mtom() -> None:
    for xml in (f"<a>{include('p')}</a>", f"<a><i:Include xmlns:i='{XOP.replace('x', '&#120;')}'/></a>"):
        http = encode(written(xml.encode()))
        assert http.content_type.startswith("application/soap+xml")
        assert decode(http.body, http.content_type) == written(xml.encode())


def test_many_parts_are_within_the_limit_of_a_reader() -> None:
    xml = b"<a>" + b"<b>%b</b>" % text(LARGE) * 400 + b"</a>"
    http = encode(written(xml))
    assert http.body.count(b"Content-ID") == 257
    assert decode(http.body, http.content_type) == written(xml)


def test_boundary_is_none_that_the_content_has() -> None:
    http = encode(written(b"<a>%b</a>" % text(LARGE)))
    (boundary,) = re.findall('boundary="([^"]*)"', http.content_type)
    hostile = written(b"<a>%b<b>%b</b></a>" % (b"", text(f"\r\n--{boundary}--\r\n".encode() * 50)))
    again = encode(hostile)
    assert decode(again.body, again.content_type) == hostile


@given(st.binary(min_size=1000, max_size=1200), st.sampled_from(["", " ", "=", "A", "<!---->"]))
def test_written_content_is_always_the_same_after_reading(content: bytes, after: str) -> None:
    envelope = written(b"<a><b>%b%b</b></a>" % (text(content), after.encode()))
    http = encode(envelope)
    assert decode(http.body, http.content_type) == envelope


def test_writing_takes_linear_time() -> None:
    for xml in (b"<a>" + b"A" * 7 * MEGA + b" </a>", b"<a>" + b"<b x='>'>AAAA</b>" * 40_000 + b"</a>"):
        started = time.thread_time()
        encode(written(xml))
        assert time.thread_time() - started < 2


def test_default_limits_allow_what_mercury_writes() -> None:
    assert DEFAULT_LIMITS.max_parts > MOST_PARTS
