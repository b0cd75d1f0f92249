"""A client that knows one member learns of the others from it, and goes on there when the first one stops."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

from mercury import Mercury, RetransmissionPolicy, Service, SourcePolicy
from mercury.engine.address_book import FailoverSettings
from mercury.engine.addresses import AddressPolicy
from mercury.engine.settings import EngineSettings
from mercury.settings import Settings
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.ports import free_port

POLICY = SourcePolicy(retransmission=RetransmissionPolicy(base=0.2, cap=0.4))


class Member:
    def __init__(self, store: str, handled: list[str], *, named: bool = True) -> None:
        desk = Service("desk")

        @desk.operation
        def note(what: Note) -> None:
            handled.append(what.text)

        port = free_port()
        address = f"http://127.0.0.1:{port}" if named else None
        settings = Settings(failover=FailoverSettings(public_address=address))
        self.mercury = Mercury(store, settings=settings)
        self.url = f"{self.mercury.listen(desk, port=port)}/services/desk"

    def get(self, query: str) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        connection.request("GET", f"{parts.path}?{query}")
        reply = connection.getresponse()
        found = reply.status, reply.read()
        connection.close()
        return found

    @property
    def named(self) -> list[str]:
        status, body = self.get("members")
        assert status == 200
        urls: list[str] = json.loads(body)["members"]
        return urls


def test_client_goes_on_at_a_member_that_it_was_not_given(tmp_path: Path) -> None:
    handled: list[str] = []
    store = f"sqlite:///{tmp_path}/store.db"
    second = Member(store, handled)
    eventually(lambda: second.named == [second.url], "it names itself")
    first = Member(store, handled)  # later: it finds the other one in the store at its start
    try:
        eventually(lambda: set(first.named) == {first.url, second.url}, "it names both")
        allowed = Settings(engine=EngineSettings(addresses=AddressPolicy(("http://127.0.0.1:*",))))
        with Mercury("memory:", settings=allowed) as client:
            sender = client.to(f"failover:({first.url})?updateURIsSupported=true", policy=POLICY)
            sender.send(Note("1"))
            eventually(lambda: handled == ["1"] and sender.pending == 0, "the given member handles a message")
            book = client.peers.addresses
            eventually(lambda: len(book.addresses(sender.endpoint)) == 2, "the other member is known")
            first.mercury.stop()
            sender.send(Note("2"))
            eventually(lambda: handled == ["1", "2"] and sender.pending == 0, "the other one goes on")
        with Mercury("memory:") as wary:  # its settings allow no other address
            other = wary.to(f"failover:({second.url})?updateURIsSupported=true", policy=POLICY)
            other.send(Note("3"))
            eventually(lambda: handled[-1] == "3" and other.pending == 0, "it sends")
            assert [each.url for each in wary.peers.addresses.addresses(other.endpoint)] == [second.url]
    finally:
        first.mercury.stop()
        second.mercury.stop()


def test_process_without_a_public_address_names_no_members() -> None:
    member = Member("memory:", [], named=False)
    try:
        status, body = member.get("members")
        assert (status, b"failover.public_address" in body) == (404, True)
    finally:
        member.mercury.stop()
