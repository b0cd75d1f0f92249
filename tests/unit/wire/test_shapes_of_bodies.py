"""What makes a sequence, and a batch, is read by its shape as it would be in full: the same envelope, or the same
refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    BatchLimits,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteSequenceBehavior,
    Offer,
)
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.wire import DEFAULT_LIMITS, Envelope, Limits, Payload, Undecodable, decode, encode
from mercury.wire.envelope import BatchedMessage, MessageBatch
from mercury.wire.shapes import Shapes

from .samples import SERVICE
from .test_fuzz import NASTY, TOKENS, wire
from .test_shapes import is_same, kind_of, known, message

LEGAL = [protocol for protocol in ALL_PROTOCOLS if protocol.legal]
RM11 = Protocol()


def creation(protocol: Protocol, number: int) -> Envelope:
    """A CreateSequence as Mercury sends it, for one of many sequences."""
    endpoint = ANONYMOUS_ENDPOINT if protocol.rm is RmVersion.RM11 else None
    rm11 = protocol.rm is RmVersion.RM11
    body = CreateSequence(
        acks_to=ANONYMOUS_ENDPOINT,
        offer=Offer(identifier=f"urn:uuid:{number:032x}", endpoint=endpoint, expires=60.0),
        mercury_behavior=IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP if rm11 else None,
        mercury=not rm11,
        batch=BatchLimits(256, 150_000),
    )
    plain = message(protocol, number, asks=False)
    return replace(plain, sequence=None, reply_to=ANONYMOUS_ENDPOINT, body=body)


def response(protocol: Protocol, number: int) -> Envelope:
    """The response to it."""
    body = CreateSequenceResponse(
        identifier=f"urn:uuid:{number:032x}",
        accept_acks_to=SERVICE,
        batch=BatchLimits(256, 150_000),
        store="0123456789abcdef0123456789abcdef",
    )
    plain = message(protocol, number, asks=False)
    return replace(plain, sequence=None, to=ANONYMOUS_ENDPOINT, relates_to=f"urn:uuid:{number + 7:032x}", body=body)


def batch(protocol: Protocol, number: int, *, count: int = 3) -> Envelope:
    """A batch of messages of one sequence."""
    messages = [
        BatchedMessage(
            f"urn:uuid:{number + each:032x}",
            "urn:app:op",
            Payload(b'<o:Order xmlns:o="urn:o">7</o:Order>', "{urn:o}Order"),
        )
        for each in range(count)
    ]
    return replace(message(protocol, number, asks=False), body=MessageBatch(tuple(messages)))


@pytest.mark.parametrize("make", [creation, response, batch])
@pytest.mark.parametrize("protocol", LEGAL, ids=str)
def test_second_one_of_mercury_is_read_by_its_shape(protocol: Protocol, make: type) -> None:
    shapes = Shapes(DEFAULT_LIMITS)
    first, second = (encode(make(protocol, number)) for number in (1, 10**9))
    kind = kind_of(first.content_type, first.soap_action)
    assert shapes.read(kind, first.body) is None
    shapes = known(first.body, content_type=first.content_type)
    by_shape = shapes.read(kind_of(first.content_type), second.body)
    assert by_shape == make(protocol, 10**9)


BODIES = {"creation": creation, "response": response, "batch": batch}
IDENTIFIER = f"urn:uuid:{1:032x}"


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("value", ["", " urn:x ", "urn:&#50;", "urn:ä", "u" * 3000, "<x/>", "urn:y"])
def test_another_identifier_is_read_as_in_full(name: str, value: str) -> None:
    first = encode(BODIES[name](RM11, 1))
    changed = first.body.replace(IDENTIFIER.encode(), value.encode())
    assert is_same(changed, known(first.body, content_type=first.content_type), first.content_type)


@wire
@given(st.sampled_from(sorted(BODIES)), st.integers(0, 4000), st.integers(0, 60), st.sampled_from([b"", *TOKENS]))
def test_changed_body_is_read_as_in_full(name: str, at: int, gone: int, put: bytes) -> None:
    first = encode(BODIES[name](RM11, 1))
    at %= len(first.body)
    changed = first.body[:at] + put + first.body[at + gone :]
    assert is_same(changed, known(first.body, content_type=first.content_type), first.content_type)


@pytest.mark.parametrize("xml", NASTY)
def test_message_of_a_batch_is_read_as_in_full(xml: str) -> None:
    first = encode(batch(RM11, 1))
    changed = first.body.replace(b'<o:Order xmlns:o="urn:o">7</o:Order>', xml.encode(errors="replace"))
    assert is_same(changed, known(first.body, content_type=first.content_type), first.content_type)


def test_creation_that_names_its_predecessor_has_no_shape() -> None:
    """Its predecessor's identifier differs, too: each would push out a shape that is met again."""
    plain = creation(RM11, 1)
    assert isinstance(plain.body, CreateSequence)
    first = encode(replace(plain, body=replace(plain.body, follows="urn:before")))
    shapes = known(first.body, content_type=first.content_type)
    assert shapes.read(kind_of(first.content_type), first.body) is None


def test_large_creation_has_no_shape() -> None:
    first = encode(creation(RM11, 1))
    large = first.body.replace(b"</wsrm:CreateSequence>", b"<x>" + b"y" * 9000 + b"</x></wsrm:CreateSequence>")
    shapes = known(large, content_type=first.content_type)
    assert shapes.read(kind_of(first.content_type), large) is None
    assert is_same(large, shapes, first.content_type)


@pytest.mark.parametrize(("count", "expected"), [(8, True), (10, False)])
@pytest.mark.parametrize("make", [creation, response])
def test_texts_cut_out_of_a_body_are_bounded_as_the_header_is(make: type, count: int, expected: bool) -> None:
    # Each parameter is small, and repeats a long declaration when it is cut out.
    http = encode(make(RM11, 1))
    parameters = b"<wsa:ReferenceParameters>" + b"<l:p/>" * count + b"</wsa:ReferenceParameters>"
    before, name, after = http.body.partition(b"AcksTo>")
    inside = after.replace(b"</wsa:Address>", b"</wsa:Address>" + parameters, 1)
    data = before + name + inside
    data = data.replace(b"Envelope ", b'Envelope xmlns:l="urn:' + b"l" * 900 + b'" ', 1)
    shapes = known(data, content_type=http.content_type)
    assert (shapes.read(kind_of(http.content_type), data) is not None) is expected
    assert is_same(data, shapes, http.content_type)


def test_creation_with_more_behind_it_is_no_message_of_its_shape() -> None:
    first = encode(creation(RM11, 1))
    shapes = known(first.body, content_type=first.content_type)
    for more in (b" ", b"<x/>", b"x"):
        assert is_same(first.body + more, shapes, first.content_type)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_batch=2),
        Limits(max_batch=3),
        Limits(max_depth=4),
        Limits(max_depth=5),
        Limits(max_elements=13),
        Limits(max_elements=14),
        Limits(max_elements=15),
        Limits(max_total_attributes=12),
        Limits(max_total_attributes=16),
    ],
    ids=str,
)
def test_batch_is_read_within_the_limits(limits: Limits) -> None:
    first, second = encode(batch(RM11, 1, count=2)), encode(batch(RM11, 5, count=3))
    shapes = known(first.body, content_type=first.content_type, limits=limits)
    assert is_same(second.body, shapes, first.content_type, limits)


def test_batch_in_a_message_outside_any_sequence_is_refused_as_in_full() -> None:
    first = encode(batch(RM11, 1))
    plain = encode(replace(message(RM11, 1, asks=False), sequence=None))
    shapes = known(plain.body, content_type=plain.content_type)
    content = first.body[first.body.index(b"<m:Batch") : first.body.index(b"</soap:Body>")]
    start, end = plain.body.index(b"<o:Order"), plain.body.index(b"</soap:Body>")
    outside = plain.body[:start] + content + plain.body[end:]
    assert shapes.read(kind_of(plain.content_type), outside) is None
    assert is_same(outside, shapes, plain.content_type)


def test_batch_whose_numbers_exceed_the_highest_is_refused_as_in_full() -> None:
    first = encode(batch(RM11, 1))
    shapes = known(first.body, content_type=first.content_type)
    high = first.body.replace(b"MessageNumber>1<", b"MessageNumber>9223372036854775806<")
    assert is_same(high, shapes, first.content_type)


def test_declarations_that_a_batch_needs_count_with_those_of_header_blocks() -> None:
    """A header block of the application uses up the allowance: such a batch is decoded in full."""
    first = encode(replace(batch(RM11, 1), headers=(b'<a:h xmlns:a="urn:a">1</a:h>',)))
    shapes = known(first.body, content_type=first.content_type)
    assert shapes.read(kind_of(first.content_type), first.body) is None
    assert is_same(first.body, shapes, first.content_type)


def test_batch_with_the_large_header_blocks_of_a_known_single_message_is_refused_as_in_full() -> None:
    """A header of these bytes was read before, but not around a batch."""
    headers = (b'<a:h xmlns:a="urn:a">%b</a:h>' % (b"x" * 2000),)
    first = encode(replace(batch(RM11, 1), headers=headers))
    single = encode(replace(message(RM11, 1, asks=False), headers=headers))
    start = single.body.index(b"Body>") + len(b"Body>")
    around = single.body[:start], single.body[single.body.rindex(b"</", 0, single.body.rindex(b"</")) :]
    body = first.body[first.body.index(b"<m:Batch") : first.body.index(b"</m:Batch>")] + b"</m:Batch>"
    shapes = known(single.body, content_type=single.content_type)
    assert shapes.read(kind_of(single.content_type), single.body) is not None
    assert shapes.read(kind_of(single.content_type), around[0] + body + around[1]) is None
    assert is_same(around[0] + body + around[1], shapes, single.content_type)
    with pytest.raises(Undecodable, match="bytes of other header blocks"):
        decode(around[0] + body + around[1], single.content_type, shapes=shapes)


def test_element_of_the_application_with_the_name_of_a_batch_is_read_as_in_full() -> None:
    first = encode(batch(RM11, 1))
    named_alike = first.body.replace(b'<m:Batch xmlns:m="urn:mercury:rm"', b'<m:Batch xmlns:m="urn:other"')
    shapes = known(first.body, content_type=first.content_type)
    assert is_same(named_alike, shapes, first.content_type)
    named_alike = named_alike.replace(b'"urn:other"', b'"urn:other" xmlns:n="urn:mercury:rm"').replace(
        b"m:Message", b"n:Message"
    )
    assert is_same(named_alike, shapes, first.content_type)
