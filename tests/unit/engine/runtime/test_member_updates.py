"""A destination says which members it has; a client that asks uses those that it may."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial

import pytest

from mercury.engine.address_book import AddressBook
from mercury.engine.addresses import AddressPolicy
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.member_updates import (
    INTERVAL,
    NOBODY_INTERVAL,
    REBALANCED_WITHIN,
    Fetching,
    MemberUpdates,
    NoFetching,
)
from mercury.engine.runtime.peers import Peer, Peers
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import ConfigurationError, TransportError
from mercury.testing.clock import FakeClock
from tests.acceptance.processes import eventually

A, B, C = "http://a.example/svc", "http://b.example/svc", "http://c.example/svc"
ALLOWED = AddressPolicy(("http://c.example/", "http://d.example/", "https://c.example/"))


class Documents:
    """A transport with these documents."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self.documents = dict(documents)
        self.asked: list[str] = []
        self.others: frozenset[str] = frozenset()

    def get(self, url: str) -> bytes:
        self.asked.append(url)
        if url not in self.documents:
            raise TransportError(f"{url}: refused")
        return self.documents[url]

    def alike(self, url: str, other: str) -> bool:
        return (url in self.others) == (other in self.others)


def said(*urls: str, rebalance: bool = False) -> bytes:
    return json.dumps({"members": urls, "rebalance": rebalance}).encode()


class Client:
    def __init__(self, options: str = "updateURIsSupported=true", **documents: bytes) -> None:
        self.clock = FakeClock()
        self.book = AddressBook()
        self.endpoint = self.book.add(f"failover:({A},{B})?randomize=false&{options}").endpoint
        self.documents = Documents({f"{A}?members": documents.get("a", b""), f"{B}?members": documents.get("b", b"")})
        self.updates = MemberUpdates(self.book, self.documents, ALLOWED, self.clock, lambda: 0.5, HelperThreads("test"))

    def update(self) -> list[str]:
        """Ask now. Returns the addresses after it."""
        self.updates.update(self.endpoint)
        return [each.url for each in self.book.addresses(self.endpoint)]


def used_until(client: Client | Looking, asked: int) -> bool:
    """Post, and return whether members have been asked for so often. A post asks for none while a question lasts."""
    client.updates.used(client.endpoint)
    return len(client.documents.asked) == asked


def test_members_that_are_named_replace_the_addresses_and_go_when_they_are_not_named() -> None:
    client = Client(a=said(A, C))
    assert client.update() == [A, C]
    client.documents.documents[f"{A}?members"] = said(C)
    client.documents.documents[f"{C}?members"] = said(C)
    assert client.update() == [C]
    assert client.update() == [C]
    assert client.documents.asked[-1] == f"{C}?members", "a member is asked"


def test_given_addresses_are_used_again_when_no_member_answers() -> None:
    client = Client(a=said(C))
    assert client.update() == [C]
    client.documents.documents.clear()
    assert client.update() == [A, B]
    client.documents.documents[f"{B}?members"] = said()
    assert client.update() == [A, B], "an empty list is no list"


def test_member_that_worked_last_is_asked_first() -> None:
    client = Client(a=said(A), b=said(B))
    client.book.worked(client.endpoint, B, client.clock.now)
    assert client.update() == [B]
    assert client.documents.asked == [f"{B}?members"]


@pytest.mark.parametrize(
    "member",
    [
        "ftp://c.example/svc",
        "https://c.example/svc",  # the addresses of the list are http:
        "http://user:pw@c.example/svc",
        "http://c.example/svc#x",
        "http://c.example/admin",
        "http://c.example/svc?x=1",
        "http://c.example/../svc",
        "http://127.0.0.1/svc",
        "http://169.254.169.254/svc",
        "http://e.example/svc",
        "http://c.example:99999/svc",
        "c.example",
        "http://c.example/s vc",
        "http://d.example/svc",  # other settings of peers apply to it
    ],
)
def test_address_that_the_client_may_not_use_is_left_out(member: str, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(a=said(A, member))
    client.documents.others = frozenset({"http://d.example/svc"})
    assert client.update() == [A]
    assert [record.message for record in caplog.records if "is not used" in record.message], "it is logged"
    count = len(caplog.records)
    client.update()
    assert [record for record in caplog.records[count:] if "is not used" in record.message] == [], "once"


def test_address_of_the_list_may_be_at_another_scheme_or_path() -> None:
    book = AddressBook()
    endpoint = book.add("failover:(http://a.example/x,https://b.example/y)?updateURIsSupported=true").endpoint
    documents = Documents({"http://a.example/x?members": said("https://b.example/y")})
    clock = FakeClock()
    MemberUpdates(book, documents, ALLOWED, clock, lambda: 0.5, HelperThreads("test")).update(endpoint)
    assert [each.url for each in book.addresses(endpoint)] == ["https://b.example/y"]


def test_document_of_another_server_is_read_and_a_broken_one_changes_nothing() -> None:
    client = Client(options="updateURIsURL=http://lists.example/desk")
    client.documents.documents["http://lists.example/desk"] = f"{C}\n{A}".encode()
    assert client.update() == [C, A]
    client.documents.documents["http://lists.example/desk"] = b"{broken"
    assert client.update() == [A, B]
    assert set(client.documents.asked) == {"http://lists.example/desk"}


def test_posts_ask_when_it_is_due_and_only_with_the_option() -> None:
    client = Client(a=said(A, C))
    client.updates.used(client.endpoint)
    eventually(lambda: len(client.book.addresses(client.endpoint)) == 2 and client.documents.asked, "it is asked")
    client.updates.used(client.endpoint)
    client.clock.advance(INTERVAL)
    asked = len(client.documents.asked)
    assert asked == 1
    eventually(partial(used_until, client, 2), "it is asked again")
    silent = Client(options="timeout=-1", a=said(C))
    silent.updates.used(silent.endpoint)
    assert silent.updates._next == {}
    with pytest.raises(ConfigurationError):
        silent.updates.used("failover:gone")
    silent.updates.update("failover:gone")


def test_clients_choose_anew_at_their_own_time_when_there_is_a_new_member() -> None:
    client = Client(options="updateURIsSupported=true", a=said(A, C, rebalance=True))
    book = AddressBook()
    endpoint = book.add(f"failover:({A},{B})?updateURIsSupported=true").endpoint
    updates = MemberUpdates(book, client.documents, ALLOWED, client.clock, lambda: 0.5, HelperThreads("test"))
    now = client.clock.now
    book.worked(endpoint, A, now)
    updates.update(endpoint)
    assert book.choose(endpoint, now + 0.4 * REBALANCED_WITHIN, 0.9) == A
    assert book.choose(endpoint, now + 0.6 * REBALANCED_WITHIN, 0.9) == C


def test_naming_the_list_again_does_not_bring_the_given_addresses_back() -> None:
    client = Client(a=said(C))
    client.update()
    client.book.add(f"failover:({A},{B})?randomize=false&updateURIsSupported=true")
    assert [each.url for each in client.book.addresses(client.endpoint)] == [C]


def test_transport_that_fetches_nothing_leaves_the_list_as_it_is() -> None:
    client = Client()
    updates = MemberUpdates(client.book, NoFetching(), ALLOWED, client.clock, lambda: 0.5, HelperThreads("test"))
    updates.update(client.endpoint)
    assert [each.url for each in client.book.addresses(client.endpoint)] == [A, B]
    assert NoFetching().alike(A, A)


class Looking:
    """A client whose members are those of a registry."""

    def __init__(self, options: str = "", transport: Fetching | None = None) -> None:
        self.clock = FakeClock()
        self.book = AddressBook()
        self.endpoint = self.book.add(f"discovery:(registry:http://lists.example/desk){options}").endpoint
        self.documents = Documents({})
        self.updates = MemberUpdates(
            self.book, transport or self.documents, ALLOWED, self.clock, lambda: 0.5, HelperThreads("test")
        )

    def update(self, document: bytes | None) -> list[str]:
        self.documents.documents = {} if document is None else {"http://lists.example/desk": document}
        self.updates.update(self.endpoint)
        return [each.url for each in self.book.addresses(self.endpoint)]


def test_members_that_were_found_stay_while_the_registry_does_not_answer() -> None:
    client = Looking()
    assert client.update(None) == []
    assert client.update(said(C, "http://e.example/svc")) == [C]
    assert client.update(None) == [C]
    assert client.update(b"{broken") == [C]
    assert client.update(said(*(f"http://c.example/{number}" for number in range(65)))) == [C], "too many"
    assert client.update(said()) == [], "an answer without members says that there are none"


def test_filter_leaves_members_out() -> None:
    assert Looking("?filter=http://c.*").update(said(C, "http://d.example/svc")) == [C]
    assert Looking().update(said(C, "http://d.example/svc")) == [C, "http://d.example/svc"]


def test_member_that_is_looked_up_gets_no_credentials_of_an_entry_of_peers() -> None:
    peers = Peers({"http://c.example/": Peer(headers={"Authorization": "Bearer secret"})})
    client = Looking()
    transport = HttpTransport(peers=peers)
    assert not transport.alike(C, client.endpoint)
    assert transport.alike("http://d.example/svc", client.endpoint)


def test_registry_is_asked_more_often_while_there_is_no_member() -> None:
    client = Looking()
    client.updates.used(client.endpoint)
    eventually(lambda: len(client.documents.asked) == 1, "it is asked")
    client.clock.advance(NOBODY_INTERVAL)
    eventually(partial(used_until, client, 2), "it is asked again")


def test_forged_answers_do_not_hide_members_or_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forged = [f"http://forged.example:{number}/svc" for number in range(1, 200)]
    answers = (*forged, C, "not a URL")
    monkeypatch.setattr("mercury.engine.runtime.multicast_agent.look_up", lambda wanted, chance: answers)
    book = AddressBook()
    endpoint = book.add("discovery:(multicast://239.255.42.99:6155)?path=/svc").endpoint
    updates = MemberUpdates(book, NoFetching(), ALLOWED, FakeClock(), lambda: 0.5, HelperThreads("test"))
    updates.update(endpoint)
    assert [each.url for each in book.addresses(endpoint)] == []
    assert len([each for each in caplog.records if "is not used" in each.message]) == 1
    monkeypatch.setattr(NoFetching, "alike", lambda self, url, other: True)
    updates.update(endpoint)
    assert [each.url for each in book.addresses(endpoint)] == [C]


def test_destination_is_asked_for_once_at_a_time() -> None:
    client, answers, asked = Looking(), threading.Event(), threading.Event()

    def get(url: str) -> bytes:
        client.documents.asked.append(url)
        asked.set()
        answers.wait()
        return said(C)

    client.documents.get = get  # type: ignore[method-assign]
    client.updates.used(client.endpoint)
    asked.wait()
    client.clock.advance(10 * INTERVAL)
    client.updates.used(client.endpoint)
    assert len(client.documents.asked) == 1
    answers.set()
    eventually(lambda: client.book.addresses(client.endpoint), "it has answered")
