"""Peers' texts in a column: their stored size is the counted size, and no cache keeps them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from mercury.statemachine.effects import Certainty
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.policy import RetransmissionPolicy, SourcePolicy
from mercury.storage.letters import outbound_letter
from mercury.storage.records import Channel, OutboundMessage, Role, SequenceKey
from mercury.storage.sizes import RESPONSE
from mercury.storage.sql import values
from mercury.storage.sql.values import (
    leniently,
    read_channel,
    read_channels,
    read_parts,
    read_reference,
    write_channel,
    write_channels,
    write_parts,
    write_reference,
)

PARAMETER = '<p xmlns="urn:p">{}</p>'


def test_an_element_takes_the_bytes_in_a_column_that_it_has_in_its_message() -> None:
    part = PARAMETER.format("äöü€😀\t" * 1000).encode()
    written = write_parts((part,))
    assert len(written.encode()) < 1.1 * len(part)
    assert read_parts(written) == (part,)


def test_a_reference_with_its_parameters_comes_back_as_it_was() -> None:
    for size in (1, 10_000):
        reference = EndpointReference("http://peer.example/ä", (PARAMETER.format("ä" * size).encode(),))
        assert read_reference(write_reference(reference)) == reference


def test_large_references_of_peers_are_not_kept_in_memory() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(60):
            large = EndpointReference("http://peer.example/", (PARAMETER.format(f"{number} " + "x" * 60_000).encode(),))
            read_reference(write_reference(large))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000, "60 of 60,000 bytes each were written and read"


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("parameters", [(), (PARAMETER.format("ä" * 2000).encode(),)])
def test_channels_come_back_as_they_were_with_their_policies(count: int, parameters: tuple[bytes, ...]) -> None:
    policy = SourcePolicy(window=7, retransmission=RetransmissionPolicy(base=3.0))
    first = Channel(key=SequenceKey("http://a.example/", "ä [,] {}"), role=Role.RESPONSE, policy=policy)
    second = Channel(key=SequenceKey("", "key"), reply_to=EndpointReference("http://a.example/", parameters))
    for channels in ((first, second)[:count], (second, first)[:count]):
        for _ in range(2):
            assert read_channels(write_channels(channels)) == channels
    assert read_channel(write_channel(first)).policy == policy


@pytest.mark.parametrize("text", ["", "[", "[{]", '[{"key":1}]', "{}x", "[1]"])
def test_damaged_channels_are_an_error_that_readers_of_damaged_rows_know(text: str) -> None:
    assert leniently(read_channels, text) is None


def test_values_that_are_not_in_a_text_are_the_defaults() -> None:
    text = write_channel(Channel(key=SequenceKey("http://a.example/", "key")))
    assert "policy" not in text
    assert read_channel(text).policy == SourcePolicy()


# --- sizes ---------------------------------------------------------------------------------------------------------

LONG = "urn:x:" + "n" * 2000


def response(**changes: Any) -> OutboundMessage:
    channel = Channel(
        key=SequenceKey(LONG, LONG),
        reply_to=EndpointReference(LONG, (b'<p q="r" s="t"/>' * 50,)),
        role=Role.RESPONSE,
        pair=LONG,
        identity=LONG,
        wsa_to=LONG,
    )
    return OutboundMessage(message_id=LONG, channel=channel, relates_to=LONG, owner="peer", **changes)


def test_size_of_a_response_covers_every_text_that_its_peer_has_chosen() -> None:
    parameters = (b'<p q="\\t\\t\\n" s="t"/>' * 50,)
    row = response(action=LONG, payload=b"<a/>" * 10, headers=(b"<b/>",), to_parameters=parameters)
    channel = write_channel(row.channel)
    texts = (row.message_id, row.action, row.relates_to or "", row.payload.decode(), "<b/>", channel)
    stored = sum(map(len, texts)) + len(write_parts(row.to_parameters))
    assert stored <= row.size <= stored + 1024


def test_small_responses_count_as_larger_ones_in_a_sequence_only() -> None:
    def size(role: Role) -> int:
        channel = Channel(key=SequenceKey("http://peer.example/", "key"), role=role)
        return OutboundMessage(message_id="urn:m", channel=channel, relates_to="urn:request", payload=b"<a/>").size

    # 64 MiB of them is 16,384 rows, which end with their sequence.
    assert size(Role.RESPONSE) == RESPONSE
    # A client without an offer never acknowledges: each of its requests leaves a reply, for an hour.
    assert size(Role.REPLY) < 1024
    assert size(Role.REQUEST) < 1024


def test_size_of_a_dead_letter_covers_every_text_that_its_peer_has_chosen() -> None:
    row = response(payload=b"<a/>" * 10)
    letter = outbound_letter(row, "urn:letter", "no peer", Certainty.UNKNOWN, 0.0)
    stored = len(write_channel(row.channel)) + 4 * len(LONG)
    assert stored <= letter.size <= stored + 2048


@pytest.mark.parametrize("endpoint", ["http://a.example/b?c=1", 'with ","name": in it', "\\", "ü\u202e"])
def test_the_endpoint_of_a_channel_is_read_from_the_beginning_of_its_text(endpoint: str) -> None:
    text = values.write_channel(Channel(key=SequenceKey(endpoint, "name")))
    assert values.endpoint_in(text.partition(values.ENDPOINT_END)[0]) == endpoint


@pytest.mark.parametrize("text", ["", "{", '{"key":[]', '{"key":{"endpoint":1', '{"endpoint":"'])
def test_a_damaged_channel_has_no_endpoint(text: str) -> None:
    assert values.endpoint_in(text) is None
