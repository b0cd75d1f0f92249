"""The number of SQL statements for many messages does not grow with the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import RowMapping, event

from mercury.engine.events import Accepted, Acknowledged, Delivered, Event, Transmitted
from mercury.engine.exchange import Arrival, Purpose
from mercury.engine.observers import Observers
from mercury.engine.runtime.held_exchanges import HeldWorker
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.wire.envelope import Envelope

from .pair import URL, Pair, Side

NOW = 1_800_000_000.0
NO_DISCARD = IncompleteSequenceBehavior.NO_DISCARD
#: What no run may need more of, whatever its length.
BOUND = 16


class Statements:
    """Counts what is sent to a database: savepoints, of which each handler has one if it needs it, by themselves."""

    def __init__(self, store: SqlStore) -> None:
        self.counts: Counter[str] = Counter()
        self.savepoints: Counter[str] = Counter()
        self.commits: Counter[str] = Counter()
        #: Reads of rows that were handed over, and how many of them with bodies.
        self.reads: dict[str, tuple[int, int]] = {}
        self._committed = 0
        self._said: list[str] = []
        event.listen(store.engine, "before_cursor_execute", self._count)
        event.listen(store.engine, "commit", self._commit)

    def _count(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self._said.append(statement)

    def _commit(self, _connection: Any) -> None:
        self._committed += 1

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        self._said.clear()
        committed = self._committed
        yield
        self.commits[what] = self._committed - committed
        savepoints = [each for each in self._said if each.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK"))]
        self.counts[what] = len(self._said) - len(savepoints)
        rows = [each for each in self._said if each.startswith("SELECT mercury_rms_message.position, ")]
        self.reads[what] = len(rows), sum("mercury_rms_body" in each for each in rows)
        self.savepoints[what] = len(savepoints)

    def said(self, part: str) -> int:
        """How many of the statements that were counted last have this part."""
        return len(self.texts(part))

    def texts(self, part: str) -> list[str]:
        """Those that were counted last and have this part."""
        return [each for each in self._said if part in each]


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def acknowledging(reply: Arrival, numbers: Iterable[int]) -> Arrival:
    """A reply that acknowledges these messages instead of its own."""
    assert isinstance(reply.envelope, Envelope)
    (own,) = reply.envelope.acknowledgements
    given = replace(own, ranges=tuple((number, number) for number in numbers))
    return replace(reply, envelope=replace(reply.envelope, acknowledgements=(given,)))


def client_side(store: SqlStore, number: int) -> Counter[str]:
    """The cost of ``number`` messages at their source."""
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    pair.send(["first"], key=f"till {number}")
    pair.run_and_grow(NOW)  # its sequence is made
    with statements.during("send"):
        pair.send([str(each) for each in range(number)], key=f"till {number}")
    with statements.during("number and transmit"):
        _, posts = pair.client.turn(NOW)
    assert len(posts) == number
    (reply,) = pair.carry(posts, NOW)  # the last asks, for all
    replies = [reply] * number  # a source that never asks would have got it with each
    with statements.during("acknowledge"):
        pair.client.engine.receive(replies, NOW)
    with store.transaction() as tx:
        assert sum(tx.rms.backlog(record.channel.key) for record in tx.rms.all()) == 0
    return statements.counts


def server_side(store: SqlStore, number: int) -> tuple[Counter[str], Counter[str]]:
    """The cost of ``number`` messages at their destination, and their savepoints."""
    pair, statements = Pair(MemoryStore(), store), Statements(store)
    pair.send(["first"], key=f"till {number}")
    pair.run_and_grow(NOW)
    pair.send([str(each) for each in range(number)], key=f"till {number}")
    _, posts = pair.client.turn(NOW)
    assert len(posts) == number
    with statements.during("receive"):
        pair.carry(posts, NOW)
    assert len(pair.server.handled) == 1
    with statements.during("invoke"):
        pair.server.engine.invocation.run_once(NOW)
    assert len(pair.server.handled) == 1 + min(number, 50)
    return statements.counts, statements.savepoints


def asking_side(store: SqlStore, number: int) -> tuple[Counter[str], dict[str, tuple[int, int]]]:
    """The cost of ``number`` requests and responses at the client, and how often the rows of requests are read."""
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    pair.send(["first"], key=f"till {number}")
    pair.run_and_grow(NOW)  # its sequence is made
    pair.send([str(each) for each in range(number)], key=f"till {number}", ask=True)
    with statements.during("number and transmit"):
        _, posts = pair.client.turn(NOW)
    assert len(posts) == number
    held = pair.hold(posts, NOW)
    pair.server.turn(NOW)  # handles the first fifty
    pair.server.turn(NOW)
    pair.server.turn(NOW)
    replies = [each.response.result(0) for each in held]
    arrivals = [Arrival(http=reply, url=URL, request=post) for reply, post in zip(replies, posts, strict=True) if reply]
    with statements.during("receive responses"):
        pair.client.engine.receive(arrivals, NOW)
    with statements.during("consume responses"):
        pair.client.engine.invocation.run_once(NOW)
    assert len(pair.client.handled) == min(number, 50)
    pair.run(NOW)
    return statements.counts, statements.reads


def answering_side(store: SqlStore, number: int) -> tuple[Counter[str], Counter[str]]:
    """The cost of ``number`` requests and their responses at the server, whose exchanges are all held open: statements,
    and transactions.
    """
    pair, statements = Pair(MemoryStore(), store), Statements(store)
    pair.send(["first"], key=f"till {number}")
    pair.run_and_grow(NOW)
    pair.send([str(each) for each in range(number)], key=f"till {number}", ask=True)
    _, posts = pair.client.turn(NOW)
    with statements.during("receive and hold"):
        held = pair.hold(posts, NOW)
    assert len(held) == number
    with statements.during("invoke, number and release"):
        pair.server.engine.invocation.run_once(NOW)
    assert store.due_rms(NOW, 10) == []  # another transaction is not needed
    released = [each for each in held if each.response.done()]
    assert len(released) == min(number, 50)
    arrivals = [reply for each in released if (reply := each.response.result(0)) is not None]
    pair.client.engine.receive(
        [Arrival(http=reply, url=URL, request=post) for reply, post in zip(arrivals, posts, strict=False)], NOW
    )
    _, acknowledging = pair.client.turn(NOW + 1)
    assert [post.purpose for post in acknowledging].count(Purpose.ACKNOWLEDGEMENT) == 1  # for all of them
    with statements.during("responses acknowledged"):
        pair.carry([post for post in acknowledging if post.purpose is Purpose.ACKNOWLEDGEMENT], NOW + 1)
    assert store.due_rms(NOW + 1, 10) == []
    with statements.during("look for those that others have stored"):
        HeldWorker(pair.server.engine, pair.server.held_exchanges).run_once(NOW)
    return statements.counts, statements.commits


def test_a_hundred_messages_take_the_statements_of_ten_at_the_source(store: SqlStore) -> None:
    ten, hundred = client_side(store, 10), client_side(store, 100)
    assert ten == hundred
    assert max(hundred.values()) <= BOUND, hundred
    assert min(hundred.values()) >= 1, hundred


@pytest.fixture
def acknowledging_client(store: SqlStore) -> tuple[Pair, Arrival]:
    """A client with 400 messages on their way (2 to 401), and the reply to the last one."""
    pair = Pair(store, MemoryStore())
    pair.server = Side(MemoryStore(), policy=DestinationPolicy(incomplete_behavior=NO_DISCARD))
    pair.send(["first"])
    pair.run_and_grow(NOW)  # its sequence is made
    pair.send([str(each) for each in range(400)])
    posts = [post for _ in range(10) for post in pair.client.turn(NOW)[1]]
    assert len(posts) == 400
    (reply,) = pair.carry(posts[-1:], NOW)
    return pair, reply


def test_gaps_in_what_is_acknowledged_do_not_make_the_next_acknowledgement_dearer(
    store: SqlStore, acknowledging_client: tuple[Pair, Arrival]
) -> None:
    (pair, reply), statements = acknowledging_client, Statements(store)
    costs = []
    for number, before in ((5, [3]), (202, range(204, 401, 2))):
        pair.client.engine.receive([acknowledging(reply, before)], NOW)
        with statements.during("one number"):
            pair.client.engine.receive([acknowledging(reply, [number])], NOW)
        costs.append(statements.counts["one number"])
    assert costs[0] == costs[1]
    with store.transaction() as tx:
        (record,) = tx.rms.all()
        assert tx.rms.backlog(record.channel.key) == 400 - 3 - len(range(204, 401, 2))


@pytest.mark.parametrize("numbers", [[3], [3, 5, 7], range(3, 401, 2)], ids=["one", "some", "many"])
def test_changes_of_acknowledged_rows_search_each_range_in_the_index(
    store: SqlStore, acknowledging_client: tuple[Pair, Arrival], numbers: Sequence[int]
) -> None:
    if store.engine.dialect.name != "sqlite":
        pytest.skip("EXPLAIN QUERY PLAN is SQLite's")
    pair, reply = acknowledging_client
    changes: list[tuple[str, Any]] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if "between" in statement.lower() and not statement.startswith("EXPLAIN"):
            changes.append((statement, parameters))

    pair.client.engine.receive([acknowledging(reply, numbers)], NOW)
    assert changes
    with store.engine.connect() as connection:
        for statement, parameters in changes:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            searches = [row.detail for row in plan if "INDEX mercury_rms_message_number" in row.detail]
            assert searches
            assert all(search.endswith("(sequence_id=? AND number>? AND number<?)") for search in searches), statement


def test_a_hundred_messages_take_the_statements_of_ten_at_the_destination(store: SqlStore) -> None:
    (ten, _), (hundred, savepoints) = server_side(store, 10), server_side(store, 100)
    assert ten == hundred
    assert max(hundred.values()) <= BOUND, hundred
    assert min(hundred.values()) >= 1, hundred
    assert savepoints["receive"] == 0


def test_a_hundred_requests_and_responses_take_the_statements_of_ten_at_the_client(store: SqlStore) -> None:
    (ten, _), (hundred, _) = asking_side(store, 10), asking_side(store, 100)
    assert ten == hundred
    assert max(hundred.values()) <= BOUND, hundred
    assert min(hundred.values()) >= 1, hundred


class _Watched(Observers):
    """Somebody watches everything."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Event] = []
        self.subscribe(self.seen.append)


def test_observers_of_every_event_cost_no_statement(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = client_side(store, 10), *server_side(store, 10), *asking_side(store, 20)
    made: list[_Watched] = []
    monkeypatch.setattr("tests.storage.pair.Observers", lambda: made.append(_Watched()) or made[-1])
    watched = client_side(store, 11), *server_side(store, 11), *asking_side(store, 21)
    assert watched[0] == alone[0]
    assert watched[1] == alone[1]
    assert watched[3:] == alone[3:]
    kinds = {type(event) for each in made for event in each.seen}
    assert kinds >= {Transmitted, Accepted, Delivered, Acknowledged}


def test_a_response_on_its_requests_connection_reads_the_request_once_and_never_its_body(store: SqlStore) -> None:
    _, reads = asking_side(store, 10)
    assert reads["receive responses"] == (1, 0), "its key is known from the exchange; it is read when that is locked"
    assert reads["consume responses"] == (2, 0), "for the names of callbacks, and again when its key is locked"


@pytest.mark.parametrize("offers", [True, False], ids=["offered sequence", "ordinary replies"])
def test_rows_read_for_a_repetition_do_not_depend_on_requests_with_the_same_message_id(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, offers: bool
) -> None:
    bodies: list[int] = []
    read = SqlTransaction.read

    def counting(self: SqlTransaction, *question: Any) -> Sequence[RowMapping]:
        found = read(self, *question)
        bodies.extend(len(row["payload"]) for row in found if "payload" in row)
        return found

    def repeated(number: int) -> list[int]:
        pair = Pair(MemoryStore(), store)
        pair.send([str(each) for each in range(number)], key=f"till {number}", ask=True, offer=offers)
        _, (create,) = pair.client.turn(NOW)
        posts = pair.client.receive(pair.carry([create], NOW), NOW)
        same = [replace(post, envelope=replace(post.envelope, message_id="urn:same")) for post in posts]
        assert len(pair.hold(same, NOW)) == number
        while pair.server.turn(NOW)[0]:
            pass
        bodies.clear()
        assert pair.hold([same[-1]], NOW) == [], "it is answered at once"
        return list(bodies)

    monkeypatch.setattr(SqlTransaction, "read", counting)
    one, forty = repeated(1), repeated(40)
    assert [len(one), len(forty)] == [1, 1]


def test_sequences_of_a_key_are_read_only_where_they_are_needed(store: SqlStore) -> None:
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    pair.send(["first"])
    pair.run(NOW)
    with store.transaction() as tx:
        keys = [record.channel.key for record in tx.rms.all()]
    with statements.during("lock"), store.transaction() as tx:
        tx.rms.lock(keys)
    with statements.during("lock and read"), store.transaction() as tx:
        tx.rms.lock(keys)
        assert [record.channel.key for key in keys for record in tx.rms.records(key)] == keys
    assert statements.counts["lock and read"] == statements.counts["lock"] + 1


def test_a_hundred_held_exchanges_take_the_statements_of_ten_at_the_server(store: SqlStore) -> None:
    (ten, _), (hundred, commits) = answering_side(store, 10), answering_side(store, 100)
    looks = hundred.pop("look for those that others have stored"), ten.pop("look for those that others have stored")
    assert looks == (1, 0), "one question for all that are still held; with nothing held there is none"
    assert ten == hundred
    assert max(hundred.values()) <= BOUND, hundred
    assert min(hundred.values()) >= 1, hundred
    for what in ("receive and hold", "invoke, number and release", "responses acknowledged"):
        assert commits[what] == 1, what


def test_twenty_sequences_without_an_offer_are_created_by_the_statements_of_two(store: SqlStore) -> None:
    counts = []
    for count in (2, 20):
        pair, statements = Pair(MemoryStore(), store), Statements(store)
        for number in range(count):
            pair.send(["first"], key=f"till {number}", offer=False)
        posts = [post for _ in range(count) for post in pair.client.turn(NOW)[1]]
        assert len(posts) == count
        with statements.during("create"):
            pair.carry(posts, NOW)
        counts.append(statements.counts["create"])
    assert counts[0] == counts[1] <= BOUND
    assert len([each for each in statements.texts("mercury_rmd_sequence") if each.lower().startswith("insert")]) == 1
    assert len([each for each in statements.texts("mercury_invoker_buffer") if each.lower().startswith("insert")]) == 1


def test_sequences_are_counted_once_however_many_are_created_together(store: SqlStore) -> None:
    pair, statements = Pair(MemoryStore(), store), Statements(store)
    for number in range(3):
        pair.send(["first"], key=f"till {number}")
    _, posts = pair.client.turn(NOW)
    assert len(posts) == 3
    with statements.during("create"):
        pair.carry(posts, NOW)
    assert 1 <= statements.said('AS "open"') + statements.said("AS open") <= 2  # of the peer, and in all
    assert 1 <= statements.said('AS "ended"') + statements.said("AS ended") <= 2
