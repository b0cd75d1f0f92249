"""A client looks up the members of its destination, and uses those that it may."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from mercury import Mercury, RetransmissionPolicy, Service, SourcePolicy
from mercury.engine.addresses import AddressPolicy
from mercury.engine.discovery_settings import DiscoverySettings
from mercury.engine.runtime.announcing import Announcing
from mercury.engine.runtime.srv_records import look_up, ordered
from mercury.engine.settings import EngineSettings
from mercury.errors import TransportError
from mercury.settings import Settings
from mercury.statemachine.failover import SrvName
from tests.acceptance.app import Note
from tests.acceptance.processes import Running, eventually
from tests.multicast import free_multicast, missing

POLICY = SourcePolicy(retransmission=RetransmissionPolicy(base=0.2, cap=0.4))
ALLOWED = Settings(engine=EngineSettings(addresses=AddressPolicy(("http://127.0.0.1:*", "http://localhost:*"))))
NAME = "_mercury._tcp.example.org"


class NameServer:
    """A name server at a UDP port of the loopback interface; ``None`` = it does not answer, ``b""`` = with garbage."""

    def __init__(self) -> None:
        self.records: list[str] | bytes | None = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            data, peer = self._socket.recvfrom(4096)
            if data == b"end":
                return
            if isinstance(self.records, bytes):
                self._socket.sendto(self.records, peer)
            elif self.records is not None:
                query = dns.message.from_wire(data)
                reply = dns.message.make_response(query)
                if self.records:
                    name = query.question[0].name
                    reply.answer.append(dns.rrset.from_text(name, 60, "IN", "SRV", *self.records))
                else:
                    reply.set_rcode(dns.rcode.NXDOMAIN)
                self._socket.sendto(reply.to_wire(), peer)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b"end", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def look_up(self) -> tuple[str, ...]:
        return look_up(SrvName(name=NAME, scheme="http", path="/x", nameserver=self.address), lambda: 0.5)


@pytest.fixture
def server() -> Iterator[NameServer]:
    made = NameServer()
    yield made
    made.close()


@pytest.fixture
def member() -> Iterator[tuple[str, list[str]]]:
    handled: list[str] = []
    desk = Service("desk")

    @desk.operation
    def note(what: Note) -> None:
        handled.append(what.text)

    mercury = Mercury("memory:")
    url = mercury.listen(desk, port=0)
    yield f"{url}/services/desk", handled
    mercury.stop()


@pytest.fixture
def registry() -> Iterator[tuple[str, list[str]]]:
    """A document with these members, and its URL."""
    members: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"members": members}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/desk", members
    made.shutdown()
    thread.join()
    made.server_close()


def test_message_waits_in_the_store_until_the_registry_names_a_member(
    registry: tuple[str, list[str]], member: tuple[str, list[str]]
) -> None:
    (url, members), (address, handled) = registry, member
    with Mercury("memory:", settings=ALLOWED) as client:
        sender = client.to(f"discovery:(registry:{url})", policy=POLICY)
        sender.send(Note("1"))
        book = client.peers.addresses
        eventually(lambda: client.running_runtime is not None and sender.pending == 1, "it is stored")
        assert book.addresses(sender.endpoint) == ()
        # Addresses that no client may be led to are left out; the member is used.
        members += ["http://169.254.169.254/services/desk", "http://u:p@127.0.0.1/x", "file:///etc/passwd", address]
        eventually(lambda: handled == ["1"] and sender.pending == 0, "it goes when there is a member")
        assert [each.url for each in book.addresses(sender.endpoint)] == [address]


def test_each_agent_works_twice_in_a_process_and_in_two_processes(
    registry: tuple[str, list[str]], server: NameServer, member: tuple[str, list[str]]
) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    (url, members), (address, handled) = registry, member
    members.append(address)
    base, port = address.removesuffix("/services/desk"), address.split(":")[2].split("/")[0]
    server.records = [f"10 1 {port} localhost."]
    group, multicast = uuid4().hex, free_multicast()
    network = f"path=/services/desk&interface=127.0.0.1&group={group}"
    uris = [
        f"discovery:(static:({address}))",
        f"discovery:(registry:{url})",
        f"discovery:(dns:{NAME})?path=/services/desk&scheme=http&nameserver={server.address}",
        f"discovery:(zeroconf:_mercury._tcp.local.)?{network}",
        f"discovery:(multicast://{multicast})?{network}",
    ]
    settings = DiscoverySettings(
        zeroconf="_mercury._tcp.local.", multicast=multicast, group=group, interface="127.0.0.1"
    )
    announcing = Announcing(settings, base, lambda: uuid4().urn)
    announcing.start()
    clients = [Mercury("memory:", settings=ALLOWED) for _ in range(2)]
    try:
        with Running(sys.executable, "-m", "tests.acceptance.discovering", *uris) as other:
            for client in clients:
                client.start()
                for uri in uris:
                    client.to(uri, policy=POLICY).send(Note(uri))
            eventually(lambda: len(handled) == 15, "all clients have found it")
            assert Counter(handled) == dict.fromkeys(uris, 3)
            other.terminate()
    finally:
        for client in clients:
            client.stop()
        announcing.stop()


def test_member_that_the_settings_do_not_allow_gets_nothing(
    registry: tuple[str, list[str]], member: tuple[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    (url, members), (address, handled) = registry, member
    members.append(address)
    with Mercury("memory:") as client:
        sender = client.to(f"discovery:(registry:{url})", policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: "it is not in engine.addresses.allowed" in caplog.text, "it is refused")
        assert (handled, sender.pending) == ([], 1)


def test_message_to_a_destination_without_members_says_so_and_stays_stored(registry: tuple[str, list[str]]) -> None:
    with Mercury("memory:", settings=ALLOWED) as client:
        sender = client.to(f"discovery:(registry:{registry[0]})?timeout=100", policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: "no member is found" in (sender.last_error or ""), "the reason is known")
        assert sender.pending == 1


def test_members_are_those_of_the_srv_records(server: NameServer, member: tuple[str, list[str]]) -> None:
    address, handled = member
    port = address.split(":")[2].split("/")[0]
    server.records = [f"10 1 {port} localhost."]
    with Mercury("memory:", settings=ALLOWED) as client:
        options = f"path=/services/desk&scheme=http&nameserver={server.address}"
        sender = client.to(f"discovery:(dns:{NAME})?{options}", policy=POLICY)
        sender.send(Note("1"))
        eventually(lambda: handled == ["1"] and sender.pending == 0, "it is sent")


def test_records_are_tried_by_priority_and_chosen_by_weight(server: NameServer) -> None:
    server.records = ["20 0 8000 c.example.", "10 1 8000 a.example.", "10 3 8001 b.example."]
    assert server.look_up() == ("http://b.example:8001/x", "http://a.example:8000/x", "http://c.example:8000/x")
    numbers = [(each + 0.5) / 100 for each in range(100)]
    first = [ordered([(1, 1, "a", 1), (1, 3, "b", 1)], lambda number=number: number)[0][2] for number in numbers]
    assert (first.count("a"), first.count("b")) == (25, 75)


def test_answers_of_a_name_server_are_bounded_and_checked(server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.look_up() == (), "there is no such name"
    server.records = ["1 1 80 .", "1 1 0 a.example.", "1 1 80 a/b.example.", "1 1 80 u\\@h.example."]
    assert server.look_up() == (), "no service, no port, no name of a host"
    server.records = [f"1 1 80 m{number}.x." for number in range(65)]
    with pytest.raises(ValueError, match="more than 64"):
        server.look_up()
    monkeypatch.setattr("mercury.engine.runtime.srv_records.LIFETIME", 0.3)
    for answer in (None, b"garbage"):
        server.records = answer
        with pytest.raises(TransportError):
            server.look_up()
