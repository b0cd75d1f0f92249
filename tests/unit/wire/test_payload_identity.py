"""The receiving application gets the payload that was sent: the same bytes, or at least the same canonical XML."""

from __future__ import annotations

import codecs

import pytest
from lxml import etree

from mercury.statemachine.messages import EndpointReference, SequenceHeader
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, SoapVersion
from mercury.wire import Envelope, Payload, canonical, check_payload, decode, encode

from .samples import SOAP12, soap

ACTION = "<wsa:Action>urn:a</wsa:Action>"


def payload_of(data: bytes, content_type: str = "") -> Payload:
    body = decode(data, content_type).body
    assert isinstance(body, Payload)
    return body


def in_place(data: bytes) -> etree._Element:
    """The payload as it stands in the message, by another parser."""
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
    return root.find(f"{{{SOAP12}}}Body")[0]  # type: ignore[index]


def exclusive(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", exclusive=True)


#: Standalone elements that are not easy to leave alone.
STANDALONE = {
    "nothing special": b'<o:Order xmlns:o="urn:o"><o:id>1</o:id></o:Order>',
    "no namespace": b"<order/>",
    "a default namespace": b'<order xmlns="urn:o"><id xmlns="">1</id></order>',
    "the envelope's prefixes for other things": (
        b'<soap:a xmlns:soap="urn:1"><wsa:b xmlns:wsa="urn:2" wsa:c="soap:d"/></soap:a>'
    ),
    "the envelope's prefixes, numbered": (
        b'<a xmlns:soap="urn:u" xmlns:soap1="urn:u" xmlns:wsa1="urn:u">soap:a soap1:b wsa1:c wsrm:d</a>'
    ),
    "the envelope's prefixes in text": b"<a>soap:Server and wsa:To, wsrm:Sequence; soap2:x</a>",
    "the envelope's prefixes in an attribute": b'<a b="soap:Server"/>',
    "the envelope's prefixes in CDATA": b"<a><![CDATA[soap]]>:Server <![CDATA[wsa:]]>To</a>",
    "the envelope's prefixes in references": b"<a>soa&#112;:Server wsa&#x3a;To wsr<!-- -->m:Nack</a>",
    "a prefix at the end of a thousand words": b"<a>" + b"xsoap:" * 1500 + b" wsa:x</a>",
    "declarations that nothing seems to use": b'<a xmlns:p="urn:p" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>',
    "a type by name": b'<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:t="urn:t" xsi:type="t:A"/>',
    "an envelope": soap(ACTION, "<a/>"),
    "text beyond ASCII": "<größe>\N{SNOWMAN}\N{GRINNING FACE}</größe>".encode(),
    "line ends and blanks": b"<a\r\n  b = '1'\t>\r\n  text\r\n\t</a >",
    "a comment, CDATA and quotes": b"""<a b='"' c="'>"><!-- <b> & --><![CDATA[<c>&amp;]]>&lt;&#10;&quot;</a>""",
    "an end that looks like another": b"<a><a/><b></b><a><a/></a></a>",
    "much of everything": b"<a>" + b"<b c='1'>text</b>" * 1000 + b"</a>",
    "more than expat takes at once": b"<a><b>" + b"x" * 3_000_000 + b"</b><c/></a>",
}

#: What can also be a header block and a reference parameter: of no protocol, and not too large for one.
SMALL = [name for name, xml in STANDALONE.items() if len(xml) < 50_000 and name != "an envelope"]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
@pytest.mark.parametrize("name", STANDALONE)
def test_wrapped_payload_is_unwrapped_byte_by_byte(name: str, protocol: Protocol) -> None:
    payload = check_payload(STANDALONE[name])
    assert payload.xml == STANDALONE[name]
    envelope = Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action="urn:a",
        to=EndpointReference("urn:to"),
        # As a reference parameter and as a header block, too.
        reply_to=EndpointReference("urn:reply", (payload.xml,) if name in SMALL else ()),
        sequence=SequenceHeader("urn:s", 1),
        headers=(payload.xml,) if name in SMALL else (),
        body=payload,
    )
    written = encode(envelope)
    assert decode(written.body, written.content_type, written.soap_action) == envelope


def test_the_prefixes_of_the_envelope_are_the_usual_ones_unless_they_collide() -> None:
    def start(xml: bytes) -> bytes:
        envelope = Envelope(soap=SoapVersion.SOAP12, addressing=None, rm=None, action="", body=Payload(xml))
        return encode(envelope).body.partition(b" ")[0]

    assert start(b"<soap/>") == b"<soap:Envelope"
    assert start(b"<xsoap:a xmlns:xsoap='u'/>") == b"<soap:Envelope"
    assert start(b"<soap:a xmlns:soap='u'/>") == b"<soap1:Envelope"
    assert start(b"<a xmlns:soap='u'/>") == b"<soap1:Envelope"
    assert start(b"<a>soap: soap1 soap3:</a>") == b"<soap2:Envelope"
    assert start(b"<a>" + b" ".join(b"soap%d:" % n for n in range(200_000)) + b" soap:</a>") == b"<soap200000:Envelope"


#: Payloads that lean on declarations of the Envelope or the Body, and the declarations that they need.
LEANING = {
    "the element's own prefix": ('xmlns:p="urn:p"', "<p:a/>", {"p": "urn:p"}),
    "a prefix further inside": ('xmlns:p="urn:p"', "<a><b><p:c/></b></a>", {"p": "urn:p"}),
    "an attribute's prefix": ('xmlns:p="urn:p"', "<a p:b=''/>", {"p": "urn:p"}),
    "a name in text": ('xmlns:p="urn:p"', "<a> p:b </a>", {"p": "urn:p"}),
    "a name at the beginning of text": ('xmlns:p="urn:p"', "<a>p:b</a>", {"p": "urn:p"}),
    "a name in an attribute": ('xmlns:p="urn:p"', "<a b='p:c'/>", {"p": "urn:p"}),
    "a name in an XPath": ('xmlns:p="urn:p"', "<a>count(/x/p:b[@p:c=5-p:d])</a>", {"p": "urn:p"}),
    "a name in CDATA": ('xmlns:p="urn:p"', "<a><![CDATA[p:b]]></a>", {"p": "urn:p"}),
    "a name cut by CDATA": ('xmlns:p="urn:p"', "<a><![CDATA[p]]>:b</a>", {"p": "urn:p"}),
    "a name cut by a comment": ('xmlns:pq="urn:p"', "<a>p<!-- --><!--q-->q<!-- -->:b</a>", {"pq": "urn:p"}),
    "a name in references": ('xmlns:p="urn:p"', "<a>&#112;&#x3A;b</a>", {"p": "urn:p"}),
    "a type": (
        'xmlns:p="urn:p" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"',
        '<a xsi:type="p:T"/>',
        {"p": "urn:p", "xsi": "http://www.w3.org/2001/XMLSchema-instance"},
    ),
    "the default namespace": ('xmlns="urn:d"', "<a><b/></a>", {None: "urn:d"}),
    "the default namespace taken back": ('xmlns="urn:d"', "<a xmlns=''><b/></a>", {None: ""}),
    "a prefix declared anew": ('xmlns:p="urn:p"', "<a xmlns:p='urn:q'><p:b/></a>", {"p": "urn:q"}),
    "a prefix declared anew inside": ('xmlns:p="urn:p"', "<p:a><p:b xmlns:p='urn:q'/></p:a>", {"p": "urn:p"}),
    "the envelope's own prefix": ("", "<a>s:b</a>", {"s": SOAP12}),
    "a name beyond ASCII": ('xmlns:größe="urn:p"', "<a>größe:b</a>", {"größe": "urn:p"}),
    "a namespace that needs escaping": ('xmlns:p="urn:p?a=1&amp;b=2"', "<p:a/>", {"p": "urn:p?a=1&b=2"}),
    "no name of theirs": ('xmlns:p="urn:p" xmlns:q="urn:q"', "<a>step:b http://x p : b</a>", {}),
}


@pytest.mark.parametrize("name", LEANING)
def test_namespaces_declared_on_the_envelope_are_kept_with_the_body(name: str) -> None:
    declare, xml, expected = LEANING[name]
    data = soap(ACTION, xml, declare=declare)
    payload = payload_of(data)
    alone = etree.fromstring(payload.xml)
    assert alone.nsmap == expected
    assert exclusive(alone) == exclusive(in_place(data))
    assert alone.tag == payload.name
    assert check_payload(payload.xml) == payload


def test_the_nearest_declaration_counts() -> None:
    data = (
        f'<s:Envelope xmlns:s="{SOAP12}" xmlns="urn:1" xmlns:p="urn:p1" xmlns:q="urn:q"><s:Header/>'
        '<s:Body xmlns="urn:2" xmlns:p="urn:p2"><a b="p:c q:d"/></s:Body></s:Envelope>'
    ).encode()
    assert payload_of(data).xml == b'<a xmlns="urn:2" xmlns:p="urn:p2" xmlns:q="urn:q" b="p:c q:d"/>'
    data = data.replace(b'xmlns="urn:2"', b'xmlns=""')
    assert payload_of(data).xml == b'<a xmlns:p="urn:p2" xmlns:q="urn:q" b="p:c q:d"/>'


@pytest.mark.parametrize(
    ("encoding", "content_type", "declaration"),
    [
        ("utf-8", "text/xml", ""),
        ("utf-8-sig", "text/xml; charset=utf-8", "<?xml version='1.0' encoding='UTF-8'?>"),
        ("utf-16", "", ""),
        ("utf-16", "application/soap+xml; charset=utf-16", "<?xml version='1.0' encoding='UTF-16'?>"),
        ("utf-16-le", "text/xml; charset=utf-16le", ""),
        ("utf-16-be", "text/xml; charset=UTF-16", ""),
        ("utf-16-le", "", ""),
        ("iso-8859-1", 'text/xml; charset="ISO-8859-1"', ""),
        ("iso-8859-1", "", "<?xml version='1.0' encoding=\"iso-8859-1\" standalone='yes'?>"),
        ("cp1252", "text/xml; charset=windows-1252", "<?xml version='1.0' encoding='UTF-8'?>"),
    ],
)
def test_the_payload_is_utf_8_whatever_the_message_was(encoding: str, content_type: str, declaration: str) -> None:
    # The charset of HTTP wins, then the byte order mark, then the XML declaration.
    xml = "<größe xmlns='urn:g'>1 \N{MULTIPLICATION SIGN} 2</größe>"
    data = (declaration + soap(ACTION, xml).decode()).encode(encoding)
    payload = payload_of(data, content_type)
    assert payload == Payload(xml.encode(), "{urn:g}größe")


def test_ascii_is_read_as_what_it_is() -> None:
    data = b"<?xml version='1.0' encoding='US-ASCII'?>" + soap(ACTION, "<a>&#8364;</a>")
    assert canonical(payload_of(data).xml) == "<a>\N{EURO SIGN}</a>".encode()


def test_a_header_block_and_a_reference_parameter_stand_by_themselves_too() -> None:
    headers = (
        f"{ACTION}<h:Trace>p:x</h:Trace><wsa:ReplyTo><wsa:Address>urn:r</wsa:Address>"
        "<wsa:ReferenceParameters><h:Chan/><plain/></wsa:ReferenceParameters></wsa:ReplyTo>"
    )
    envelope = decode(soap(headers, declare='xmlns:h="urn:h" xmlns:p="urn:p" xmlns="urn:d"'), "")
    assert envelope.headers == (b'<h:Trace xmlns:h="urn:h" xmlns:p="urn:p" xmlns="urn:d">p:x</h:Trace>',)
    assert envelope.reply_to == EndpointReference(
        "urn:r", (b'<h:Chan xmlns:h="urn:h" xmlns="urn:d"/>', b'<plain xmlns="urn:d"/>')
    )


def test_an_envelope_inside_an_envelope_is_a_payload() -> None:
    inner = soap(ACTION, "<a/>")
    assert payload_of(soap(ACTION, inner.decode())).xml == inner


def test_a_byte_order_mark_is_not_part_of_the_message() -> None:
    assert payload_of(codecs.BOM_UTF8 + soap(ACTION, "<a/>")).xml == b"<a/>"
