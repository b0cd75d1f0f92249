"""Members announce themselves in the local network; clients find them, and lose those that are killed."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from fastapi import FastAPI
from zeroconf import ServiceInfo, Zeroconf

from mercury import Mercury, RetransmissionPolicy, Service, SourcePolicy
from mercury.engine.address_book import FailoverSettings
from mercury.engine.addresses import AddressPolicy
from mercury.engine.discovery_settings import DiscoverySettings
from mercury.engine.runtime import multicast_agent, zeroconf_agent
from mercury.engine.runtime.announcing import Announcing
from mercury.engine.runtime.multicast_agent import QUESTION_BYTES, MulticastMember
from mercury.engine.settings import EngineSettings
from mercury.errors import ConfigurationError, TransportError
from mercury.settings import Settings
from mercury.statemachine.failover import AnnouncedMembers
from mercury.testing.clock import FakeClock
from tests.acceptance.app import Note
from tests.acceptance.processes import Serving, eventually
from tests.multicast import free_multicast, missing
from tests.ports import free_port

pytestmark = pytest.mark.usefixtures("multicast")
LOOPBACK = "127.0.0.1"
SERVICE = "_mercury._tcp.local."
POLICY = SourcePolicy(retransmission=RetransmissionPolicy(base=0.2, cap=0.4))
ALLOWED = Settings(engine=EngineSettings(addresses=AddressPolicy(("http://127.0.0.1:*",))))


class Network:
    """The group of one test, in the loopback interface."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.group = uuid4().hex
        self.name = SERVICE if agent == "zeroconf" else free_multicast()

    @property
    def settings(self) -> DiscoverySettings:
        if self.agent == "zeroconf":
            return DiscoverySettings(zeroconf=self.name, group=self.group, interface=LOOPBACK)
        return DiscoverySettings(multicast=self.name, group=self.group, interface=LOOPBACK)

    @property
    def uri(self) -> str:
        where = f"multicast://{self.name}" if self.agent == "multicast" else f"zeroconf:{self.name}"
        return f"discovery:({where})?path=/services/desk&group={self.group}&interface={LOOPBACK}"

    def look_up(self) -> set[str]:
        name = self.name.rstrip(".")
        wanted = AnnouncedMembers(agent=self.agent, name=name, group=self.group, path="/x", interface=LOOPBACK)
        if self.agent == "zeroconf":
            return set(zeroconf_agent.look_up(wanted))
        return set(multicast_agent.look_up(wanted, lambda: 0.5))

    def announced(self, address: str) -> Announcing:
        made = Announcing(self.settings, address, lambda: uuid4().urn)
        made.start()
        return made


@pytest.fixture(scope="module")
def multicast() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(params=["zeroconf", "multicast"])
def network(request: pytest.FixtureRequest) -> Network:
    return Network(request.param)


@pytest.fixture
def new_threads() -> Callable[[], set[threading.Thread]]:
    before = set(threading.enumerate())
    return lambda: set(threading.enumerate()) - before


class Member:
    """A member in this process."""

    def __init__(self, store: str, network: Network) -> None:
        self.handled: list[str] = []
        desk, port = Service("desk"), free_port()

        @desk.operation
        def note(what: Note) -> None:
            self.handled.append(what.text)

        address = f"http://{LOOPBACK}:{port}"
        settings = Settings(failover=FailoverSettings(public_address=address), discovery=network.settings)
        self.mercury = Mercury(store, settings=settings)
        self.url = f"{self.mercury.listen(desk, port=port)}/services/desk"


def test_killed_member_disappears_and_one_with_another_store_gets_nothing(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.engine.runtime.member_updates.INTERVAL", 0.4)
    store, journal, port = f"sqlite:///{tmp_path}/store.db", tmp_path / "journal", free_port()
    announced = {
        f"MERCURY_DISCOVERY_{network.agent.upper()}": network.name,
        "MERCURY_ENGINE_LEASE": "1.0",  # a killed member holds its sequences for so long
        "MERCURY_DISCOVERY_GROUP": network.group,
        "MERCURY_DISCOVERY_INTERFACE": LOOPBACK,
        "MERCURY_FAILOVER_PUBLIC_ADDRESS": f"http://{LOOPBACK}:{port}",
    }
    members = []
    with Mercury("memory:", settings=ALLOWED) as client:
        sender = client.to(network.uri, policy=POLICY)

        def known() -> set[str]:
            return {each.url for each in client.peers.addresses.addresses(sender.endpoint)}

        try:
            options = ("--port", str(port))
            announced |= {"MERCURY_STORE": store, "JOURNAL": str(journal)}
            with Serving("tests.acceptance.app:app", *options, **announced) as one:
                sender.send(Note("1"))
                eventually(lambda: sender.pending == 0 and journal.exists(), "the process handles a message")
                assert known() == {f"{one.url}/services/desk"}
                one.signal(signal.SIGKILL)
            members.append(stranger := Member(f"sqlite:///{tmp_path}/other.db", network))
            sender.send(Note("2"))
            eventually(lambda: known() == {stranger.url}, "the killed one is not found any more")
            eventually(lambda: "another store answers there" in (sender.last_error or ""), "the store is refused")
            members.append(second := Member(store, network))
            eventually(lambda: second.handled == ["2"] and sender.pending == 0, "the next one goes on")
            assert stranger.handled == []
        finally:
            for each in members:
                each.mercury.stop()


def test_members_and_clients_may_be_several_at_once_and_leave_no_thread(
    network: Network, new_threads: Callable[[], set[threading.Thread]]
) -> None:
    members = [network.announced(f"http://{LOOPBACK}:{port}") for port in (1001, 1002)]
    try:
        members[0].start()  # once more: nothing happens
        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(lambda _: network.look_up(), range(2)):
                assert found == {f"http://{LOOPBACK}:1001/x", f"http://{LOOPBACK}:1002/x"}
    finally:
        for each in members:
            each.stop()
            each.stop()
    assert not new_threads()


def test_question_that_no_member_answers_ends(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    for agent in (zeroconf_agent, multicast_agent):
        monkeypatch.setattr(agent, "LIFETIME", 0.3)
    with pytest.raises(TransportError, match="no member answers"):
        network.look_up()


def test_interface_that_the_host_has_not_is_said(
    network: Network, new_threads: Callable[[], set[threading.Thread]]
) -> None:
    settings = replace(network.settings, interface="192.0.2.1")
    with pytest.raises(ConfigurationError, match=f"discovery.{network.agent}: "):
        Announcing(settings, "http://a", lambda: "x").start()
    mercury = Mercury(
        "memory:", settings=Settings(failover=FailoverSettings(public_address="http://a"), discovery=settings)
    )

    async def serve() -> None:
        async with mercury.lifespan(FastAPI()):
            raise AssertionError("it serves without being announced")

    with pytest.raises(ConfigurationError, match=f"discovery.{network.agent}: "):
        asyncio.run(serve())
    assert mercury.running_runtime is None
    assert not new_threads()


# --- what others may send --------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


@pytest.fixture
def answering(clock: FakeClock) -> Iterator[MulticastMember]:
    made = MulticastMember(free_multicast(), "g", "http://a:1", LOOPBACK, clock)
    yield made
    made.stop()


def question(**other: object) -> bytes:
    return json.dumps({"question": "members", "group": "g", "id": "1", **other}).encode().ljust(QUESTION_BYTES)


@pytest.mark.parametrize(
    "datagram",
    [
        question(group="h"),
        question(question="mercury"),
        question(id=""),
        question(id="1" * 33),
        question(id=1),
        question().rstrip(),
        question() + b" ",
        b"[" * QUESTION_BYTES,
        b"\xff" * QUESTION_BYTES,
        b"[]".ljust(QUESTION_BYTES),
    ],
)
def test_member_answers_no_other_datagram(answering: MulticastMember, datagram: bytes) -> None:
    assert answering.answer(datagram) is None


def test_answers_are_no_longer_than_questions_and_limited_in_their_number(
    answering: MulticastMember, clock: FakeClock
) -> None:
    answers = [answering.answer(question()) for _ in range(1000)]
    assert len([each for each in answers if each is not None]) == 50
    clock.advance(1.0)
    answer = answering.answer(question(id="\x00" * 32))
    assert answer is not None
    assert len(answer) <= QUESTION_BYTES
    with pytest.raises(ConfigurationError, match="too long"):
        MulticastMember(free_multicast(), "g", f"http://{'a' * 1200}", LOOPBACK)


def test_garbage_and_answers_to_other_questions_are_no_members() -> None:
    network = Network("multicast")
    host, _, port = network.name.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        forger.bind((host, int(port)))
        forger.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(host) + socket.inet_aton(LOOPBACK)
        )

        def forge() -> None:
            asked, peer = forger.recvfrom(2000)
            right = json.loads(asked)
            address = {"address": "http://forged"}
            for each in (
                b"\xff",
                b"[" * 1200,
                b"x" * 9000,
                json.dumps({**right, **address, "id": "other"}).encode(),
                json.dumps({**right, **address, "group": "other"}).encode(),
                json.dumps({**right, "address": 5}).encode(),
                json.dumps({**right, "address": "http://right"}).encode(),
            ):
                forger.sendto(each, peer)

        thread = threading.Thread(target=forge)
        thread.start()
        assert network.look_up() == {"http://right/x"}
        thread.join()


def test_instances_without_an_address_or_of_another_group_are_no_members() -> None:
    network = Network("zeroconf")
    instances: list[dict[str, str | bytes]] = [
        {"group": network.group},
        {"group": "other", "address": "http://forged"},
        {"group": network.group, "address": b"\xff"},
        {"group": network.group, "address": "http://right"},
    ]
    made = Zeroconf(interfaces=[LOOPBACK])
    try:
        for number, properties in enumerate(instances):
            name = f"{network.group[:20]}-{number}"
            info = ServiceInfo(SERVICE, f"{name}.{SERVICE}", port=1, properties=properties, server=f"{name}.local.")
            made.register_service(info, cooperating_responders=True)
        assert network.look_up() == {"http://right/x"}
    finally:
        made.close()
