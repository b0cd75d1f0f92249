"""A transaction with many arrivals finds the sequences that they name, also those that it has changed or made."""

from __future__ import annotations

from mercury.engine.destination.made_sequences import MadeSequences
from mercury.engine.destination.sources_by_name import SourcesByName
from mercury.testing.contract.builders import channel, rmd_record, rms_record


def test_source_sequence_is_found_by_its_identifier_from_when_it_has_it() -> None:
    record, sources = rms_record("one", channel("one")), SourcesByName()
    sources.add(record)
    assert sources.with_id("one") is sources.created_by("create one") is record
    assert sources.named("urn:one") is None
    record.machine.identifier = "urn:one"
    sources.add(record)
    assert sources.named("urn:one") is record


def test_source_sequence_is_not_found_by_an_identifier_that_it_has_no_more() -> None:
    record, sources = rms_record("one", channel("one"), identifier="urn:before"), SourcesByName()
    sources.add(record)
    record.machine.identifier = "urn:after"
    sources.add(record)
    assert sources.named("urn:before") is None
    assert sources.named("urn:after") is record
    other = rms_record("two", channel("two"), identifier="urn:before")
    sources.add(other)
    assert sources.named("urn:before") is other


def test_first_of_two_source_sequences_with_one_identifier_is_found() -> None:
    first, second = (rms_record(name, channel(name), identifier="urn:same") for name in ("one", "two"))
    sources = SourcesByName()
    sources.add(first, second)
    assert sources.named("urn:same") is first


def test_no_source_sequence_is_found_by_no_name() -> None:
    record, sources = rms_record("one", channel("one")), SourcesByName()
    sources.add(record)
    assert sources.created_by(None) is None
    assert sources.created_by("create two") is None
    assert sources.with_id("two") is None


def test_destination_sequence_is_found_by_a_repetition_of_its_creation_in_the_same_transaction() -> None:
    there = rmd_record("urn:there", create_message_id="urn:create:1")
    new = rmd_record("urn:new", create_message_id="urn:create:2", peer="192.0.2.1")
    made = MadeSequences()
    made.read([there])
    made.add(new)
    assert made.by(there.create_key) is there
    assert made.by(new.create_key) is new
    assert made.by("another") is None


def test_sequence_without_a_creation_is_not_taken_for_a_repeated_one() -> None:
    offered = rmd_record("urn:offered")
    made = MadeSequences()
    made.read([offered])
    assert offered.create_key is None
    assert made.by(None) is None


def test_new_sequences_count_for_their_peer_and_for_all() -> None:
    made = MadeSequences()
    made.read([rmd_record("urn:0", create_message_id="urn:create:0", peer="192.0.2.1")])
    for number, peer in enumerate(("192.0.2.1", "192.0.2.1", "192.0.2.2"), 1):
        made.add(rmd_record(f"urn:{number}", create_message_id=f"urn:create:{number}", peer=peer))
    assert (made.count("192.0.2.1"), made.count("192.0.2.2"), made.count("192.0.2.3")) == (2, 1, 0)
    assert made.count(None) == 3
