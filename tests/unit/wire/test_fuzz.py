"""Properties of random messages. Hypothesis generates the same messages in each run."""

from __future__ import annotations

import copy
import re
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from mercury.statemachine.messages import SequenceHeader
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.wire import Envelope, Payload, Undecodable, canonical, check_payload, decode, encode

from .samples import SOAP12, every_message, soap
from .schemas import DATA

settings.register_profile("wire", derandomize=True, deadline=None, max_examples=400)
wire = settings.get_profile("wire")

REAL = sorted(
    [path.read_bytes() for folder in ("messages", "wire") for path in (DATA / folder).glob("*.xml")]
    + [encode(envelope).body for protocol in ALL_PROTOCOLS for _, envelope in every_message(protocol)]
)

#: What turns a message into a nastier one more often than any byte would.
TOKENS = [
    token.encode("latin-1")
    for token in [
        "<",
        ">",
        "/>",
        "</",
        "&",
        "&amp;",
        "&#0;",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?x?>",
        "<!DOCTYPE>",
        '"',
        "'",
        "\x00",
        "ÿ",
        "ï»¿",
        ":",
        "s:",
        "wsa:",
        "wsrm:",
        "<a/>",
        "<s:Header/>",
        "<s:Body/>",
        "<wsa:Action>a</wsa:Action>",
        "<wsrm:Identifier>a</wsrm:Identifier>",
        "0",
        "-1",
        "9223372036854775808",
        "PT0S",
        "P1Y",
        "2004/08",
        "2005/02/rm",
    ]
] + [b" ", b" xmlns=''", b" xmlns:s='urn:x'", b" s:mustUnderstand='1'"]
CONTENTS = ["", "0", "2", " 7 ", "x", "PT0.25S", "s:Receiver", "wsrm:SequenceClosed", "DiscardEntireSequence"]
WORDS = [b"11", b"12", b"10", b"Sequence", b"Address", b"1", b"/", b"s"]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = draw(st.sampled_from(REAL))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.integers(0, 40))
        match draw(st.integers(0, 4)):
            case 0:
                data = data[:at] + data[until:]
            case 1:
                data = data[:at] + draw(st.binary(max_size=4)) + data[at + 1 :]
            case 2:
                data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]
            case 3:
                data = data[:at] + data[at:until] + data[at:]
            case _:
                data = data.replace(draw(st.sampled_from(WORDS)), draw(st.sampled_from(WORDS)), draw(st.integers(1, 3)))
    return data


@st.composite
def rearranged(draw: st.DrawFn) -> bytes:
    """A real message whose elements were lost, repeated, moved, renamed or given another content: still well-formed."""
    root = etree.fromstring(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(1, 4))):
        elements = [element for element in root.iter() if isinstance(element.tag, str)]
        one, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        parent = one.getparent()
        match draw(st.integers(0, 4)):
            case 0 if parent is not None:
                parent.remove(one)
            case 1:
                other.append(copy.deepcopy(one))
            case 2:
                other.insert(0, copy.deepcopy(one))
            case 3:
                one.tag = other.tag
            case _:
                one.text = draw(st.sampled_from(CONTENTS))
    return etree.tostring(root)


@wire
@given(
    st.one_of(mutated(), rearranged()),
    st.sampled_from(["", "text/xml; charset=utf-16", 'application/soap+xml; action="urn:app:op"']),
)
def test_envelope_read_written_and_read_again_is_equal(data: bytes, content_type: str) -> None:
    try:
        envelope = decode(data, content_type)
    except Undecodable:
        return
    try:
        written = encode(envelope)
    except ValueError:
        assert envelope.addressing is None  # read tolerantly, but there is no strict form of it
        return
    # The first time around, what one version cannot say and what peers write loosely gets lost; then nothing.
    again = decode(written.body, written.content_type, written.soap_action)
    once_more = encode(again)
    assert decode(once_more.body, once_more.content_type, once_more.soap_action) == again
    if isinstance(envelope.body, Payload):
        assert again.body == envelope.body


@wire
@given(st.binary(max_size=200), st.text(max_size=60), st.text(max_size=20))
def test_any_bytes_under_any_header_are_read_or_refused(data: bytes, content_type: str, soap_action: str) -> None:
    for message in (data, soap()):
        with suppress(Undecodable):
            decode(message, content_type, soap_action)


#: Prefixes that the elements of a tree use, with the namespaces that they get when they are declared.
PREFIXES = {"": "urn:d", "p": "urn:p", "soap": "urn:s", "wsa": "urn:w", "s": "urn:x", "ns0": "urn:n", "xs": "urn:xs"}
NAMES = st.sampled_from(["a", "b", "Body", "größe", "x-y.z"])
NASTY = ["", "p:x", "soap:Server ", "s:", "5-wsa:b", "<![CDATA[wsa:]]>", "so<!-- -->ap:x", "&#115;oap:y", "\r\n"]
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<>&\ufffe\uffff"), max_size=8),
)


def tree(declared: frozenset[str]) -> st.SearchStrategy[str]:
    """An element as text; prefixes that it uses and that are not in ``declared`` are declared on it."""

    @st.composite
    def element(draw: st.DrawFn, declared: frozenset[str] = declared, depth: int = 0) -> str:
        prefix = draw(st.sampled_from(sorted(PREFIXES)))
        name = draw(NAMES)
        attribute = draw(st.sampled_from(["", *sorted(PREFIXES)]))
        value = draw(st.sampled_from(["", "p:T", "soap:T xs:T", "&#x73;:T"]))
        needed = {prefix, attribute} - {""} - declared
        if not prefix and "" not in declared and draw(st.booleans()):
            needed.add("")
        extra = draw(st.sets(st.sampled_from(sorted(PREFIXES)), max_size=2))
        new = needed | extra
        declarations = "".join(f' xmlns{":" if each else ""}{each}="{PREFIXES[each]}{depth}"' for each in sorted(new))
        attributes = f' {attribute}{":" if attribute else ""}c="{value}"' if value else ""
        children = "" if depth > 2 else "".join(
            draw(st.lists(st.one_of(TEXTS, element(declared | new, depth + 1)), max_size=3))
        )  # fmt: skip
        full = f"{prefix}:{name}" if prefix else name
        if not children and draw(st.booleans()):
            return f"<{full}{declarations}{attributes}/>"
        return f"<{full}{declarations}{attributes}>{children}</{full}>"

    return element()


@wire
@given(tree(frozenset()), st.sampled_from(ALL_PROTOCOLS))
def test_any_payload_comes_out_as_it_went_in(xml: str, protocol: Protocol) -> None:
    payload = check_payload(xml)
    envelope = Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action="urn:a",
        sequence=SequenceHeader("urn:s", 1),
        body=payload,
    )
    body = decode(encode(envelope).body, "").body
    assert body == payload
    assert isinstance(body, Payload)
    assert canonical(body.xml) == canonical(xml)


@wire
@given(tree(frozenset({"p", "soap", "", "xs"})), st.booleans())
def test_any_payload_that_leans_on_its_envelope_can_stand_alone(xml: str, utf16: bool) -> None:
    declare = 'xmlns="urn:e" xmlns:p="urn:ep" xmlns:soap="urn:es" xmlns:xs="urn:exs"'
    data = soap("<wsa:Action>urn:a</wsa:Action>", xml, declare=declare)
    body = decode(data.decode().encode("utf-16") if utf16 else data, "").body
    assert isinstance(body, Payload)
    # Another parser's opinion about the element in its place, where every declaration holds.
    place = etree.fromstring(data, etree.XMLParser(resolve_entities=False)).find(f"{{{SOAP12}}}Body")
    assert place is not None
    alone = etree.fromstring(body.xml)
    assert etree.tostring(alone, method="c14n", exclusive=True) == etree.tostring(
        place[0], method="c14n", exclusive=True, with_comments=True
    )
    # Names in content mean the same, too.
    for used in ("p", "soap", "xs"):
        if any(re.search(rf"(?<![A-Za-z_]){used}:", str(text)) for text in alone.itertext()):
            assert alone.nsmap[used] == place[0].nsmap[used]
