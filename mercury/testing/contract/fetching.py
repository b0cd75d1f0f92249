"""Messages that wait for a MakeConnection are found only by their address and the identity of the client."""

from __future__ import annotations

from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.messages import MAKE_CONNECTION_ANONYMOUS, EndpointReference
from mercury.storage.api import StorageManager
from mercury.storage.records import Channel, RmdRecord, RmsRecord, SequenceKey
from mercury.testing.contract.builders import NOW, channel, rmd_record, rms_record

ADDRESS = f"{MAKE_CONNECTION_ANONYMOUS}one"
ANOTHER = f"{MAKE_CONNECTION_ANONYMOUS}another"


def fetched(name: str, *, endpoint: str = ADDRESS, identity: str | None = None) -> Channel:
    return channel(name, endpoint=endpoint, identity=identity)


def insert(store: StorageManager, *records: RmsRecord) -> None:
    for record in records:
        with store.transaction() as tx:
            tx.rms.lock([record.channel.key])
            tx.rms.insert(record)


def found(store: StorageManager, address: str = ADDRESS, identity: str | None = None, limit: int = 10) -> list[str]:
    with store.transaction() as tx:
        return [key.name for _, key in tx.rms.fetchable(address, identity, limit)]


def acknowledging(identifier: str, *, ack_due: float | None = 0.0, address: str = ADDRESS, **more: str) -> RmdRecord:
    record = rmd_record(identifier, acks_to=EndpointReference(address), **more)
    record.machine.ack_due = ack_due
    return record


def found_received(store: StorageManager, address: str = ADDRESS, identity: str | None = None) -> list[str]:
    with store.transaction() as tx:
        return tx.rmd.fetchable(address, identity, 10)


# --- source sequences ------------------------------------------------------------------------------------------------


def test_sequences_that_wait_for_an_address_are_found_the_earliest_first(store: StorageManager) -> None:
    insert(
        store,
        rms_record("b", fetched("second"), fetch_due=NOW + 2),
        rms_record("a", fetched("third"), fetch_due=NOW + 3),
        rms_record("c", fetched("first"), fetch_due=NOW + 1),
        rms_record("d", fetched("nothing waits")),
        rms_record("e", fetched("other", endpoint=ANOTHER), fetch_due=NOW),
    )
    assert found(store) == ["first", "second", "third"]
    assert found(store, limit=2) == ["first", "second"]
    assert found(store, ANOTHER) == ["other"]
    assert found(store, f"{ADDRESS}/") == []
    with store.transaction() as tx:
        assert tx.rms.fetchable(ADDRESS, None, 1) == [(NOW + 1, SequenceKey(ADDRESS, "first"))]


def test_every_sequence_of_a_key_is_found(store: StorageManager) -> None:
    insert(
        store,
        rms_record("a", fetched("key"), fetch_due=NOW + 2),
        rms_record("b", fetched("key"), fetch_due=NOW + 1),
    )
    assert found(store) == ["key", "key"]


def test_sequence_is_found_while_its_messages_wait(store: StorageManager) -> None:
    record = rms_record("a", fetched("key"), fetch_due=NOW)
    insert(store, record)
    for due, expected in ((None, []), (NOW + 5, ["key"]), (None, []), (NOW, ["key"])):
        with store.transaction() as tx:
            tx.rms.lock([record.channel.key])
            record.fetch_due = due
            tx.rms.save(record)
        assert found(store) == expected
    with store.transaction() as tx:
        tx.rms.lock([record.channel.key])
        tx.rms.delete(record)
    assert found(store) == []


def test_sequences_of_another_identity_are_not_found(store: StorageManager) -> None:
    insert(
        store,
        rms_record("a", fetched("without identity"), fetch_due=NOW),
        rms_record("b", fetched("of one", identity="CN=one"), fetch_due=NOW + 1),
        rms_record("c", fetched("of another", identity="CN=another"), fetch_due=NOW + 2),
    )
    assert found(store) == ["without identity"]
    assert found(store, identity="CN=one") == ["of one"]
    assert found(store, identity="CN=another") == ["of another"]
    assert found(store, identity="CN=third") == []


def test_sequences_that_are_not_committed_are_not_found(store: StorageManager) -> None:
    class Left(Exception):
        pass

    try:
        with store.transaction() as tx:
            tx.rms.insert(rms_record("a", fetched("key"), fetch_due=NOW))
            tx.rmd.insert(acknowledging("urn:a"))
            raise Left
    except Left:
        pass
    assert found(store) == []
    assert found_received(store) == []


# --- destination sequences -------------------------------------------------------------------------------------------


def test_waiting_acknowledgements_are_found_by_their_address(store: StorageManager) -> None:
    with store.transaction() as tx:
        for record in (
            acknowledging("urn:b"),
            acknowledging("urn:a"),
            acknowledging("urn:c", ack_due=None),
            acknowledging("urn:d", address=ANOTHER),
            acknowledging("urn:e", address="http://client.example/acks"),
        ):
            tx.rmd.insert(record)
    assert found_received(store) == ["urn:a", "urn:b"]
    assert found_received(store, ANOTHER) == ["urn:d"]
    assert found_received(store, "http://client.example/acks") == []
    with store.transaction() as tx:
        assert len(tx.rmd.fetchable(ADDRESS, None, 1)) == 1


def test_an_acknowledgement_is_found_until_it_is_fetched(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(acknowledging("urn:a"))
    for due, expected in ((None, []), (0.0, ["urn:a"])):
        with store.transaction() as tx:
            record = tx.rmd.lock(["urn:a"])["urn:a"]
            record.machine.ack_due = due
            tx.rmd.save(record)
        assert found_received(store) == expected
    with store.transaction() as tx:
        tx.rmd.lock(["urn:a"])
        tx.rmd.delete("urn:a")
    assert found_received(store) == []


def test_an_end_that_the_destination_has_begun_is_found_until_it_is_answered(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(acknowledging("urn:a", ack_due=None))
    for end, expected in ((DestinationEnd.TERMINATE, ["urn:a"]), (None, [])):
        with store.transaction() as tx:
            record = tx.rmd.lock(["urn:a"])["urn:a"]
            record.machine.own_end = end
            tx.rmd.save(record)
        assert found_received(store) == expected


def test_acknowledgements_for_another_identity_are_not_found(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(acknowledging("urn:a", identity="CN=one"))
        tx.rmd.insert(acknowledging("urn:b"))
    assert found_received(store, identity="CN=one") == ["urn:a"]
    assert found_received(store, identity="CN=another") == []
    assert found_received(store) == ["urn:b"]
