"""The endpoint of a service with WS-Security: one network leaves threads for decoding and signing to the others."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from mercury.engine.exchange import Answer, Arrival
from mercury.engine.runtime.threads import Runtime
from mercury.service.bodies import Bodies
from mercury.service.endpoint import Endpoint, Host
from mercury.service.turns import Turns
from mercury.settings import HttpSettings
from mercury.statemachine.protocol import Protocol
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage
from tests.unit.service.test_turns import Gate

FLOOD, OTHER = "192.0.2.1", "192.0.2.2"


class Process:
    """A host and its runtime: decoding, or the signing of answers, takes until the gate is opened."""

    store_id: str | None = None

    def __init__(self, *, decoding: bool) -> None:
        self.gate = Gate()
        self.bodies = Bodies(1_000_000, HttpSettings())
        self.bodies.turns = Turns(2)
        self.authenticate = None
        self._decoding = decoding

    def runtime_for(self, service: str | None) -> Runtime:
        del service
        return cast("Runtime", self)

    def is_secured(self, service: str | None) -> bool:
        return service is not None

    def decode(self, http: HttpMessage, service: str | None) -> Envelope:
        del service
        if self._decoding:
            self.gate.call(http.body.decode())()
        versions = Protocol()
        return Envelope(soap=versions.soap, addressing=versions.addressing, rm=versions.rm, action="urn:a", body=EMPTY)

    def submit(self, arrival: Arrival, on_answer: Callable[[Answer], None]) -> None:
        on_answer(Answer(http=HttpMessage(arrival.peer.encode(), "text/xml")))

    def secured_reply(self, http: HttpMessage, service: str | None, request: object) -> HttpMessage:
        del service, request
        if not self._decoding:
            self.gate.call(http.body.decode())()
        return http


async def posted(endpoint: Endpoint, network: str, size: int = 0) -> int:
    """Somebody posts to the endpoint; returns the status of the answer.

    :param size: bytes of the message; 0 = the name of the network.
    """
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": bytes(size) or network.encode(), "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/services/shop", "headers": [], "client": (network, 1)}
    await endpoint(scope, receive, send)
    return int(sent[0]["status"])


async def flooded(process: Process) -> None:
    """One network posts five messages, then another one posts one."""
    endpoint = Endpoint(cast("Host", process), "shop")
    flood = [asyncio.create_task(posted(endpoint, FLOOD)) for _ in range(5)]
    await process.gate.until(2)
    other = asyncio.create_task(posted(endpoint, OTHER))
    await process.gate.until(3)
    assert process.gate.begun == [FLOOD, FLOOD, OTHER]
    process.gate.let_go(6)
    assert await asyncio.gather(other, *flood) == [200] * 6


def test_messages_of_one_network_leave_threads_to_the_others() -> None:
    asyncio.run(flooded(Process(decoding=True)))


class Holding(Process):
    """Its committer is busy: the arrivals wait."""

    def __init__(self) -> None:
        super().__init__(decoding=False)
        self.waiting: list[tuple[Arrival, Callable[[Answer], None]]] = []

    def submit(self, arrival: Arrival, on_answer: Callable[[Answer], None]) -> None:
        self.waiting.append((arrival, on_answer))


async def bytes_while_it_waits(size: int) -> int:
    """Python's memory while a request that is decoded already waits for the committer."""
    process = Holding()
    process.gate.let_go(2)
    endpoint = Endpoint(cast("Host", process), "shop")
    begun, _ = tracemalloc.get_traced_memory()
    request = asyncio.create_task(posted(endpoint, OTHER, size))
    while not process.waiting:
        await asyncio.sleep(0)
    found, _ = tracemalloc.get_traced_memory()
    ((arrival, on_answer),) = process.waiting
    assert arrival.http.body == b""
    on_answer(Answer(http=HttpMessage(b"", "text/xml")))
    assert await request == 200
    return found - begun


def test_the_body_of_a_decoded_message_is_freed_before_it_waits_for_the_committer() -> None:
    size = 900_000
    tracemalloc.start()
    try:
        assert asyncio.run(bytes_while_it_waits(size)) < size // 2, "what is stored has a copy in the envelope"
    finally:
        tracemalloc.stop()


def test_answers_to_one_network_leave_threads_to_the_others() -> None:
    asyncio.run(flooded(Process(decoding=False)))
