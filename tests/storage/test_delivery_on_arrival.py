"""Delivery on arrival over PostgreSQL: what operators and other processes do takes effect, and each message is handled
once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from mercury.engine import own_locks
from mercury.engine.application import MessageContext
from mercury.engine.delivery.received import Received
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.reception import Reception
from mercury.engine.exchange import Answer, Arrival, Outgoing
from mercury.engine.own_locks import OwnLocks
from mercury.errors import TransientStorageError
from mercury.operations.operator import Operations
from mercury.storage.api import LockOrderError
from mercury.storage.audit import Actor, Via
from mercury.storage.claims import Claim
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.searching import SequenceFilter
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.coordinator import Coordinator
from mercury.testing.contract.builders import buffer, rmd_record
from mercury.wire.encode import encode
from mercury.wire.envelope import Envelope
from mercury.wire.verified import Verified
from tests.patience import patience

from .pair import URL, Pair, Side
from .round_trips import relay
from .test_statements import Statements

NOW = 1_800_000_000.0
ADA = Actor("ada", Via.CLI)
INSERT = text("insert into placed values (:name)")
PATIENCE = patience(60.0)


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    """Leases are measured by the test's time."""
    yield from opened(postgres_url)


def opened(url: str) -> Iterator[SqlStore]:
    made = open_sql_store(url, database_clock=False)
    with made.engine.begin() as connection:
        connection.execute(text("create table placed (name text primary key)"))
    yield made
    made.close()


class Shop(Pair):
    """A server that delivers on arrival. Its handler inserts its order, and is known to be quick."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(MemoryStore(), store)
        self.store = store
        #: Whether the handler leaves its insert to be executed later.
        self.leaves = False
        #: The calls, whether or not they were committed.
        self.calls: list[str] = []
        #: Is called by the handler after its insert.
        self.meanwhile: Callable[[MessageContext, str], object] = lambda _context, _name: None
        self.server = Side(store, on_put=self._put, on_arrival=True)
        self.send(["known"])
        self.run(NOW)
        assert self.calls == ["known"]
        self.calls.clear()

    def _put(self, context: MessageContext, order: str) -> None:
        name = order.removeprefix("<order>").removesuffix("</order>")
        self.calls.append(name)
        if self.leaves:
            context.transaction.execute_later(INSERT.text, {"name": name})
        else:
            context.transaction.connection().execute(INSERT, {"name": name})
        self.meanwhile(context, name)

    def create(self, key: str) -> None:
        """Create a sequence, of which nothing has arrived yet."""
        self.send(["of it"], key)
        _, created = self.client.turn(NOW)
        self.client.receive(self.carry(created, NOW), NOW)  # the first message is lost

    def posts(self, *names: str, key: str = "till") -> list[Outgoing]:
        """The client posts these orders; they have not arrived yet."""
        self.send(names, key)
        _, posts = self.client.turn(NOW)
        return posts

    def bring(self, *names: str, key: str = "till") -> None:
        """These orders arrive together and are acknowledged; no worker runs at the server."""
        self.client.receive(self.carry(self.posts(*names, key=key), NOW), NOW)
        with self.client.store.transaction() as tx:
            waiting = [record for record in tx.rms.all() if record.machine.outstanding]
        assert waiting == [], "they are not sent again"

    def work(self, now: float = NOW) -> None:
        """The server's invoker delivers what it finds."""
        self.server.engine.invocation.run_once(now)

    def deliver(self, *, on_arrival: bool) -> None:
        """Whether the server delivers on arrival from now on."""
        assert self.server.engine.on_arrival is not None
        self.server.engine.on_arrival.able = on_arrival

    def deliver_again(self) -> None:
        """Let the transactions pass that only store after one that has failed."""
        assert self.server.engine.on_arrival is not None
        while self.server.engine.on_arrival._only_stores():
            pass

    def placed(self) -> list[str]:
        """What the handlers have committed, apart from the first order."""
        with self.store.engine.connect() as connection:
            return list(connection.scalars(text("select name from placed where name <> 'known' order by name")))

    def stored(self) -> int:
        """The messages that wait for the invoker."""
        with self.store.engine.connect() as connection:
            return int(connection.scalar(text("select count(*) from mercury_invoker_message")) or 0)

    @property
    def operator(self) -> Operations:
        return Operations(self.store, lambda: NOW)

    def sequences(self) -> list[str]:
        """The destination sequences, as operators name them."""
        return [line.id for line in self.operator.sequences.page(SequenceFilter(source=False)).items]


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_messages_are_handled_by_one_commit_and_as_many_statements_as_there_are_handlers(store: SqlStore) -> None:
    shop, statements = Shop(store), Statements(store)
    shop.bring("a")  # what the first one prepares
    costs = []
    for names in (["b"], [f"c{number}" for number in range(40)]):
        posts = shop.posts(*names)
        assert len(posts) == len(names)
        with statements.during("receive"):
            shop.client.receive(shop.carry(posts, NOW), NOW)
        assert statements.commits["receive"] == 1
        assert statements.said("INSERT INTO mercury_invoker_message") == 0, "none is stored"
        assert statements.said("insert into placed") == len(names)
        costs.append(statements.counts["receive"] - len(names))
    assert costs[0] <= costs[1] <= costs[0] + 1, "the window grows"
    assert shop.stored() == 0
    assert len(shop.placed()) == 42


def test_statements_that_handlers_have_left_take_as_many_round_trips_for_2_messages_as_for_40(
    store: SqlStore, postgres_url: str
) -> None:
    with relay(postgres_url) as between:
        far = open_sql_store(between.url, database_clock=False)
        shop = Shop(far)
        shop.leaves = True
        shop.bring("a")  # what the first one prepares
        counts = []
        for names in (["b"], ["c", "d"], [f"e{number}" for number in range(40)]):
            posts = shop.posts(*names)
            with between.counted() as found:
                shop.client.receive(shop.carry(posts, NOW), NOW)
            counts += found
        assert counts[0] == 2, "the locks, the rows under them and the savepoint; the insert and the commit"
        assert counts[1:] == [5, 5], "the first call has a savepoint of its own"
        assert len(shop.placed()) == 44
        far.close()


def test_message_that_waits_is_handled_with_the_one_that_arrives(store: SqlStore) -> None:
    shop = Shop(store)
    shop.deliver(on_arrival=False)
    shop.bring("a")
    assert (shop.placed(), shop.stored()) == ([], 1)
    shop.deliver(on_arrival=True)
    shop.bring("b")
    assert shop.calls == shop.placed() == ["a", "b"]
    assert shop.stored() == 0


# --- operators --------------------------------------------------------------------------------------------------------


def test_no_handler_of_a_paused_service_is_called_on_arrival(store: SqlStore) -> None:
    shop = Shop(store)
    shop.operator.service_actions.pause("shop", ADA)
    shop.bring("a")
    shop.bring("b")
    shop.work()
    assert (shop.calls, shop.stored()) == ([], 2)
    shop.operator.service_actions.resume("shop", ADA)
    shop.bring("c")
    assert shop.calls == shop.placed() == ["a", "b", "c"]
    assert shop.stored() == 0


def test_no_message_of_a_suspended_sequence_is_handled_on_arrival(store: SqlStore) -> None:
    shop = Shop(store)
    (before,) = shop.sequences()
    shop.create("other")
    (suspended,) = set(shop.sequences()) - {before}
    shop.operator.sequence_actions.suspend(suspended, ADA)
    shop.client.receive(shop.carry(shop.client.turn(NOW + 60)[1], NOW), NOW)  # it is sent again
    shop.bring("free")
    assert (shop.calls, shop.stored()) == (["free"], 1)
    shop.operator.sequence_actions.resume(suspended, ADA)
    shop.work()
    assert shop.calls == ["free", "of it"]
    assert shop.stored() == 0


def test_no_handler_is_called_for_a_suspended_sequence_that_was_delivered_from(store: SqlStore) -> None:
    shop = Shop(store)
    (name,) = shop.sequences()
    shop.operator.sequence_actions.suspend(name, ADA)  # the process does not know it yet
    for order in "abc":
        shop.bring(order)
        shop.deliver_again()
    assert shop.calls == []
    assert (shop.placed(), shop.stored()) == ([], 3)
    shop.operator.sequence_actions.resume(name, ADA)
    shop.work()
    assert shop.placed() == ["a", "b", "c"]


def test_suspension_during_a_call_undoes_it(store: SqlStore) -> None:
    shop = Shop(store)
    (name,) = shop.sequences()
    shop.meanwhile = lambda _context, _name: shop.operator.sequence_actions.suspend(name, ADA)
    shop.bring("a")
    assert (shop.calls, shop.placed(), shop.stored()) == (["a"], [], 1)
    shop.meanwhile = lambda _context, _name: None
    shop.operator.sequence_actions.resume(name, ADA)
    shop.work()
    assert shop.placed() == ["a"]
    assert shop.stored() == 0


# --- other processes --------------------------------------------------------------------------------------------------


def test_message_whose_claim_another_process_has_taken_before_the_commit_is_handled_once(
    store: SqlStore, postgres_url: str
) -> None:
    shop, later = Shop(store), NOW + 3600
    other = open_sql_store(postgres_url, database_clock=False)
    (name,) = shop.sequences()

    def stopped(_context: MessageContext, _name: str) -> None:
        """This process was stopped for longer than its lease."""
        assert other.claim(f"invoker {name}", "another process", later, 30.0)

    shop.meanwhile = stopped
    shop.bring("a")
    assert (shop.calls, shop.placed(), shop.stored()) == (["a"], [], 1)
    shop.meanwhile = lambda _context, _name: None
    taken_over = Side(other, on_put=shop._put)
    assert taken_over.engine.invocation.run_once(later + 60).progress == 1
    assert shop.placed() == ["a"]
    shop.work(later + 60)
    assert shop.calls == ["a", "a"], "the first call was undone"
    other.close()


def test_another_sequence_is_received_during_a_call(store: SqlStore) -> None:
    shop = Shop(store)
    shop.create("other")
    again = shop.client.turn(NOW + 60)[1]

    def during(_context: MessageContext, name: str) -> None:
        if name == "a":
            with ThreadPoolExecutor(1) as thread:  # as the second committer
                assert len(thread.submit(shop.carry, again, NOW).result(PATIENCE)) == 1

    shop.meanwhile = during
    assert len(shop.carry(shop.posts("a"), NOW)) == 1
    assert shop.placed() == ["a", "of it"]


class TwoProcesses(Shop):
    """A second process on the server's store, which knows that the handler is quick. Each knows of the other."""

    def __init__(self, store: SqlStore, url: str) -> None:
        super().__init__(store)
        self.beside = open_sql_store(url, database_clock=False)
        self.second = Side(self.beside, on_put=self._put, on_arrival=True)
        self.first = self.server
        for side in (self.first, self.second):
            side.engine.note_others(True)
        self.server = self.second
        self.send(["of the second"], "second")
        self.run(NOW)
        assert self.calls == ["of the second"]
        self.server = self.first
        self.calls.clear()

    def of(self, side: Side) -> TwoProcesses:
        """What is brought from now on arrives at this process."""
        self.server = side
        return self

    def placed(self) -> list[str]:
        return [name for name in super().placed() if name != "of the second"]


@pytest.fixture
def two(store: SqlStore, postgres_url: str) -> Iterator[TwoProcesses]:
    made = TwoProcesses(store, postgres_url)
    yield made
    made.beside.close()


def test_process_beside_another_one_delivers_on_arrival_what_it_receives(two: TwoProcesses) -> None:
    two.bring("a")
    two.of(two.second).bring("b", key="second")
    two.of(two.first).bring("c")
    assert two.calls == two.placed() == ["a", "b", "c"]
    assert two.stored() == 0


def test_messages_of_one_sequence_that_arrive_at_two_processes_in_turns_are_handled_once_and_in_order(
    two: TwoProcesses,
) -> None:
    names = [f"{number:02}" for number in range(12)]
    for number, name in enumerate(names):
        two.of(two.first if number % 2 else two.second).bring(name)
    for side in (two.first, two.second):
        side.engine.invocation.run_once(NOW)
    assert two.calls == two.placed() == names
    assert two.stored() == 0


def test_arrivals_at_one_process_while_a_handler_hangs_in_another_wait_and_hold_back_nothing_else(
    two: TwoProcesses,
) -> None:
    two.create("other")
    other = two.client.turn(NOW + 60)[1]
    found: list[list[Answer]] = []

    def hangs(_context: MessageContext, name: str) -> None:
        if name == "a":
            posts = [*two.posts("b"), *other]
            arrivals = [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]
            with ThreadPoolExecutor(1) as thread:
                receive = two.second.engine.receive
                for postpones in (True, False):
                    answers = thread.submit(partial(receive, arrivals, NOW, postpones=postpones))
                    found.append(answers.result(PATIENCE))

    two.meanwhile = hangs
    two.client.receive(two.carry(two.posts("a"), NOW), NOW)
    (held, done), (refused, again) = found
    assert (held.postponed, done.postponed) == (True, False)
    assert b"Acknowledgement" in done.http.body
    assert b"Acknowledgement" in again.http.body
    assert not refused.postponed
    assert b"busy" in refused.http.body
    assert two.calls == two.placed() == ["a", "of it"]
    two.meanwhile = lambda _context, _name: None
    two.run(NOW + 600)
    assert two.calls == ["a", "of it", "b"]
    assert two.placed() == ["a", "b", "of it"]


def test_arrivals_wait_for_no_buffer_of_a_sequence_that_another_process_is_at_work_on(two: TwoProcesses) -> None:
    """A handler hangs there for longer than the lease of its claim, so that this process gets the claim."""
    two.create("other")
    other = two.client.turn(NOW + 60)[1]
    posts = [*two.posts("a", key="second"), *other]
    arrivals = [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]
    assert posts[0].envelope.sequence is not None
    name = posts[0].envelope.sequence.identifier
    with two.store.transaction() as tx, ThreadPoolExecutor(1) as thread:
        tx.rmd.lock([name])
        tx.invoker.lock([name])
        receive = partial(two.second.engine.receive, arrivals, NOW, postpones=True)
        held, done = thread.submit(receive).result(PATIENCE)
    assert (held.postponed, done.postponed) == (True, False)
    assert two.calls == two.placed() == ["of it"], "on arrival"
    assert two.stored() == 0


def test_buffer_that_was_left_out_is_not_counted_as_locked(two: TwoProcesses) -> None:
    (name, *_) = two.sequences()
    with two.store.transaction() as tx, two.beside.transaction() as beside:
        (record,) = tx.invoker.lock([name]).values()
        assert list(beside.rmd.lock([name], [], [name], only_free=True)) == [name]
        assert beside.invoker.lock([name]) == {}
        with pytest.raises(LockOrderError):
            beside.invoker.save_locked([record])


def test_buffer_that_another_has_locked_is_left_out_of_more_than_one_statement_names(two: TwoProcesses) -> None:
    names = [f"urn:many:{number:04}" for number in range(1100)]
    with two.store.transaction() as tx:
        tx.rmd.insert(*(rmd_record(name, create_message_id=name) for name in names))
        tx.invoker.insert(*(buffer(name) for name in names))
    with two.store.transaction() as tx, two.beside.transaction() as beside:
        held = [names[0], names[700], names[-1]]
        assert list(tx.invoker.lock(held)) == held
        assert list(beside.rmd.lock(names[::-1], names[5:0:-1], names[::-1], only_free=True)) == names[::-1]
        found = beside.invoker.lock(names)
        assert list(found) == [name for name in names if name not in held]
        beside.invoker.save_locked(list(found.values()))


def test_arrival_that_is_repeated_alone_is_not_delivered_by_a_thread_that_only_stores(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that hangs there would hold back all arrivals that were postponed."""
    shop = Shop(store)
    posts = [*shop.posts("a"), *shop.posts("b", key="other")]
    arrivals = [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]
    handle = Reception._handle

    def fails_for_several(self: Reception, exchanges: list[InboundExchange], *rest: Any, **more: Any) -> Any:
        if len(exchanges) > 1:
            raise TransientStorageError("it was ended")
        return handle(self, exchanges, *rest, **more)

    monkeypatch.setattr(Reception, "_handle", fails_for_several)
    assert len(shop.server.engine.receive(arrivals, NOW, delivers=False)) == 2
    assert (shop.calls, shop.stored()) == ([], 1), "and the other sequence is created"


def signed(post: Outgoing) -> Arrival:
    """The arrival of a message with WS-Security."""
    verified = Verified(identity="ada", tokens=frozenset(), digest="d", expires=NOW + 60)
    envelope = replace(post.envelope, verified=verified)
    return Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client", envelope=envelope)


@pytest.mark.parametrize("others", [True, False])
def test_no_handler_is_called_while_a_copy_in_another_process_would_wait_for_it(
    two: TwoProcesses, others: bool
) -> None:
    two.second.engine.note_others(others)
    (post,) = two.posts("a", key="second")
    two.second.engine.receive([signed(post)], NOW)
    assert (two.calls, two.stored()) == (([], 1) if others else (["a"], 0))


def test_copy_of_a_postponed_message_is_not_taken_for_a_replay(two: TwoProcesses) -> None:
    """What a transaction that postpones has recorded is rolled back with it."""
    (post,) = two.posts("a")
    arrival = signed(post)
    verified = arrival.envelope.verified if isinstance(arrival.envelope, Envelope) else None
    assert verified is not None
    with two.store.transaction() as tx:
        tx.rmd.lock(two.sequences())
        (answer,) = two.second.engine.receive([arrival], NOW, postpones=True)
        assert answer.postponed
    with two.store.transaction() as tx:
        assert tx.replay.add({verified.digest: verified.expires}) == frozenset()


def test_arrival_waits_for_a_worker_of_its_own_process_and_is_delivered_then(
    two: TwoProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was postponed it would only be stored, and what comes after it too, until the invoker has caught up."""
    began = threading.Event()

    class Watched(OwnLocks):
        def wait_for(self, sequences: Collection[str]) -> None:
            began.set()
            super().wait_for(sequences)

    monkeypatch.setattr(own_locks, "PATIENCE", PATIENCE)
    locks = two.second.engine._context.own_locks = Watched()
    (post,) = two.posts("a", key="second")
    arrival = Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client")
    with ThreadPoolExecutor(1) as thread:
        with locks.note(two.sequences()), two.store.transaction() as tx:
            tx.rmd.lock(two.sequences())
            answers = thread.submit(partial(two.second.engine.receive, [arrival], NOW, postpones=True))
            answers.add_done_callback(lambda _: began.set())  # it has not waited
            assert began.wait(PATIENCE)
        (answer,) = answers.result(PATIENCE)
    assert not answer.postponed
    assert two.calls == two.placed() == ["a"]
    assert two.stored() == 0


def test_sequence_that_is_locked_while_the_last_other_process_goes_is_not_an_unknown_one(two: TwoProcesses) -> None:
    """Its source would end it. So it is at the start of a process that is alone, which learns that a moment later."""

    class Going(OwnLocks):
        def wait_for(self, sequences: Collection[str]) -> None:
            super().wait_for(sequences)
            two.second.engine.note_others(False)

    two.second.engine._context.own_locks = Going()
    (post,) = two.posts("a", key="second")
    arrival = Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client")
    with two.store.transaction() as tx:
        tx.rmd.lock(two.sequences())
        (answer,) = two.second.engine.receive([arrival], NOW, postpones=True)
    assert answer.postponed


def test_unknown_sequence_is_refused_beside_other_processes_too(two: TwoProcesses) -> None:
    (post,) = two.posts("a")
    http = encode(post.envelope)
    (name,) = (name for name in two.sequences() if name.encode() in http.body)
    unknown = replace(http, body=http.body.replace(name.encode(), b"urn:unknown"))
    (answer,) = two.second.engine.receive([Arrival(http=unknown, service="shop", url=URL)], NOW, postpones=True)
    assert not answer.postponed
    assert b"UnknownSequence" in answer.http.body


def test_messages_are_delivered_on_arrival_after_some_were_postponed(two: TwoProcesses) -> None:
    (post,) = two.posts("a", key="second")
    with two.store.transaction() as tx:
        tx.rmd.lock(two.sequences())
        arrival = Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client")
        (answer,) = two.second.engine.receive([arrival], NOW, postpones=True)
        assert answer.postponed
    two.client.receive(two.of(two.second).carry([post], NOW), NOW)
    assert two.calls == two.placed() == ["a"]


def test_delivery_has_not_failed_if_its_claim_cannot_be_given_back(
    two: TwoProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_claim: Claim) -> None:
        raise TransientStorageError("the store is away")

    two.of(two.second).bring("a")
    with monkeypatch.context() as patch:
        patch.setattr(two.store, "release", away)
        step = two.first.engine.invocation.run_once(NOW)
    assert (step.progress, two.calls, two.placed()) == (1, ["a"], ["a"])
    assert two.first.engine.invocation.run_once(NOW + 1).progress == 0


def test_claim_goes_to_the_process_that_receives(two: TwoProcesses) -> None:
    """A process with the claim on a buffer would deliver from it for ever what another one receives and stores."""
    two.of(two.second).bring("a")
    assert (two.calls, two.stored()) == ([], 1), "the first one has the claim"
    two.first.engine.invocation.run_once(NOW)
    assert two.calls == ["a"]
    two.bring("b")
    assert two.calls == two.placed() == ["a", "b"], "on arrival"
    assert two.stored() == 0


def test_process_keeps_the_claim_on_what_arrives_there_too(two: TwoProcesses) -> None:
    """Otherwise a sequence whose messages are spread over two processes would change its owner with each of them."""
    two.bring("a")
    two.of(two.second).bring("b")
    two.first.engine.invocation.run_once(NOW)
    assert two.calls == ["a", "b"]
    two.bring("c")
    assert (two.calls, two.stored()) == (["a", "b"], 1)
    two.of(two.first).bring("d")
    assert two.calls == two.placed() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("slow", [False, True])
def test_several_claims_go_to_the_process_that_receives_if_it_could_deliver_on_arrival(
    two: TwoProcesses, slow: bool
) -> None:
    two.send(["first"], "more")
    two.run(NOW)
    assert two.first.engine.on_arrival is not None
    two.first.engine.on_arrival._received = Received()  # it is long ago
    for key in ("till", "more"):
        two.of(two.second).bring(f"second {key}", key=key)
    assert two.stored() == 2
    if slow:
        two.meanwhile = lambda _context, _name: two.first.engine.on_arrival.savepoints.times.took(["shop"], 1.0, 1, 1)
    two.first.engine.invocation.run_once(NOW)
    two.bring("third till")
    assert two.stored() == slow


# --- failures ---------------------------------------------------------------------------------------------------------


def test_statement_of_a_handler_that_fails_leaves_the_work_of_the_others(store: SqlStore) -> None:
    shop = Shop(store)
    shop.bring("a", "known", "b")
    assert shop.placed() == ["a"], "in order, the third waits for the second"
    assert shop.stored() == 2
    with store.transaction() as tx:
        (record,) = tx.invoker.all()
    assert record.attempts == 1
    assert record.retry_at is not None
    assert "UniqueViolation" in (record.last_error or "")


def test_statement_that_a_handler_has_left_fails_as_its_own_call(store: SqlStore) -> None:
    shop = Shop(store)
    shop.leaves = True
    shop.bring("a", "known", "b")
    assert shop.placed() == ["a"]
    assert shop.stored() == 2
    assert shop.calls == ["a", "known", "b", "known"], "the first alone, the others together, and then each alone"
    with store.transaction() as tx:
        (record,) = tx.invoker.all()
    assert record.attempts == 1
    assert "(in insert into placed values (:name))" in (record.last_error or "")


def broken_off(context: MessageContext, _name: str) -> None:
    """The server ends the session of the handler's transaction."""
    context.transaction.connection().execute(text("select pg_terminate_backend(pg_backend_pid())"))


def busy(_context: MessageContext, _name: str) -> None:
    raise TransientStorageError("a deadlock")


@pytest.mark.parametrize("failure", [broken_off, busy])
def test_transaction_that_fails_in_a_handler_is_repeated_and_stores_its_messages(
    store: SqlStore, failure: Callable[[MessageContext, str], None]
) -> None:
    shop = Shop(store)
    shop.meanwhile = failure
    shop.bring("a", "b")
    assert (shop.placed(), shop.stored()) == ([], 2)
    shop.meanwhile = lambda _context, _name: None
    shop.work()
    assert shop.placed() == ["a", "b"]
    assert shop.stored() == 0


# --- stores that do not do it -----------------------------------------------------------------------------------------


def test_store_with_databases_beside_it_stores_what_it_receives(store: SqlStore) -> None:
    """Its transactions are of several databases: a handler would hold all of them while arrivals wait."""
    store.coordinator = Coordinator(store, {}, lambda: "process")
    assert not store.capabilities.delivers_on_arrival
    shop = Shop(store)
    shop.bring("a")
    assert (shop.calls, shop.stored()) == ([], 1)
    shop.work()
    assert shop.placed() == ["a"]


class NeverWaited(OwnLocks):
    """Nothing may wait for a worker."""

    def wait_for(self, sequences: Collection[str]) -> None:
        raise AssertionError(f"waits for {sequences}")


def test_sqlite_stores_what_it_receives(tmp_path: object) -> None:
    """A handler in the transaction of the arrivals would keep every other transaction from writing. So would a wait for
    a worker: it may itself wait for the file, if a signed arrival has been recorded."""
    for store in opened(f"sqlite:///{tmp_path}/store.db"):
        shop = Shop(store)
        shop.server.engine.note_others(True)
        shop.server.engine._context.own_locks = NeverWaited()
        shop.bring("a")
        assert (shop.calls, shop.stored()) == ([], 1)
