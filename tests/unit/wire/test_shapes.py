"""A message of a known shape is read as it would be in full: the same envelope, or the same refusal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, AckRequested, SequenceAcknowledgement, SequenceHeader
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.wire import DEFAULT_LIMITS, Envelope, Limits, Payload, Undecodable, decode, encode
from mercury.wire.shapes import MAX_KINDS, MAX_SHAPES, MAX_VALUE, PATIENCE, SAMPLE, Kind, Shapes

from .samples import SERVICE, every_message, soap
from .test_fuzz import NASTY, PREFIXES, REAL, TOKENS, tree, wire

XML11 = "text/xml; charset=utf-8"
SEQUENCE, MESSAGE = "urn:uuid:11111111-1111-1111-1111-111111111111", "urn:uuid:22222222-2222-2222-2222-222222222222"
ORDER = '<o:Order xmlns:o="urn:o" o:kind="a"><o:id>1</o:id></o:Order>'
HEADERS = (
    "<wsa:Action>urn:a</wsa:Action><wsa:MessageID>urn:m:1</wsa:MessageID>"
    '<wsrm:Sequence s:mustUnderstand="1"><wsrm:Identifier>urn:s</wsrm:Identifier>'
    "<wsrm:MessageNumber>1</wsrm:MessageNumber></wsrm:Sequence>"
)
ACKNOWLEDGES = (
    "<wsa:Action>urn:a</wsa:Action><wsa:MessageID>urn:m:1</wsa:MessageID><wsrm:SequenceAcknowledgement>"
    '<wsrm:Identifier>urn:s</wsrm:Identifier><wsrm:AcknowledgementRange Lower="1" Upper="3"/>'
    '<wsrm:AcknowledgementRange Lower="7" Upper="9"/>'
    '<n:BufferRemaining xmlns:n="http://schemas.microsoft.com/ws/2006/05/rm">5</n:BufferRemaining>'
    "</wsrm:SequenceAcknowledgement>"
)


def kind_of(content_type: str = "", soap_action: str | None = None) -> Kind:
    return content_type, soap_action, frozenset(), False


def outcome(data: bytes, content_type: str, limits: Limits, shapes: Shapes | None) -> object:
    try:
        return decode(data, content_type, limits=limits, shapes=shapes)
    except Undecodable as error:
        return error.fault, error.soap, error.addressing, error.rm, error.message_id


def known(*messages: bytes, content_type: str = "", limits: Limits = DEFAULT_LIMITS) -> Shapes:
    """The shapes of these messages."""
    shapes = Shapes(limits)
    for message in messages:
        outcome(message, content_type, limits, shapes)
    return shapes


def is_same(data: bytes, shapes: Shapes, content_type: str = "", limits: Limits = DEFAULT_LIMITS) -> bool:
    return outcome(data, content_type, limits, shapes) == outcome(data, content_type, limits, None)


def message(protocol: Protocol, number: int, *, asks: bool) -> Envelope:
    return Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action="urn:app:op",
        to=SERVICE,
        message_id=f"urn:uuid:{number:032x}",
        sequence=SequenceHeader(f"urn:uuid:{number + 1:032x}", number),
        ack_requests=(AckRequested(f"urn:uuid:{number + 1:032x}"),) if asks else (),
        body=Payload(f'<o:Order xmlns:o="urn:o">{number}</o:Order>'.encode(), "{urn:o}Order"),
    )


def acknowledgement(protocol: Protocol, number: int, *, ranges: int) -> Envelope:
    given = tuple((number + 10 * each, number + 10 * each + 5) for each in range(ranges))
    room = min(number, 4096) if protocol.rm is RmVersion.RM11 else None
    return replace(
        message(protocol, number, asks=False),
        to=ANONYMOUS_ENDPOINT,
        sequence=None,
        acknowledgements=(SequenceAcknowledgement(f"urn:uuid:{number:032x}", given, buffer_remaining=room),),
        body=Payload(b"", ""),
    )


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_second_message_of_mercury_is_read_by_its_shape(protocol: Protocol) -> None:
    shapes = Shapes(DEFAULT_LIMITS)
    for number in (1, 2, 10**17):
        for envelope in (
            message(protocol, number, asks=False),
            message(protocol, number, asks=True),
            acknowledgement(protocol, number, ranges=1),
            acknowledgement(protocol, number, ranges=3),
        ):
            http = encode(envelope)
            kind = kind_of(http.content_type, http.soap_action)
            by_shape = shapes.read(kind, http.body)
            assert by_shape == (None if number == 1 else envelope)
            assert decode(http.body, http.content_type, http.soap_action, shapes=shapes) == envelope


@settings(wire, max_examples=300)
@given(st.data())
def test_changed_message_is_read_as_in_full(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(REAL))
    shapes = known(base)
    changed = base
    for _ in range(data.draw(st.integers(1, 3))):
        match data.draw(st.integers(0, 4)):
            case 0:  # another value in a gap, plain or not
                texts = [each.span(1) for each in re.finditer(rb"[>\"]([^<>\"]+)[<\"]", changed)]
                start, end = data.draw(st.sampled_from(texts)) if texts else (0, 0)
                value = data.draw(st.one_of(st.sampled_from([b"", b"0", b"7", b"01", b"urn:x", *TOKENS]), st.binary()))
                changed = changed[:start] + value + changed[end:]
            case 1:  # another content of the Body
                inside = re.search(rb"Body[^>]*>(.*)</[^<]*Body>", changed, re.DOTALL)
                start, end = inside.span(1) if inside else (0, 0)
                xml = data.draw(st.one_of(tree(frozenset()), tree(frozenset(PREFIXES)), st.sampled_from(NASTY)))
                more = data.draw(st.sampled_from(["", " ", "<x/>", "<!-- -->", "<?xml version='1.0'?>", "]]>"]))
                changed = (
                    changed[:start] + data.draw(st.sampled_from([more + xml, xml + more])).encode() + changed[end:]
                )
            case 2:
                at = data.draw(st.integers(0, len(changed)))
                changed = changed[:at] + data.draw(st.sampled_from(TOKENS)) + changed[at:]
            case 3:
                at = data.draw(st.integers(0, len(changed)))
                changed = changed[:at] + changed[at + data.draw(st.integers(0, 40)) :]
            case _:
                at = data.draw(st.integers(0, len(changed)))
                changed = changed[:at] + data.draw(st.binary(max_size=4)) + changed[at + 1 :]
    assert is_same(changed, shapes)
    assert is_same(base, shapes)


@settings(wire, max_examples=60)
@given(st.data())
def test_content_of_any_size_is_read_as_in_full_within_any_limits(data: st.DataObject) -> None:
    limits = Limits(
        max_bytes=data.draw(st.integers(700, 1200)),
        max_depth=data.draw(st.integers(1, 6)),
        max_elements=data.draw(st.integers(1, 14)),
        max_attributes=data.draw(st.integers(1, 5)),
        max_total_attributes=data.draw(st.integers(5, 14)),
        max_name_length=data.draw(st.integers(50, 120)),
        max_uri_length=data.draw(st.sampled_from([3, MAX_VALUE - 1, MAX_VALUE])),
    )
    generous = replace(limits, max_depth=8, max_elements=20, max_total_attributes=20, max_attributes=8)
    first, contents = soap(HEADERS, "<a/>"), [data.draw(tree(frozenset())) for _ in range(2)]
    for some in (limits, generous):
        shapes = known(first, limits=some)
        for xml in contents:
            assert is_same(first.replace(b"<a/>", xml.encode()), shapes, limits=some)


CONTENTS = {
    "prefix of the envelope": '<a wsa:b="1"/>',
    "prefix of the envelope in text": "<a>wsa:To</a>",
    "prefix in a reference": "<a>&#119;sa:To</a>",
    "prefix in pieces": "<a>ws<!-- -->a:To</a>",
    "XML declaration": '<?xml version="1.0"?><a/>',
    "processing instruction": "<a><?p x?></a>",
    "DOCTYPE": "<!DOCTYPE a><a/>",
    "comment before": "<!-- --><a/>",
    "comment after": "<a/><!-- -->",
    "blanks around": " \r\n<a/>\t",
    "other blanks around": "\x0b<a/>",
    "text before": "x<a/>",
    "text after": "<a/>x",
    "two elements": "<a/><b/>",
    "end of the Body": "<a/></s:Body><s:Body><b/>",
    "end of the Envelope": "<a/></s:Body></s:Envelope><x/><s:Envelope><s:Body>",
    "unbound prefix": "<p:a/>",
    "entity": "<a>&e;</a>",
    "not closed": "<a>",
    "fault": '<f:Fault xmlns:f="http://www.w3.org/2003/05/soap-envelope"/>',
    "message of the protocol": (
        '<r:TerminateSequence xmlns:r="http://docs.oasis-open.org/ws-rx/wsrm/200702">'
        "<r:Identifier>urn:s</r:Identifier></r:TerminateSequence>"
    ),
    "nothing": "",
    "blanks": " \n",
    "text": "x",
    "default namespace": '<a xmlns="urn:x"><b xmlns=""/></a>',
    "characters that XML does not have": "<a>\x01</a>",
    "depth at the limit": "<a>" * 62 + "</a>" * 62,
    "depth above the limit": "<a>" * 63 + "</a>" * 63,
    "attributes at the limit": "<a " + " ".join(f"a{each}=''" for each in range(64)) + "/>",
    "attributes above the limit": "<a " + " ".join(f"a{each}=''" for each in range(65)) + "/>",
    "name at the limit": f"<{'a' * 1024}/>",
    "name above the limit": f"<{'a' * 1025}/>",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_is_read_as_in_full(name: str) -> None:
    shapes = known(soap(HEADERS, ORDER))
    assert is_same(soap(HEADERS, CONTENTS[name]), shapes)


def test_content_in_another_encoding_is_refused() -> None:
    shapes = known(soap(HEADERS, ORDER))
    assert is_same(soap(HEADERS, "<a>?</a>").replace(b"?", b"\xe4"), shapes)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("xml", ["<a/>", '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;&e;</a>'])
def test_content_in_an_encoding_that_expat_detects_is_refused(codec: str, xml: str) -> None:
    shapes = known(soap(HEADERS, ORDER))
    data = soap(HEADERS, "<a>?</a>").replace(b"<a>?</a>", xml.encode(codec))
    assert is_same(data, shapes)
    with pytest.raises(Undecodable):
        decode(data, "", shapes=shapes)


def test_elements_and_attributes_of_the_header_count() -> None:
    # 8 elements and 5 attributes are around the content.
    limits = Limits(max_elements=10, max_total_attributes=8)
    shapes = known(soap(HEADERS, "<a/>"), limits=limits)
    for xml in ("<a><b/></a>", "<a><b/><c/></a>", '<a b=""/>', '<a b="" c="" d=""/>', '<a b="" c="" d="" e=""/>'):
        assert is_same(soap(HEADERS, xml), shapes, limits=limits), xml


def test_namespace_that_needs_no_declaration_counts_for_the_length_of_a_name() -> None:
    limits = Limits(max_name_length=60)
    first = soap(HEADERS, "<a/>", rm="http://schemas.xmlsoap.org/ws/2005/02/rm")
    first = first.replace(b' xmlns:wsmc="http://docs.oasis-open.org/ws-rx/wsmc/200702"', b"")
    shapes = known(first, limits=limits)
    assert shapes.read(kind_of(), first) is not None
    assert is_same(first.replace(b"<a/>", b'<a xml:abcdefghijklmnopqrstuvwxyz=""/>'), shapes, limits=limits)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("urn:m:1", ""),
        ("urn:m:1", " urn:m:2 "),
        ("urn:m:1", "urn:m:&#50;"),
        ("urn:m:1", "urn:m:ä"),
        ("urn:m:1", "u" * MAX_VALUE),
        ("urn:m:1", "u" * (MAX_VALUE + 1)),
        ("urn:m:1", "u" * 3000),
        ("urn:m:1", "<x/>"),
        (">1<", ">0<"),
        (">1<", ">01<"),
        (">1<", "> 2<"),
        (">1<", ">-1<"),
        (">1<", ">9223372036854775807<"),
        (">1<", ">9223372036854775808<"),
        (">1<", ">999999999999999999<"),
        ("urn:s", "urn:t"),
        ("wsrm:Identifier>", "wsrm:Identified>"),
        ("urn:a", "urn:b"),
        ("</s:Envelope>", "</s:Envelope>\n"),
        ("</s:Envelope>", "</s:Envelope><!-- -->"),
        ("</s:Envelope>", "</s:Envelope>x"),
        ("</s:Envelope>", ""),
    ],
)
def test_other_value_is_read_as_in_full(before: str, after: str) -> None:
    first = soap(HEADERS, ORDER).decode()
    assert is_same(first.replace(before, after).encode(), known(first.encode()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Lower="7" Upper="9"', 'Lower="9" Upper="7"'),
        ('Lower="7" Upper="9"', 'Lower="4" Upper="9"'),
        ('Lower="7" Upper="9"', 'Lower="0" Upper="0"'),
        ('Lower="7" Upper="9"', 'Upper="9" Lower="7"'),
        ('Lower="7"', 'Lower="&#55;"'),
        (">5<", ">0<"),
        (">5<", ">05<"),
        (">5<", ">2147483647<"),
        (">5<", ">2147483648<"),
        (">urn:s<", "> <"),
    ],
)
def test_other_acknowledgement_is_read_as_in_full(before: str, after: str) -> None:
    first = soap(ACKNOWLEDGES).decode()
    shapes = known(first.encode())
    assert shapes.read(kind_of(), first.encode()) is not None
    assert is_same(first.replace(before, after).encode(), shapes)


def test_shape_whose_body_is_one_tag_has_no_content() -> None:
    first = soap(ACKNOWLEDGES).replace(b"<s:Body></s:Body>", b"<s:Body/>")
    shapes = known(first)
    assert shapes.read(kind_of(), first) is not None
    assert is_same(first + b"<a/>", shapes)


def test_content_in_the_default_namespace_of_the_envelope_gets_its_declaration() -> None:
    shapes = known(soap(HEADERS, "<a/>", declare='xmlns="urn:d"'))
    data = soap(HEADERS, "<b/>", declare='xmlns="urn:d"')
    assert is_same(data, shapes)
    assert decode(data, "", shapes=shapes).body == Payload(b'<b xmlns="urn:d"/>', "{urn:d}b")


def test_message_above_the_limit_on_its_bytes_is_refused() -> None:
    first = soap(HEADERS, "<a>1</a>")
    limits = Limits(max_bytes=len(first))
    shapes = known(first, limits=limits)
    assert is_same(soap(HEADERS, "<a>2</a>"), shapes, limits=limits)
    assert is_same(soap(HEADERS, "<a>10</a>"), shapes, limits=limits)


def test_shape_is_known_only_with_the_same_http_headers() -> None:
    data, shapes = soap(HEADERS, ORDER), Shapes(DEFAULT_LIMITS)
    decode(data, 'application/soap+xml; action="urn:a"', shapes=shapes)
    for content_type in ("", 'application/soap+xml; action="urn:b"', "application/soap+xml; charset=utf-16", XML11):
        assert is_same(data, shapes, content_type)
    assert shapes.read(('application/soap+xml; action="urn:a"', None, frozenset(), False), data) is not None
    for other in (
        ('application/soap+xml; action="urn:a"', '"urn:b"', frozenset(), False),
        ('application/soap+xml; action="urn:a"', None, frozenset({"{urn:h}h"}), False),
        ('application/soap+xml; action="urn:a"', None, frozenset(), True),
    ):
        assert shapes.read(other, data) is None


@pytest.mark.parametrize("content_type", ["text/xml; charset=us-ascii", "text/xml; charset=iso-8859-1"])
def test_message_in_another_encoding_has_no_shape(content_type: str) -> None:
    data = soap(HEADERS, ORDER, ns="http://schemas.xmlsoap.org/soap/envelope/")
    shapes = known(data, content_type=content_type)
    assert is_same(data.replace(b">1<", ">ä<".encode()), shapes, content_type)
    assert shapes.read(kind_of(content_type), data) is None


def test_messages_of_every_kind_are_read_as_in_full_the_second_time() -> None:
    for protocol in ALL_PROTOCOLS:
        for name, envelope in every_message(protocol):
            http = encode(envelope)
            shapes = known(http.body, content_type=http.content_type)
            assert is_same(http.body, shapes, http.content_type), name


def test_number_of_shapes_is_bounded() -> None:
    shapes, first = Shapes(DEFAULT_LIMITS), soap(HEADERS, ORDER)
    for number in range(MAX_SHAPES + 1):
        decode(first.replace(b"urn:a", b"urn:%d" % number), "", shapes=shapes)
    assert shapes.read(kind_of(), first.replace(b"urn:a", b"urn:0")) is None
    assert shapes.read(kind_of(), first.replace(b"urn:a", b"urn:1")) is not None
    for number in range(MAX_KINDS):
        decode(first, "application/soap+xml" + ";" * number, shapes=shapes)
    assert shapes.read(kind_of(), first.replace(b"urn:a", b"urn:1")) is None


def test_header_above_the_limit_has_no_shape() -> None:
    data = soap(HEADERS + " " * 9000, ORDER)  # nothing of it is kept beside the header
    assert known(data).read(kind_of(), data) is None


def test_texts_kept_beside_a_header_are_bounded_as_the_header_is() -> None:
    def kept(data: bytes, content_type: str = "", soap_action: str | None = None) -> bool:
        shapes = Shapes(DEFAULT_LIMITS)
        decode(data, content_type, soap_action, shapes=shapes)
        return shapes.read(kind_of(content_type, soap_action), data) is not None

    def repeated(pieces: str) -> bytes:
        """Each piece is small, and repeats a long declaration when it is cut out."""
        return soap(HEADERS + pieces, ORDER, declare=f'xmlns:l="urn:{"l" * 900}"')

    parameters = "<wsa:Address>urn:r</wsa:Address><wsa:ReferenceParameters>{}</wsa:ReferenceParameters>"
    for count, expected in ((8, True), (10, False)):
        assert kept(repeated("<l:h/>" * count)) is expected
        for name in ("ReplyTo", "FaultTo", "From"):
            assert kept(repeated(f"<wsa:{name}>{parameters.format('<l:h/>' * count)}</wsa:{name}>")) is expected, name
    one = repeated("<l:h/>" * 5)
    assert kept(one)
    assert not kept(one.replace(b"</s:Envelope>", b"</s:Envelope>" + b" " * 5000))
    data = soap(HEADERS, ORDER, ns="http://schemas.xmlsoap.org/soap/envelope/")
    assert kept(data, XML11, '"urn:a"')
    assert not kept(data, XML11 + f'; x="{"x" * 5000}"; y="{"y" * 5000}"')
    assert not kept(data, XML11, " " * 9000 + '"urn:a"')


def test_few_shapes_are_kept_while_no_message_has_a_known_one() -> None:
    shapes, first = Shapes(DEFAULT_LIMITS), soap(HEADERS, ORDER)
    wanted = 0
    for number in range(PATIENCE + 10 * SAMPLE):
        decode(first.replace(b"urn:a", b"urn:%d" % number), "", shapes=shapes)
        wanted += shapes.wanted
    assert wanted == PATIENCE + 10
