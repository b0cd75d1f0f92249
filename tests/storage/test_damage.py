"""A row that is damaged in the store is neither sent nor delivered: it becomes a dead letter, with an event."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from mercury import Certainty, DestinationPolicy, Direction, LetterFilter, Mercury, StorageError
from mercury.engine.dead_letters import DAMAGED
from mercury.engine.settings import EngineSettings
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.attachments import PIECE, Attachments, StoredPart
from tests.acceptance.processes import eventually
from tests.ports import free_port

from .altering import flipped
from .shop import LOCAL, Order, Shop, settings

PATIENT = DestinationPolicy(redelivery=RetransmissionPolicy(base=0.05, cap=0.1))


def flip(url: str, table: str, column: str, message_id: str) -> None:
    """Change one byte of a message in its table."""
    engine = create_engine(url)
    with engine.begin() as connection:
        where = f"where message_id = '{message_id}'"
        value = connection.execute(text(f"select {column} from {table} {where}")).scalar_one()
        altered = flipped(value)
        done = connection.execute(text(f"update {table} set {column} = :altered {where}"), {"altered": altered})
        assert done.rowcount == 1
    engine.dispose()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("mercury_rms_body", "payload"),
        ("mercury_rms_body", "checksum"),
        ("mercury_rms_body", "headers"),
        ("mercury_rms_body", "to_parameters"),
        ("mercury_rms_message", "action"),
        ("mercury_rms_message", "kind"),
        ("mercury_rms_message", "correlation"),
        ("mercury_rms_message", "relates_to"),
        ("mercury_rms_message", "request"),
        ("mercury_rms_message", "channel"),
    ],
)
def test_a_message_that_was_altered_before_it_got_a_number_is_not_sent_and_the_others_are(
    sql_url: str, table: str, column: str
) -> None:
    shop = Shop()
    with shop.open() as (_, url):
        client = Mercury(sql_url, settings=settings())
        sender = client.to(url)
        receipts = [sender.send(Order(number), operation="put") for number in (1, 2, 3)]
        flip(sql_url, table, column, receipts[1].message_id)
        with client:
            assert sender.wait(30).settled
            eventually(lambda: len(shop.handled) == 2, "the others are handled")
            assert shop.orders == [1, 3]
            (letter,) = client.dead_letters()
            assert (letter.message_id, letter.reason) == (receipts[1].message_id, DAMAGED)
            assert (letter.certainty, letter.direction) == (Certainty.NOT_DELIVERED, Direction.OUTBOUND)
            result = client.redrive(LetterFilter(), allow_duplicate=True)
            assert ["damaged" in why for _, why in result.refused] == [True]


@pytest.mark.parametrize("spoilt", [0, 1])
def test_a_message_whose_channel_is_unreadable_is_put_aside_and_the_others_and_other_keys_go_on(
    sql_url: str, spoilt: int, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    with shop.open() as (_, url):
        client = Mercury(sql_url, settings=settings())
        sender = client.to(url)
        receipts = [sender.send(Order(number), operation="put") for number in (1, 2)]
        client.to(url, key="other").send(Order(3), operation="put")
        spoil(sql_url, "channel", "{", f"message_id = '{receipts[spoilt].message_id}'")
        with client:
            eventually(lambda: len(shop.handled) == 2, "the others are handled")
            assert sorted(shop.orders) == sorted({1, 2, 3} - {spoilt + 1})
            assert sender.wait(30).settled
            (letter,) = client.dead_letters()
            assert (letter.message_id, letter.reason) == (receipts[spoilt].message_id, DAMAGED)
            assert (letter.certainty, letter.damaged) == (Certainty.NOT_DELIVERED, True)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told == [f"dead letter: {DAMAGED!r} (not delivered)"]


def test_a_message_whose_channel_is_unreadable_in_transmission_ends_its_sequence_and_is_logged(
    sql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{free_port()}/services/shop"
    with Mercury(sql_url, settings=settings()) as client:
        sender = client.to(url)
        with client.transaction() as tx:
            receipts = [sender.send(Order(number), operation="put", tx=tx) for number in (1, 2, 3)]
        eventually(lambda: any(each.highest == 3 for each in sender.status()), "they have numbers")
    spoil(sql_url, "channel", "[]", f"message_id = '{receipts[1].message_id}'")
    caplog.clear()
    shop = Shop()
    with (
        shop.open(port=int(url.split(":")[2].split("/", maxsplit=1)[0])),
        Mercury(sql_url, settings=settings()) as client,
    ):
        eventually(lambda: len(client.dead_letters()) == 3, "the sequence fails")
        by_id = {letter.message_id: letter for letter in client.dead_letters()}
        assert by_id[receipts[1].message_id].reason == DAMAGED
        assert {letter.endpoint for letter in by_id.values()} == {url}  # its sequence says where it went
        client.to(url).send(Order(4), operation="put")
        eventually(lambda: shop.orders == [4], "the next sequence goes on")
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("column", "value"), [("kind", "eod"), ("correlation", "urn:something"), ("channel", "{")])
def test_an_altered_end_of_a_sequence_does_not_vanish(
    sql_url: str, column: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    with shop.open() as (_, url):
        client = Mercury(sql_url, settings=settings())
        sender = client.to(url)
        sender.send(Order(1), operation="put")
        sender.close()
        spoil(sql_url, column, value, "kind = 'end'")
        with client:
            eventually(client.dead_letters, "the end is reported")
            eventually(lambda: shop.orders == [1], "what stands before it is handled")
            (letter,) = client.dead_letters()
            assert (letter.reason, letter.damaged, letter.action) == (DAMAGED, True, "")
            sender.send(Order(2), operation="put")
            sender.close()
            eventually(lambda: shop.orders == [1, 2], "the sequence goes on")
            assert sender.wait(30).settled
    assert f"dead letter: {DAMAGED!r} (not delivered)" in [record.getMessage() for record in caplog.records]


def spoil(url: str, column: str, value: str, where: str) -> None:
    """Write something else into one outbound row."""
    engine = create_engine(url)
    with engine.begin() as connection:
        done = connection.execute(
            text(f"update mercury_rms_message set {column} = :value where {where}"), {"value": value}
        )
        assert done.rowcount == 1
    engine.dispose()


def test_a_message_altered_after_numbering_ends_its_sequence_and_the_others_are_sent_in_a_new_one(
    sql_url: str,
) -> None:
    """Its number cannot be left out: the destination would wait for it forever."""
    port = free_port()
    with Mercury(sql_url, settings=settings()) as client:
        sender = client.to(f"http://127.0.0.1:{port}/services/shop")
        with client.transaction() as tx:
            receipts = [sender.send(Order(number), operation="put", tx=tx) for number in (1, 2, 3)]
        eventually(lambda: any(each.highest == 3 for each in sender.status()), "they have numbers")
    flip(sql_url, "mercury_rms_body", "payload", receipts[1].message_id)
    shop = Shop()
    with shop.open(port=port), Mercury(sql_url, settings=settings()) as client:
        eventually(lambda: len(client.dead_letters()) == 3, "the sequence fails")
        by_id = {letter.message_id: letter for letter in client.dead_letters()}
        assert by_id[receipts[1].message_id].reason == DAMAGED
        assert [by_id[each.message_id].damaged for each in receipts] == [False, True, False]
        assert shop.handled == []
        whole = frozenset(letter.id for letter in by_id.values() if not letter.damaged)
        assert len(client.redrive(LetterFilter(ids=whole), allow_duplicate=True).done) == 2
        eventually(lambda: len(shop.handled) == 2, "the others are handled")
        assert shop.handled == [(1, receipts[0].message_id), (3, receipts[2].message_id)]


@pytest.mark.parametrize(
    "column",
    [
        "payload",
        "checksum",
        "action",
        "headers",
        "message_id",
        "element",
        "kind",
        "sequence",
        "number",
        "relates_to",
        "reply_to",
        "fault_to",
        "correlation",
    ],
)
def test_a_message_that_was_altered_before_its_handler_saw_it_is_not_delivered_and_the_others_are(
    sql_url: str, column: str
) -> None:
    shop = Shop(policy=PATIENT)
    tried: list[int] = []

    def hold(order: Order) -> None:
        tried.append(order.id)
        raise LookupError("not yet")

    shop.before = hold
    looking = EngineSettings(addresses=LOCAL, integrity_interval=0.2)
    with shop.open(sql_url, engine=looking) as (server, url), Mercury("memory:", settings=settings()) as client:
        sender = client.to(url)
        receipts = [sender.send(Order(number), operation="put") for number in (1, 2, 3)]
        assert sender.wait(30)  # all are stored there
        eventually(lambda: tried, "the first is tried")
        flip(sql_url, "mercury_invoker_message", column, receipts[1].message_id)
        before = len(tried)
        eventually(lambda: len(tried) >= before + 2, "they are read again")  # one may have read them before
        shop.before = lambda _order: None
        eventually(lambda: len(shop.handled) == 2, "the others are handled")
        assert shop.orders == [1, 3]
        eventually(server.dead_letters, "the altered one is put aside")
        (letter,) = server.dead_letters()
        assert (letter.reason, letter.damaged, letter.direction) == (DAMAGED, True, Direction.INBOUND)
        assert (letter.message_id == receipts[1].message_id) is (column != "message_id")
        more = sender.send(Order(4), operation="put")
        eventually(lambda: shop.handled[2:] == [(4, more.message_id)], "what comes later is handled")
        sender.terminate()
        eventually(lambda: all(status.waiting == 0 for status in server.sequences()), "nothing is left")
        with server.transaction() as tx:
            assert tx.rmd.waiting_bytes("")[1] == 0, "nor does anything of it count as waiting"


def test_a_dead_letter_that_was_altered_is_not_redriven(sql_url: str) -> None:
    with Mercury(sql_url, settings=settings()) as client:
        sender = client.to("http://127.0.0.1:1/services/shop")
        receipt = sender.send(Order(1), operation="put")
        sender.terminate()
        eventually(client.dead_letters, "it dies with its sequence")
        flip(sql_url, "mercury_dead_letter", "payload", receipt.message_id)
        assert client.dead_letters()[0].damaged
        assert ["damaged" in why for _, why in client.redrive(LetterFilter()).refused] == [True]
        assert client.discard(LetterFilter()) == 1


def test_attachment_that_has_lost_a_piece_is_not_read(sql_url: str) -> None:
    parts = Attachments("one", (StoredPart("long", 2 * PIECE + 5),))
    with Mercury(sql_url) as mercury:
        store = mercury.store
        with store.transaction() as tx:
            assert tx.attachments.write("one", 0, iter([b"x" * (2 * PIECE + 5)])) == parts.size - len("long")
        where = "where attachments_id = 'one' and number = 1"
        engine = create_engine(sql_url)
        with engine.begin() as connection:
            connection.execute(text(f"update mercury_attachment_piece set number = 11 {where}"))
        engine.dispose()
        with store.transaction() as tx, pytest.raises(StorageError, match="piece 1 of part 0 of the attachments one"):
            list(tx.attachments.read(parts, 0))


def test_attachment_with_an_altered_byte_is_not_read(sql_url: str) -> None:
    parts = Attachments("one", (StoredPart("short", 5),))
    with Mercury(sql_url) as mercury:
        with mercury.store.transaction() as tx:
            tx.attachments.write("one", 0, iter([b"right"]))
        engine = create_engine(sql_url)
        with engine.begin() as connection:
            statement = text("update mercury_attachment_piece set content = :altered")
            connection.execute(statement, {"altered": b"wrong"})
        engine.dispose()
        with mercury.store.transaction() as tx, pytest.raises(StorageError, match="is damaged"):
            list(tx.attachments.read(parts, 0))
