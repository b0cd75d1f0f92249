"""A destination has one store: another one that answers in its place gets nothing, until an operator says it is new."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mercury import Mercury, RetransmissionPolicy, Service, SourcePolicy
from mercury.engine.events import DestinationReplaced, Event, StoreRefused
from mercury.operations.acting import NotPossible
from mercury.operations.calls.database import calls_of
from mercury.operations.operator import Operations
from mercury.operations.restarting import InDoubt
from mercury.storage.administration import Database
from mercury.storage.audit import Actor
from mercury.storage.opening import open_sql_store
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually, mercury

#: What is not acknowledged is sent again soon.
POLICY = SourcePolicy(retransmission=RetransmissionPolicy(base=0.2, cap=0.4))
OPERATOR = Actor("ann")


class Desk:
    """A server with a store of its own, which can stop and start again at its address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.handled: list[str] = []
        self.port = 0
        self._server: Mercury | None = None

    def start(self, port: int = 0) -> str:
        desk = Service("desk")

        @desk.operation
        def note(what: Note) -> None:
            self.handled.append(what.text)

        self._server = Mercury(self.url)
        base = self._server.listen(desk, port=port or self.port)
        self.port = urlsplit(base).port or 0
        return f"{base}/services/desk"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None

    @property
    def id(self) -> str:
        with Database(self.url) as database:
            return str(database.id)

    @property
    def received(self) -> list[int]:
        """How many messages of each sequence it has accepted."""
        store = open_sql_store(self.url)
        try:
            with store.transaction() as tx:
                return [each.machine.received.count for each in tx.rmd.all()]
        finally:
            store.close()


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    made = Desk(f"sqlite:///{tmp_path}/first.db"), Desk(f"sqlite:///{tmp_path}/second.db")
    yield made
    for each in made:
        each.stop()


@contextmanager
def sending(url: str) -> Iterator[tuple[Mercury, list[Event]]]:
    """A client, and the events about stores."""
    events: list[Event] = []
    with Mercury(url) as client:
        client.subscribe(events.append, StoreRefused, DestinationReplaced)
        yield client, events


@contextmanager
def operating(url: str) -> Iterator[Operations]:
    store = open_sql_store(url)
    try:
        yield Operations(store, time.time)
    finally:
        store.close()


def problems(url: str) -> list[str]:
    with operating(url) as operations:
        return [each.text for each in operations.overview().problems]


def test_member_with_another_store_gets_no_message_and_the_others_are_still_used(
    tmp_path: Path, desks: tuple[Desk, Desk]
) -> None:
    first, second = desks
    one, two = first.start(), second.start()
    url = f"sqlite:///{tmp_path}/client.db"
    with sending(url) as (client, events):
        sender = client.to(f"failover:({one},{two})?randomize=false", policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: first.handled == ["1"] and sender.pending == 0, "the first member handles a message")
        first.stop()
        sender.send(Note("2"))
        client.to(f"failover:({one},{two})?randomize=false", key="other", policy=POLICY).send(Note("3"))
        eventually(lambda: events, "the other store is refused")
        (event,) = events
        assert isinstance(event, StoreRefused)
        assert (event.address, event.expected, event.found) == (two, first.id, second.id)
        assert any(f"{two}: the store {second.id} answers there" in each for each in problems(url))
        first.start()
        eventually(lambda: sorted(first.handled) == ["1", "2", "3"], "the first member goes on where it was")
        eventually(lambda: sender.pending == 0, "all is acknowledged")
        assert client.dead_letters() == []
    second.stop()
    assert second.handled == []
    assert second.received == [], "no sequence was made there"


def test_new_destination_gets_what_was_never_sent_and_what_is_in_doubt_is_reported(
    tmp_path: Path, desks: tuple[Desk, Desk]
) -> None:
    first, second = desks
    endpoint = first.start()
    url = f"sqlite:///{tmp_path}/client.db"
    with sending(url) as (client, events):
        sender = client.to(endpoint, policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: first.handled == ["1"] and sender.pending == 0, "a message is handled")
        first.stop()
        sender.send(Note("2"))
        eventually(lambda: [each for each in client.sequences() if "refused" in each.last_error], "it is tried")
        second.start(first.port)  # the name leads to another server now
        eventually(lambda: events, "the other store is refused")
        with operating(url) as operations:
            with pytest.raises(NotPossible, match="1 message was sent and is not acknowledged"):
                operations.destination_actions.replace(endpoint, OPERATOR)
            for wrong, why in (("no id", "not the id of a store"), (None, "no destination http://nobody/")):
                with pytest.raises(NotPossible, match=why):
                    where = endpoint if wrong is not None else "http://nobody/"
                    operations.destination_actions.replace(where, OPERATOR, store=wrong)
            done = operations.destination_actions.replace(endpoint, OPERATOR, in_doubt=InDoubt.PARK, reason="moved")
            assert (done.before, done.store) == (first.id, second.id)
            (left,) = done.sequences
            assert (left.moved, left.in_doubt) == ((), ((2, 2),))
            again = operations.destination_actions.replace(endpoint, OPERATOR, store=second.id)
            assert again.sequences == (), "repeated, it has nothing to do"
            assert {each.note for each in operations.audit().items if each.action == "replace"} == {"moved", ""}
            assert operations.destination_actions.refused(10) == ()
        sender.send(Note("3"))
        eventually(lambda: second.handled == ["3"] and sender.pending == 0, "a successor is at the new store")
        (letter,) = client.dead_letters()
        assert letter.certainty.value == "unknown"
        replaced = [each for each in events if isinstance(each, DestinationReplaced)]
        assert [(each.before, each.store, each.in_doubt) for each in replaced] == [(first.id, second.id, ((2, 2),))]
    assert first.handled == ["1"]


def test_copy_of_the_store_with_an_id_of_its_own_is_another_store(tmp_path: Path, desks: tuple[Desk, Desk]) -> None:
    first, copy = desks
    endpoint = first.start()
    url = f"sqlite:///{tmp_path}/client.db"
    with sending(url) as (client, events):
        sender = client.to(endpoint, policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: first.handled == ["1"] and sender.pending == 0, "a message is handled")
        first.stop()
        shutil.copy(first.url.removeprefix("sqlite:///"), copy.url.removeprefix("sqlite:///"))
        with Database(copy.url) as database:
            database.renew_id()
        copy.start(first.port)
        sender.send(Note("2"))  # on a connection to an address that has the right store, as far as is known
        eventually(lambda: events, "the copy is refused")
        copy.stop()
        assert (copy.handled, copy.received) == ([], [1]), "it knows the sequence, and takes nothing of it"
        first.start()
        eventually(lambda: first.handled == ["1", "2"] and sender.pending == 0, "the original goes on")
        eventually(lambda: problems(url) == [], "the refusal is over")
        first.stop()
        shutil.copy(first.url.removeprefix("sqlite:///"), copy.url.removeprefix("sqlite:///"))
        copy.start(first.port)
        sender.send(Note("3"))
        eventually(lambda: copy.handled == ["3"], "a restored store with its own id is the same store")


def test_server_does_nothing_with_what_is_for_another_store(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    endpoint = first.start()
    headers = {"Content-Type": "text/xml", "Mercury-Store": "0123456789ab"}
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE)
    connection.request("POST", "/services/desk", b"<no-soap/>", headers)
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Mercury-Store"]) == (421, first.id)
    assert b"another store" in reply.read()
    connection.request("POST", "/services/desk", b"<no-soap/>", headers | {"Mercury-Store": first.id})
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Mercury-Store"]) == (500, first.id), "it is read, and is no message"
    connection.close()


def test_operator_says_on_the_command_line_that_a_destination_is_new(tmp_path: Path, desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    endpoint = first.start()
    url = f"sqlite:///{tmp_path}/client.db"
    with sending(url) as (client, events):
        sender = client.to(endpoint, policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: first.handled == ["1"] and sender.pending == 0, "a message is handled")
        first.stop()
        second.start(first.port)
        sender.send(Note("2"))
        eventually(lambda: events, "the other store is refused")
    checked = mercury("check", "store", "--store", url)
    assert checked.code == 2, checked
    assert f"the store {second.id} answers there" in checked.out
    done = mercury("sequences", "new-destination", endpoint, "--store", url, "--park-unknown", "-o", "json")
    assert done.code == 0, done
    value = json.loads(done.out)
    assert (value["before"], value["store"], value["in_doubt"]) == (first.id, second.id, "park")
    assert [each["in_doubt"] for each in value["sequences"]] == [[[2, 2]]]
    with operating(url) as operations:
        assert calls_of(operations).run("destinations.refused", {}, OPERATOR) == []
    with sending(url) as (client, _):
        client.to(endpoint, policy=POLICY).send(Note("3"))
        eventually(lambda: second.handled == ["3"], "a successor is at the new store", PATIENCE)
