"""Hostile messages are answered with a fault, quickly, and nothing is fetched or expanded (decision 28)."""

from __future__ import annotations

import codecs
import gzip
import socket
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import pytest

from mercury.statemachine.faults import Fault, FaultCode
from mercury.wire import DEFAULT_LIMITS, Limits, Payload, check_payload, decode, encode, read_common
from mercury.wire.cut import cut, searchable
from mercury.wire.envelope import MessageBatch
from mercury.wire.mapping_parse import FED_AT_ONCE, parse_values
from mercury.wire.scan import Scope

from .samples import refusal, soap

MIB = 1024 * 1024
ACTION = "<wsa:Action>urn:a</wsa:Action>"
LONG = f"<!ENTITY a '{'x' * 100_000}'>"
LAUGHS = "<!ENTITY l0 'ha'>" + "".join(f"<!ENTITY l{n + 1} '{10 * f'&l{n};'}'>" for n in range(9))


def with_doctype(internal: str, body: str = "<a/>") -> bytes:
    return f"<!DOCTYPE s:Envelope [{internal}]>".encode() + soap(body=body)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(with_doctype(LAUGHS, "<a>&l9;</a>"), id="billion laughs"),
        pytest.param(with_doctype(LONG, "<a>" + "&a;" * 100_000 + "</a>"), id="quadratic blow-up"),
        pytest.param(with_doctype("<!ENTITY a '&b;'><!ENTITY b '&a;'>", "<a>&a;</a>"), id="recursion"),
        pytest.param(with_doctype("<!ENTITY a SYSTEM 'file:///etc/passwd'>", "<a>&a;</a>"), id="external file"),
        pytest.param(with_doctype("<!ENTITY a SYSTEM 'http://127.0.0.1:9/'>", "<a>&a;</a>"), id="external web"),
        pytest.param(with_doctype("<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'> %p;"), id="parameter entity"),
        pytest.param(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">' + soap(), id="external subset"),
        pytest.param(b"<!DOCTYPE a>" + soap(), id="DOCTYPE alone"),
        pytest.param(b"<!DOCTYPE " + b"[" * MIB, id="DOCTYPE without end"),
    ],
)  # fmt: skip
def test_a_doctype_is_refused_and_nothing_of_it_is_used(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", reached)
    monkeypatch.setattr(Path, "open", reached)
    tracemalloc.start()
    try:
        assert refusal(data).fault.code is FaultCode.SENDER
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


def many(text: str, size: int = DEFAULT_LIMITS.max_bytes - 2000) -> str:
    """``text`` again and again, up to ``size`` bytes."""
    return text * (size // len(text))


def attributes(count: int) -> str:
    return " ".join(f"a{number}=''" for number in range(count))


def declarations(count: int) -> str:
    return " ".join(f"xmlns:p{number}='u'" for number in range(count))


def body(xml: str) -> bytes:
    return soap(ACTION, xml)


#: Built when they are needed: together they are large.
TOO_MUCH: dict[str, tuple[Callable[[], bytes], str]] = {
    "deep": (lambda: body("<a>" * 100_000), "nested deeper than 64"),
    "unclosed": (lambda: b"<a>" * 30_000, "nested deeper than 64"),
    "wide": (lambda: body(f"<a>{many('<b/>')}</a>"), "50000 elements"),
    "wide header": (lambda: soap(many("<b/>")), "64 header blocks"),
    "wide header block": (lambda: soap(f"<h>{many('<b/>')}</h>"), "50000 elements"),
    "header blocks": (lambda: soap(ACTION + "<h/>" * 64), "64 header blocks"),
    "attributes": (lambda: body(f"<a {attributes(600_000)}/>"), "64 attributes"),
    "namespaces": (lambda: body(f"<a {declarations(400_000)}/>"), "64 attributes"),
    "attributes and namespaces": (
        lambda: body(f"<a {attributes(33)} {declarations(33)}/>"),
        "64 attributes",
    ),
    "attributes of all elements": (lambda: body(f"<a>{f'<b {attributes(40)}/>' * 5_001}</a>"), "200000 attributes"),
    "namespaces of all elements": (lambda: body(f"<a>{f'<b {declarations(40)}/>' * 5_001}</a>"), "200000 attributes"),
    "name": (lambda: body(f"<{many('a')}/>"), "longer than 1024 bytes"),
    "name of few characters": (lambda: body(f"<{'é' * 600}/>"), "longer than 1024 bytes"),
    "attribute name": (lambda: body(f"<a {many('a')}=''/>"), "longer than 1024 bytes"),
    "namespace": (lambda: body(f"<a xmlns='{many('u')}'/>"), "longer than 1024 bytes"),
    "prefix": (lambda: body(f"<a xmlns:{many('p')}='u'/>"), "longer than 1024 bytes"),
    "action": (lambda: soap(f"<wsa:Action>{many('a')}</wsa:Action>"), "2048 bytes"),
    "action in references": (lambda: soap(f"<wsa:Action>{many('&#97;')}</wsa:Action>"), "2048 bytes"),
    "identifier": (
        lambda: body(f"<wsrm:CloseSequence><wsrm:Identifier>{'é' * 1025}</wsrm:Identifier></wsrm:CloseSequence>"),
        "2048 bytes",
    ),
    "bytes": (lambda: b" " * (DEFAULT_LIMITS.max_bytes + 1), "8388608 bytes"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_input_above_a_limit_is_refused_with_the_name_of_the_limit(name: str) -> None:
    make, limit = TOO_MUCH[name]
    fault = refusal(make()).fault
    assert fault.code is FaultCode.SENDER
    assert limit in fault.reason


@pytest.mark.parametrize("name", ["attributes", "namespaces"])
def test_too_many_attributes_are_refused_before_the_parser_has_read_them(name: str) -> None:
    data = TOO_MUCH[name][0]()
    started = time.thread_time()
    expat.ParserCreate("UTF-8", "}").Parse(data, True)
    read = time.thread_time() - started
    started = time.thread_time()
    refusal(data)
    assert time.thread_time() - started < read / 2


def test_header_blocks_are_counted_while_they_are_read() -> None:
    # What follows the breach is not looked at: it is not even XML.
    assert "64 header blocks" in refusal(soap(ACTION + "<h/>" * 64 + "<")).fault.reason


@pytest.mark.parametrize(
    "xml",
    [
        pytest.param(f"<!-- <a {attributes(100)}> -->", id="comment"),
        pytest.param(f"<![CDATA[ <a {attributes(100)}/> ]]>", id="CDATA"),
        pytest.param(f"{attributes(100)}", id="text"),
        pytest.param("<b " + attributes(32).replace("''", "\" a='' b='' c='' >\"") + "/>", id="attributes"),
        pytest.param(f"<b {attributes(64)}/>" * 3, id="as many as allowed"),
        pytest.param("<b x='1' y='2'/>" * 100, id="many elements"),
    ],
)
def test_text_that_resembles_many_attributes_is_read(xml: str) -> None:
    assert isinstance(decode(body(f"<a>{xml}</a>"), "").body, Payload)


@pytest.mark.parametrize("before", ["<!-- x --><b/>", "<![CDATA[<a]]>", "<b c='>'/>", "text = text"])
def test_too_many_attributes_are_found_behind_anything(before: str) -> None:
    for crowded in (f"<p-x\n{attributes(65)} >", f"<é\t{attributes(65)}/>", "<x" + ' a = "\'"' * 65 + "/>"):
        assert "64 attributes" in refusal(body(f"<a>{before}{crowded}</a>")).fault.reason


def test_fault_about_attributes_names_the_message() -> None:
    header = f"{ACTION}<wsa:MessageID>urn:m</wsa:MessageID>"
    error = refusal(soap(header, f"<a {attributes(65)}/>"))
    assert (error.message_id, error.soap.value) == ("urn:m", "1.2")


def test_body_too_large_after_decoding_is_refused() -> None:
    data = soap(body="<a>" + "é" * 1000 + "</a>").decode().encode("iso-8859-1")
    limits = Limits(max_bytes=len(data))
    assert "larger than" in refusal(data, "text/xml; charset=iso-8859-1", limits=limits).fault.reason
    # And what would become smaller counts as it arrived.
    data = soap().decode().encode("utf-16")
    assert "larger than" in refusal(data, limits=Limits(max_bytes=len(data) - 1)).fault.reason
    assert decode(data, "", limits=Limits(max_bytes=len(data)))


@pytest.mark.parametrize("form", ['<wsrm:AcknowledgementRange Lower="1" Upper="1"/>', "<wsrm:Nack>1</wsrm:Nack>"])
def test_an_acknowledgement_of_too_many_ranges_is_refused(form: str) -> None:
    # A limit and not a bad acknowledgement: the whole message is refused.
    def acknowledgement(count: int) -> bytes:
        inside = "<wsrm:Identifier>urn:s</wsrm:Identifier>" + form * count
        return soap(f"{ACTION}<wsrm:SequenceAcknowledgement>{inside}</wsrm:SequenceAcknowledgement>")

    assert len(decode(acknowledgement(1024), "").acknowledgements) == 1
    assert "1024 ranges" in refusal(acknowledgement(1025)).fault.reason


@pytest.mark.parametrize("form", ['<wsrm:AcknowledgementRange Lower="{0}" Upper="{0}"/>', "<wsrm:Nack>{0}</wsrm:Nack>"])
def test_acknowledgements_with_too_many_ranges_in_all_are_refused(form: str) -> None:
    def acknowledgements(count: int) -> bytes:
        inside = "".join(form.format(2 * number) for number in range(1, 1001))
        block = f"<wsrm:Identifier>urn:s</wsrm:Identifier>{inside}"
        return soap(ACTION + f"<wsrm:SequenceAcknowledgement>{block}</wsrm:SequenceAcknowledgement>" * count)

    assert len(decode(acknowledgements(4), "").acknowledgements) == 4
    assert "4096 ranges and Nacks" in refusal(acknowledgements(5)).fault.reason


def test_an_endpoint_reference_that_would_make_every_reply_huge_is_refused() -> None:
    def reply_to(*lists: str) -> bytes:
        parameters = "".join(f"<wsa:ReferenceParameters>{each}</wsa:ReferenceParameters>" for each in lists)
        return soap(f"{ACTION}<wsa:ReplyTo><wsa:Address>urn:a</wsa:Address>{parameters}</wsa:ReplyTo>")

    assert decode(reply_to("<p/>" * 64), "").reply_to
    assert decode(reply_to("<p/>" * 32, "<p/>" * 32), "").reply_to
    assert decode(reply_to(f"<p>{'x' * (65536 - len('<p></p>'))}</p>"), "").reply_to
    for too_much in (("<p/>" * 65,), ("<p/>" * 64, "<p/>"), (f"<p>{'x' * 65530}</p>",)):
        assert "reference parameters" in refusal(reply_to(*too_much)).fault.reason


def test_reference_parameters_in_many_lists_are_counted_before_the_first_is_cut_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_early(*_: object) -> bytes:
        raise AssertionError("an element was cut out")

    monkeypatch.setattr(read_common, "cut", too_early)
    lists = "<wsa:ReferenceParameters><p/></wsa:ReferenceParameters>" * 10_000
    data = soap(f"{ACTION}<wsa:ReplyTo><wsa:Address>urn:a</wsa:Address>{lists}</wsa:ReplyTo>")
    assert "64 reference parameters" in refusal(data).fault.reason


def test_reference_parameters_are_cut_out_no_further_than_to_the_limit_on_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def counting(*given: Any) -> bytes:
        xml = cut(*given)
        sizes.append(len(xml))
        return xml

    monkeypatch.setattr(read_common, "cut", counting)
    parameters = f"<p>{'x' * 30_000}</p>" * 60
    inside = f"<wsa:Address>urn:a</wsa:Address><wsa:ReferenceParameters>{parameters}</wsa:ReferenceParameters>"
    assert "65536 bytes" in refusal(soap(f"{ACTION}<wsa:ReplyTo>{inside}</wsa:ReplyTo>")).fault.reason
    assert len(sizes) == 3


def batch_within(around: int, messages: int) -> bytes:
    """A batch with so many declarations at each of the three elements around its messages."""
    sequence = "<wsrm:Sequence><wsrm:Identifier>urn:s</wsrm:Identifier><wsrm:MessageNumber>1</wsrm:MessageNumber>"
    inside = "".join(f"<m:Message id='urn:m:{each}'><a>q7:x</a></m:Message>" for each in range(messages))
    there = declarations(around)
    xml = f"<m:Batch xmlns:m='urn:mercury:rm' action='urn:a' {there.replace(':p', ':r')}>{inside}</m:Batch>"
    data = soap(f"{ACTION}{sequence}</wsrm:Sequence>", xml, declare=there)
    return data.replace(b"<s:Body>", f"<s:Body {there.replace(':p', ':q')}>".encode())


def test_messages_of_a_batch_are_not_searched_for_each_prefix_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object) -> bool:
        raise AssertionError("an element was searched for one prefix")

    collected: list[Mapping[str, str]] = []

    def collecting(scope: Scope) -> Mapping[str, str]:
        collected.append(declared_in(scope))
        return collected[-1]

    declared_in = Scope.all
    monkeypatch.setattr("mercury.wire.cut.uses", searched)
    monkeypatch.setattr(Scope, "all", collecting)
    read = decode(batch_within(60, 256), "").body
    assert isinstance(read, MessageBatch)
    assert {message.payload.xml for message in read.messages} == {b'<a xmlns:q7="u">q7:x</a>'}
    assert (len(collected), len(collected[0])) == (256, 185)
    assert len({id(each) for each in collected}) == 1, "made for the first of them"


@pytest.mark.parametrize("quotes", [False, True])
@pytest.mark.parametrize("place", ["header blocks", "reference parameters"])
def test_long_namespaces_repeated_for_every_header_block_are_refused(place: str, quotes: bool) -> None:
    # Each block leans on all of them, so each is given a copy; a quote is six characters long when it is written.
    def message(namespaces: int, blocks: int) -> bytes:
        uri = ('"' if quotes else "x") * 1000
        inside = "".join(f"<x>{''.join(f'p{n}: ' for n in range(namespaces))}</x>" for _ in range(blocks))
        if place == "reference parameters":
            inside = f"<wsa:ReferenceParameters>{inside}</wsa:ReferenceParameters>"
            inside = f"<wsa:ReplyTo><wsa:Address>urn:a</wsa:Address>{inside}</wsa:ReplyTo>"
        declared = "".join(f" xmlns:p{n}='{uri}{n}'" for n in range(namespaces))
        return soap(ACTION + inside).replace(b"Header>", f"Header{declared}>".encode(), 1)

    assert decode(message(3, 3), "")
    tracemalloc.start()
    try:
        limits = Limits(max_parameters_bytes=64 * MIB)  # another limit, which escaped quotes exceed before
        assert "bytes of namespace declarations" in refusal(message(48, 58), limits=limits).fault.reason
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n\n", id="blank"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="text"),
        pytest.param(b'{"json": true}', id="json"),
        pytest.param(bytes(range(256)), id="binary"),
        pytest.param(b"\0" * 1000, id="zeros"),
        pytest.param(gzip.compress(soap()), id="gzip"),
        pytest.param(soap()[:-1], id="truncated"),
        pytest.param(soap()[: len(soap()) // 2], id="half"),
        pytest.param(soap() + soap(), id="twice"),
        pytest.param(soap() + b"junk", id="junk after the end"),
        pytest.param(soap(body="<a b='1' b='2'/>"), id="attribute twice"),
        pytest.param(soap(body='<a xmlns:x="u" xmlns:y="u" x:b="" y:b=""/>'), id="attribute twice by namespace"),
        pytest.param(soap(body="<p:a/>"), id="prefix not declared"),
        pytest.param(soap(body='<a xmlns:p=""/>'), id="prefix taken back"),
        pytest.param(soap(body='<a xmlns:xml="urn:x"/>'), id="xml declared anew"),
        pytest.param(soap(body='<a xmlns="u}v"/>'), id="namespace like another's end"),
        pytest.param(soap(body="<a>&undeclared;</a>"), id="entity not declared"),
        pytest.param(soap(body="<a>&#0;</a>"), id="forbidden character"),
        pytest.param(soap(body="<a>&#x1F600000;</a>"), id="no character"),
        pytest.param(soap(body="<a>]]></a>"), id="stray end of CDATA"),
        pytest.param(soap(body="<a><!-- -- --></a>"), id="comment in comment"),
        pytest.param(b"<?xml-stylesheet href='http://127.0.0.1:9/'?>" + soap(), id="stylesheet"),
        pytest.param(soap(body="<a><?php exit ?></a>"), id="processing instruction"),
        pytest.param(soap(headers="<?x?>"), id="processing instruction in the Header"),
    ],
)
def test_document_that_is_no_soap_message_is_refused(data: bytes) -> None:
    assert refusal(data).fault.code is FaultCode.SENDER


def test_compressed_bomb_is_refused() -> None:
    # Compressed by the test: each process that imports this file, as those of mutants do, would have to wait for it.
    assert refusal(gzip.compress(b" " * 64 * MIB)).fault.code is FaultCode.SENDER


TEXT = soap(body="<a>%</a>")


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        pytest.param(soap(), "text/xml; charset=utf-7", id="UTF-7"),
        pytest.param(soap(), "text/xml; charset=ebcdic-cp-us", id="EBCDIC"),
        pytest.param(soap(), f"text/xml; charset={'x' * 10_000}", id="long name"),
        pytest.param(b"<?xml version='1.0' encoding='utf-7'?>" + soap(), "", id="declared UTF-7"),
        pytest.param(b"<?xml version='1.0' encoding='shift_jis'?>" + soap(), "", id="declared Shift-JIS"),
        pytest.param(soap(), "text/xml; charset=utf-16", id="not UTF-16"),
        pytest.param(soap(body="<é/>"), "text/xml; charset=us-ascii", id="not ASCII"),
        pytest.param(soap(body="<a>\N{EM DASH}</a>").decode().encode("cp1252"), "", id="not UTF-8"),
        pytest.param(TEXT.replace(b"%", b"\x81"), "text/xml; charset=windows-1252", id="not windows-1252"),
        pytest.param(TEXT.replace(b"%", b"\xc0\xbc"), "", id="overlong UTF-8"),
        pytest.param(TEXT.replace(b"%", b"\xed\xa0\x80"), "", id="surrogate in UTF-8"),
        pytest.param(TEXT.replace(b"%", b"<!--\xff-->"), "", id="not UTF-8, in a comment"),
        pytest.param(TEXT.replace(b"%", b"<b c='\xff'/>"), "", id="not UTF-8, in an attribute"),
        pytest.param(codecs.BOM_UTF16_LE + soap(), "", id="wrong mark"),
        pytest.param(codecs.BOM_UTF8 + soap(), "text/xml; charset=iso-8859-1", id="mark of another encoding"),
        pytest.param(soap().decode().encode("utf-16")[:-1], "", id="half a character"),
        pytest.param(soap().decode().encode("utf-32"), "", id="UTF-32"),
        pytest.param(soap().decode().encode("utf-16-le"), "text/xml; charset=utf-8", id="UTF-16 as UTF-8"),
        pytest.param(soap().decode().encode("utf-16-be"), "text/xml; charset=utf-8", id="big-endian UTF-16 as UTF-8"),
        pytest.param(soap().decode().encode("utf-16"), "text/xml; charset=utf-8", id="marked UTF-16 as UTF-8"),
        pytest.param(codecs.BOM_UTF8 + soap().decode().encode("utf-16"), "", id="UTF-16 behind the mark of UTF-8"),
    ],
)  # fmt: skip
def test_wrongly_encoded_document_is_refused(data: bytes, content_type: str) -> None:
    assert refusal(data, content_type).fault.code is FaultCode.SENDER


ALLOWED: dict[str, Callable[[], bytes]] = {
    "as many elements as allowed": lambda: body("<a>" + "<b x='1'/>" * 49_990 + "</a>"),
    "as deep as allowed": lambda: body("<a>" * 61 + "</a>" * 61),
    "text": lambda: body(f"<a>{many('x')}</a>"),
    "attribute": lambda: body(f"<a b='{many('x')}'/>"),
    "references": lambda: body(f"<a>{many('&#65;')}</a>"),
    "comments": lambda: body(f"<a>{many('<!---->')}</a>"),
    "CDATA": lambda: body(f"<a>{many('<![CDATA[]]>')}</a>"),
    "CDATA in a comment": lambda: body(f"<a><!--{many('<![CDATA[')}--></a>"),
    "words like prefixes": lambda: soap(ACTION, f"<a>{many('xs:')}</a>", declare=declarations(50)),
    "header blocks of words like prefixes": lambda: soap(ACTION + f"<h>{many('xs:', 120_000)}</h>" * 60),
    "declarations": lambda: soap(
        f"{ACTION}<wsa:X>" + "<a xmlns:p='u'>" * 55 + "<b xmlns:q='v'/>" * 40_000 + "</a>" * 55 + "</wsa:X>", "<a/>"
    ),
    "text in a header block": lambda: soap(f"{ACTION}<wsa:Unknown>{many('a ')}</wsa:Unknown>"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_input_within_the_limits_takes_linear_time_and_space(name: str) -> None:
    data = ALLOWED[name]()
    started = time.thread_time()  # of this thread's CPU: a busy machine makes it no slower
    assert isinstance(decode(data, "").body, Payload)
    assert time.thread_time() - started < 5


#: A text in pieces: with what separates them, and what a reader sees of one separator.
PIECES = {
    "comments": ("<!---->", ""),
    "processing instructions": ("<?p?>", ""),
    "CDATA sections": ("<![CDATA[b]]>", "b"),
    "references": ("&#65;", "A"),
    "entities": ("&amp;", "&"),
    "all of them": ("<!----><?p?><![CDATA[b]]>&#65;&amp;", "bA&"),
}


@pytest.mark.parametrize("separator", PIECES)
def test_text_in_many_pieces_is_joined_once(separator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A parser joins the text before it calls any of these but `data`: once for each piece, if a piece is a call.
    calls: list[str] = []

    class Counting(ElementTree.XMLParser):
        def __init__(self, *, target: object = None, encoding: str | None = None) -> None:
            assert target is not None, "the default target joins the text at each comment"
            assert not hasattr(target, "comment")
            assert not hasattr(target, "pi")
            for name in ("start", "end"):
                setattr(target, name, self._counted(name, getattr(target, name)))
            super().__init__(target=target, encoding=encoding)

        @staticmethod
        def _counted(name: str, method: Callable[..., object]) -> Callable[..., object]:
            def counted(*arguments: object) -> object:
                calls.append(name)
                return method(*arguments)

            return counted

    monkeypatch.setattr(ElementTree, "XMLParser", Counting)
    written, read = PIECES[separator]
    root = parse_values(f"<a><b>\N{GRINNING FACE}{f'a{written}' * 1000}</b></a>".encode())
    assert root[0].text == "\N{GRINNING FACE}" + f"a{read}" * 1000
    assert calls == ["start", "start", "end", "end"]


@pytest.mark.parametrize("shift", range(4))
def test_large_text_is_the_same_wherever_its_bytes_are_divided_for_the_parser(shift: int) -> None:
    text = "a" * shift + "\N{GRINNING FACE}" * (FED_AT_ONCE // 2)
    root = parse_values(f"<a><b>{text}</b><c/></a>".encode())
    assert [(each.tag, each.text) for each in root] == [("b", text), ("c", None)]


def test_parser_has_no_copy_of_a_large_document() -> None:
    xml = b"<a>" + b"x" * 4 * MIB + b"</a>"
    tracemalloc.start()
    try:
        root = parse_values(xml)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert root.text is not None
    assert peak < 1.5 * len(root.text), "the text, and a piece of the document"


@pytest.mark.parametrize("zeros", [0, 1, 5000])
@pytest.mark.parametrize("form", ["&#%s65;", "&#x%s41;"])
def test_a_reference_with_any_number_of_leading_zeros_is_read_and_written_again(form: str, zeros: int) -> None:
    # Python's `int` refuses more than 4,300 decimal digits.
    element = f'<q xmlns="urn:q">{form % ("0" * zeros)}</q>'
    endpoint = f"<wsa:Address>urn:a</wsa:Address><wsa:ReferenceParameters>{element}</wsa:ReferenceParameters>"
    envelope = decode(soap(f"{ACTION}<wsa:ReplyTo>{endpoint}</wsa:ReplyTo>{element}", element), "")
    assert envelope.body == Payload(element.encode(), "{urn:q}q") == check_payload(element)
    assert decode(encode(envelope).body, "").reply_to == envelope.reply_to
    assert envelope.reply_to is not None
    assert envelope.reply_to.parameters == (element.encode(),)
    assert searchable(element.encode()) == b'<q xmlns="urn:q">A</q>'


def test_a_reference_of_thousands_of_digits_that_is_no_reference_is_read() -> None:
    text = f"&#{'9' * 5000}; &#xD800;"
    for written in (f"<!-- {text} -->", f"<![CDATA[ {text} ]]>"):
        element = f"<q>{written}</q>"
        assert encode(decode(soap(ACTION, element), "")).body
    assert refusal(soap(ACTION, f"<q>{text}</q>")).fault.code is FaultCode.SENDER


@pytest.mark.parametrize("piece", ["&#65;", "a<!---->", "<![CDATA[b]]>"])
def test_memory_for_the_search_of_prefixes_does_not_grow_with_the_number_of_pieces(piece: str) -> None:
    data = f"<q>{many(piece, MIB)}</q>".encode()
    tracemalloc.start()
    try:
        searchable(data)
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()


def test_the_limits_hold_for_what_they_allow() -> None:
    def deep(levels: int) -> bytes:
        return soap(body="<a>" * levels + "</a>" * levels)

    limits = Limits(max_depth=5, max_elements=8, max_attributes=5, max_name_length=80)
    assert decode(deep(3), "", limits=limits)
    assert "deeper than 5" in refusal(deep(4), limits=limits).fault.reason
    assert decode(soap(body="<a>" + "<b/>" * 3 + "</a>"), "", limits=limits)
    assert "8 elements" in refusal(soap(body="<a>" + "<b/>" * 4 + "</a>"), limits=limits).fault.reason
    assert "deeper than 5" in refusal(soap(body="<a><b><c><d e=''/></c></b></a>"), limits=limits).fault.reason
    assert decode(soap(body="<a><b><c d=''/></b></a>"), "", limits=limits)
    assert len(decode(soap(ACTION + "<h/>" * 63), "").headers) == 63
    assert decode(soap(body=f"<a {declarations(5)}/>"), "", limits=limits)
    assert "5 attributes" in refusal(soap(body=f"<a {declarations(6)}/>"), limits=limits).fault.reason
    assert decode(soap(f"<wsa:Action>{'a' * 2048}</wsa:Action>"), "")
    assert "2048 bytes" in refusal(soap(f"<wsa:Action>{'é' * 1025}</wsa:Action>")).fault.reason
    assert decode(soap(body='<a xmlns="u" b="" c="" d="" e=""/>'), "", limits=limits)
    assert "5 attributes" in refusal(soap(body='<a xmlns="u" b="" c="" d="" e="" f=""/>'), limits=limits).fault.reason
    assert decode(soap(body=f"<{'a' * 80}/>"), "", limits=limits)
    assert "80 bytes" in refusal(soap(body=f"<{'a' * 81}/>"), limits=limits).fault.reason


def test_a_fault_of_a_peer_is_not_kept_longer_than_needed() -> None:
    detail = f"<wsmc:UnsupportedElement>{'x' * 5000}</wsmc:UnsupportedElement>"
    fault = f"<faultcode>{'x' * 5000}</faultcode><faultstring>{'y' * 5000}</faultstring><detail>{detail}</detail>"
    assert decode(body(f"<s:Fault>{fault}</s:Fault>"), "").body == Fault(code=FaultCode.SENDER, reason="y" * 2048)
    assert "2048 bytes" in refusal(soap(""), "text/xml", "x" * 5000).fault.reason


def test_a_fault_about_a_limit_can_be_answered() -> None:
    header = f"{ACTION}<wsa:MessageID>urn:m</wsa:MessageID>"
    error = refusal(soap(header, "<a>" * 100))
    assert (error.message_id, error.soap.value) == ("urn:m", "1.2")
