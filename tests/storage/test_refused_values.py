"""Values that a database cannot store are refused on arrival, and a message with one does not stop the others."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, LargeBinary, Table, Text, create_engine, insert

from mercury import ConfigurationError, Mercury, Service
from mercury.engine.application import MessageContext
from mercury.engine.exchange import Answer, Arrival
from mercury.service.bodies import RequestRefused
from mercury.service.identity import identify
from mercury.statemachine.bounds import INDEXED_BYTES, KEY_BYTES
from mercury.statemachine.effects import Certainty
from mercury.statemachine.messages import CreateSequenceResponse
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, OnFailure
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.statemachine.tables import InvokerState
from mercury.storage.letters import DeadLetter
from mercury.storage.memory import MemoryStore
from mercury.storage.names import key_digest
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.sql.schema import METADATA
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage
from mercury.wire.scan import Limits
from tests.scenario.foreign import RM10_SOAP12, RM11_SOAP12, Foreign

from .pair import ACTION, ASK, URL, Pair, Side

NOW = 1_800_000_000.0
#: The next try comes at once.
AT_ONCE = RetransmissionPolicy(base=1.0, cap=1.0, jitter=0.0)
SKIPS = DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=3, redelivery=AT_ONCE)


def random(size: int) -> str:
    """Text that no database can make smaller."""
    return secrets.token_urlsafe(size)[:size]


def unbounded() -> Limits:
    """As if the border let through what no index takes."""
    limits = Limits()
    object.__setattr__(limits, "max_uri_length", 8000)
    return limits


class Peer:
    """Somebody who sends to one side by hand, each message at a time of its own."""

    def __init__(self, side: Side, protocol: Protocol = RM11_SOAP12) -> None:
        self.side = side
        self.foreign = Foreign(protocol)
        self.now = NOW
        answer = self.post(self.foreign.create())
        created = decode(answer.http.body, answer.http.content_type).body
        assert isinstance(created, CreateSequenceResponse)
        self.sequence = created.identifier

    def post(self, http: HttpMessage) -> Answer:
        (answer,) = self.side.engine.receive([Arrival(http=http, service="shop", url=URL, peer="192.0.2.1")], self.now)
        return answer

    def sends(self, number: int, text: str, action: str = ACTION, **more: str) -> bytes:
        headers = self.foreign.sequence(self.sequence, number)
        return self.post(self.foreign.envelope(action, f"<t>{text}</t>", headers=headers, to=URL, **more)).http.body

    def lets_time_pass(self, turns: int = 10) -> None:
        for _ in range(turns):
            self.now += 10.0
            self.side.turn(self.now)

    def letters(self) -> list[DeadLetter]:
        with self.side.store.transaction() as tx:
            return tx.dead_letters.all()


@contextmanager
def shop(url: str, protocol: Protocol = RM11_SOAP12, **more: Any) -> Iterator[Peer]:
    with closing(open_store(url)) as store:
        yield Peer(Side(store, **more), protocol)


def indexed_by_its_owner(url: str) -> None:
    """The owner of the database has an index of his own: it refuses responses to requests with a long MessageID."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("create index on mercury_rms_message (relates_to)")
    engine.dispose()


def outages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "the store fails" in each.getMessage()]


# --- at the border --------------------------------------------------------------------------------------------------


def _value(table: Table, column: Column[Any], indexed: set[str]) -> object:
    if column.name == "key_id":
        return key_digest("http://peer.example", "key")
    if column.name in indexed and isinstance(column.type, Text):
        return random(KEY_BYTES if column.name in ("key", "kind") else INDEXED_BYTES)
    if isinstance(column.type, LargeBinary):
        return b""
    return "" if isinstance(column.type, Text) else column.type.python_type(1)


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=lambda table: table.name)
def test_every_index_takes_the_longest_values_that_may_come_in(table: Table, postgres_url: str) -> None:
    open_sql_store(postgres_url).close()
    indexes = [*(index.columns for index in table.indexes), table.primary_key.columns]
    indexed = {column.name for columns in indexes for column in columns}
    engine = create_engine(postgres_url)
    try:
        with engine.begin() as connection:
            row = {column.name: _value(table, column, indexed) for column in table.columns}
            connection.execute(insert(table).values(row))
    finally:
        engine.dispose()


def test_a_message_whose_identifier_no_index_takes_is_refused_and_not_acknowledged(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shop(postgres_url) as peer:
        refused = peer.sends(1, "long", ASK, message_id=random(INDEXED_BYTES + 1))
        assert b"MessageID is longer than 2048 bytes" in refused
        refused = peer.sends(1, "long", ASK, message_id="\N{LATIN SMALL LETTER E WITH ACUTE}" * 1025)
        assert b"AcknowledgementRange" not in refused
        assert peer.sends(1, "as long as it may be", ASK, message_id=random(INDEXED_BYTES)) == b"", "a bare 202"
        offer = peer.post(peer.foreign.create(offer=random(INDEXED_BYTES + 1))).http.body
        assert b"Identifier is longer than 2048 bytes" in offer
        assert b"Accept" in peer.post(peer.foreign.create(offer=random(INDEXED_BYTES))).http.body
        peer.lets_time_pass()
        assert peer.side.handled == ["<t>as long as it may be</t>"]
        assert not peer.letters()
        assert not outages(caplog)


def test_a_sequence_that_a_server_names_too_long_is_not_started_and_the_others_go_on(postgres_url: str) -> None:
    with closing(open_sql_store(postgres_url)) as client, closing(MemoryStore()) as server:
        pair = Pair(client, server)
        pair.send(["one"])
        _, (create,) = pair.client.turn(NOW)
        reply = Foreign().created(random(INDEXED_BYTES + 1), create.envelope.message_id)
        arrival = pair.client.engine.answered(create, reply, NOW)
        assert arrival is not None
        assert "Identifier is longer than 2048 bytes" in str(arrival.envelope)
        pair.client.engine.receive([arrival], NOW)
        pair.send(["two"], "another key")
        pair.run(NOW)
        assert pair.server.handled == ["<order>two</order>"]
        pair.run(NOW + 60)
        assert sorted(pair.server.handled) == ["<order>one</order>", "<order>two</order>"]


def test_a_text_of_the_application_that_is_too_long_is_refused_at_once() -> None:
    with Mercury("memory:") as mercury:
        for key in (random(KEY_BYTES + 1), "\N{LATIN SMALL LETTER E WITH ACUTE}" * 257, "a\0b", "\ud800"):
            with pytest.raises(ConfigurationError, match=r"^key: "):
                mercury.to("http://peer.example/", key=key)
        with pytest.raises(ConfigurationError, match=r"^url: .* more than 2048; choose a shorter one"):
            mercury.to("http://peer.example/" + random(INDEXED_BYTES))
        sender = mercury.to("http://peer.example/", key=random(KEY_BYTES))
        for correlation in (random(INDEXED_BYTES + 1), "a\0b"):
            with pytest.raises(ConfigurationError, match=r"^correlation: "):
                sender.send(b"<a/>", operation="a", correlation=correlation)
        assert sender.pending == 0
        sender.send(b"<a/>", operation="a", correlation=random(INDEXED_BYTES))
        assert sender.pending == 1
    with pytest.raises(ConfigurationError, match=r"^name: "):
        Service("a" * (KEY_BYTES + 1))
    with pytest.raises(ConfigurationError, match=r"^max_uri_length: 2049 is not at most 2048"):
        Limits(max_uri_length=INDEXED_BYTES + 1)


@pytest.mark.parametrize("name", [random(INDEXED_BYTES + 1), "a\0b", "\ud800"], ids=["long", "NUL", "no text"])
def test_a_peer_whose_name_cannot_be_kept_is_refused(name: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        identify({"path": "/"}, {}, lambda _request: name)
    assert refused.value.status == 403
    assert identify({"path": "/"}, {}, lambda _request: random(INDEXED_BYTES)) is not None


# --- behind it --------------------------------------------------------------------------------------------------------


def test_a_message_whose_response_the_store_refuses_is_tried_as_often_as_any_and_then_let_go(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shop(postgres_url, policy=SKIPS, limits=unbounded()) as peer:
        indexed_by_its_owner(postgres_url)
        peer.sends(1, "before")
        peer.sends(2, "poison", ASK, message_id=random(4000))
        peer.sends(3, "behind", ASK)
        peer.lets_time_pass(20)
        assert peer.side.handled == ["<t>before</t>", "<t>behind</t>"]
        (letter,) = peer.letters()
        assert (letter.number, letter.certainty) == (2, Certainty.NOT_DELIVERED)
        assert letter.reason.startswith("given up: Unstorable: index row size")
        assert not outages(caplog), "the store works"
        assert "the store works and refuses" in caplog.text


def test_a_message_whose_response_the_store_refuses_waits_with_its_error_and_is_parked(postgres_url: str) -> None:
    with shop(postgres_url, policy=replace(SKIPS, on_failure=OnFailure.WAIT), limits=unbounded()) as peer:
        indexed_by_its_owner(postgres_url)
        peer.sends(1, "poison", ASK, message_id=random(4000))
        peer.sends(2, "behind", ASK)
        peer.lets_time_pass(5)
        with peer.side.store.transaction() as tx:
            (record,) = tx.invoker.all()
            assert record.attempts >= 3
            assert (record.last_error or "").startswith("Unstorable: index row size")
            record.parked, record.retry_at = 1, None
            tx.invoker.save_delivered(record, consumed=())
        peer.lets_time_pass()
        assert peer.side.handled == ["<t>behind</t>"]
        assert [letter.number for letter in peer.letters()] == [1]


@pytest.mark.parametrize("kind", ["unique", "foreign key"])
def test_a_commit_that_a_constraint_of_the_application_refuses_is_a_failed_try(postgres_url: str, kind: str) -> None:
    """One that is deferred to the commit: the handler itself does not see it fail."""
    with shop(postgres_url, policy=SKIPS) as peer:
        engine = create_engine(postgres_url)
        with engine.begin() as connection:
            connection.exec_driver_sql("create table placed (id int unique deferrable initially deferred)")
            connection.exec_driver_sql("create table bill (id int primary key)")
            connection.exec_driver_sql("create table line (of_id int references bill (id) initially deferred)")
        engine.dispose()
        row = "placed values (1), (1)" if kind == "unique" else "line values (1)"

        def put(context: MessageContext, text: str) -> None:
            if "poison" in text:
                context.transaction.connection().exec_driver_sql(f"insert into {row}")

        peer.side.on_put = put
        for number, text in enumerate(("before", "poison", "behind"), 1):
            peer.sends(number, text)
        peer.lets_time_pass(20)
        assert peer.side.handled == ["<t>before</t>", "<t>behind</t>"]
        (letter,) = peer.letters()
        assert letter.number == 2
        assert "violates" in letter.reason


def test_at_least_once_a_handler_is_not_called_without_end_for_a_response_that_is_refused(postgres_url: str) -> None:
    policy = DestinationPolicy(assurance=DeliveryAssurance.AT_LEAST_ONCE, redelivery=AT_ONCE)
    with shop(postgres_url, policy=policy, limits=unbounded()) as peer:
        indexed_by_its_owner(postgres_url)
        peer.sends(1, "poison", ASK, message_id=random(4000))
        peer.lets_time_pass(20)
        assert peer.side.handled == ["<t>poison</t>"] * 2, "in its run, and by itself"
        (letter,) = peer.letters()
        assert letter.certainty is Certainty.UNKNOWN
        assert letter.reason.startswith("its handler has ended, but Unstorable: ")
        peer.sends(2, "behind", ASK)
        peer.lets_time_pass()
        assert peer.side.handled[2:] == ["<t>behind</t>"]


def test_at_most_once_a_message_whose_response_is_refused_is_let_go(postgres_url: str) -> None:
    policy = DestinationPolicy(assurance=DeliveryAssurance.AT_MOST_ONCE)
    with shop(postgres_url, policy=policy, limits=unbounded()) as peer:
        indexed_by_its_owner(postgres_url)
        peer.sends(1, "poison", ASK, message_id=random(4000))
        peer.lets_time_pass(20)
        assert (peer.side.handled, [letter.number for letter in peer.letters()]) == ([], [1])
        peer.sends(2, "behind", ASK)
        peer.lets_time_pass()
        assert peer.side.handled == ["<t>behind</t>"]


def test_an_error_of_a_handler_is_kept_whatever_characters_are_in_it(sql_url: str) -> None:
    with shop(sql_url, policy=SKIPS) as peer:
        peer.side.on_put = lambda _context, _text: int("\0\ud800")
        peer.sends(1, "poison")
        peer.lets_time_pass()
        (letter,) = peer.letters()
        assert "given up: ValueError: " in letter.reason


def test_an_arrival_that_the_store_refuses_is_refused_for_good_and_is_no_outage(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shop(postgres_url, limits=unbounded()) as peer:
        caplog.set_level(logging.WARNING)
        answer = peer.post(peer.foreign.create(offer=random(4000)))
        assert answer.http.status != 503
        assert b"The store refuses what the message says" in answer.http.body
        assert not outages(caplog)


@pytest.mark.parametrize("highest", [2**63 - 1, 2**63 - 2])
@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in any order"])
def test_the_highest_number_there_is_is_acknowledged_and_consumed(any_url: str, highest: int, in_order: bool) -> None:
    with shop(any_url, policy=DestinationPolicy(in_order=in_order), protocol=RM10_SOAP12) as peer:
        for number in (1, 5, highest):
            assert b"AcknowledgementRange" in peer.sends(number, str(number))
        peer.post(peer.foreign.terminate(peer.sequence))
        peer.lets_time_pass()
        assert peer.side.handled == ["<t>1</t>", "<t>5</t>", f"<t>{highest}</t>"]
        with peer.side.store.transaction() as tx:
            assert [record.machine.state for record in tx.invoker.all()] == [InvokerState.DONE]
