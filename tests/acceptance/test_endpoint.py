"""The endpoint over real sockets: its answers to faulty, hostile, slow, and too many peers."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lxml import etree

from mercury import Mercury, Service, Settings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.storage.api import BeforeCommit
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.transaction import MemoryTransaction
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, Serving, eventually

SOAP11, SOAP12 = "http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"
TYPES = {SOAP11: "text/xml; charset=utf-8", SOAP12: "application/soap+xml; charset=utf-8"}
WSA, RM = "http://www.w3.org/2005/08/addressing", "http://docs.oasis-open.org/ws-rx/wsrm/200702"
DESK = "/services/desk"
LIMIT = 50_000

BOTH = pytest.mark.parametrize("soap", [SOAP11, SOAP12], ids=["soap11", "soap12"])


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """A server with short timeouts and a small limit for messages."""
    settings: dict[str, Any] = {"MERCURY_ENGINE_LIMITS_MAX_BYTES": str(LIMIT), "MERCURY_HTTP_RECEIVE_TIMEOUT": "0.3"}
    with Serving(**settings) as running:
        yield running
        # None of the requests caused an error in the log.
        assert "ERROR" not in running.err, running.err


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def read(cls, connection: http.client.HTTPConnection) -> Reply:
        response = connection.getresponse()
        return cls(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())

    def fault(self, soap: str, status: int) -> etree._Element:
        """Check that the answer is a SOAP fault of this version, not a web page; returns the Fault element."""
        assert self.status == status, self
        assert self.headers["content-type"].partition(";")[0] == TYPES[soap].partition(";")[0]
        assert b"Traceback" not in self.body
        envelope = etree.fromstring(self.body)
        fault = envelope.find(f"{{{soap}}}Body/{{{soap}}}Fault")
        assert fault is not None, self
        return fault

    def code(self, soap: str, status: int) -> str:
        """The local name of the most specific code."""
        fault = self.fault(soap, status)
        codes = [fault.findtext("faultcode")] if soap == SOAP11 else list(fault.itertext(f"{{{soap}}}Value"))
        return str(codes[-1]).rpartition(":")[2]

    def reason(self, soap: str, status: int) -> str:
        fault = self.fault(soap, status)
        found = fault.findtext("faultstring") if soap == SOAP11 else fault.findtext(f"{{{soap}}}Reason/{{{soap}}}Text")
        return str(found)


def exchange(
    netloc: str, body: bytes, *, soap: str = SOAP12, method: str = "POST", path: str = DESK, **headers: str
) -> Reply:
    connection = http.client.HTTPConnection(netloc, timeout=PATIENCE)
    sent = {"Content-Type": TYPES[soap]} | {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, sent)
        return Reply.read(connection)
    finally:
        connection.close()


def envelope(soap: str, body: str = "", header: str = "") -> bytes:
    return f'<s:Envelope xmlns:s="{soap}"><s:Header>{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>'.encode()


def addressing(action: str = "urn:mercury:app/Note", message_id: str = "urn:m:1") -> str:
    return (
        f'<a:Action xmlns:a="{WSA}">{action}</a:Action><a:MessageID xmlns:a="{WSA}">{message_id}</a:MessageID>'
        f'<a:To xmlns:a="{WSA}">http://127.0.0.1{DESK}</a:To>'
    )


def create_sequence(soap: str = SOAP12, message_id: str = "urn:m:1") -> bytes:
    acks_to = f'<w:AcksTo><a:Address xmlns:a="{WSA}">{WSA}/anonymous</a:Address></w:AcksTo>'
    body = f'<w:CreateSequence xmlns:w="{RM}">{acks_to}</w:CreateSequence>'
    return envelope(soap, body, addressing(f"{RM}/CreateSequence", message_id))


@BOTH
def test_a_good_message_is_answered_in_its_own_version(serving: Serving, soap: str) -> None:
    reply = exchange(serving.netloc, create_sequence(soap))
    assert reply.status == 200
    assert reply.headers["content-type"].partition(";")[0] == TYPES[soap].partition(";")[0]
    assert etree.fromstring(reply.body).find(f".//{{{RM}}}CreateSequenceResponse/{{{RM}}}Identifier") is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_than_post_are_refused_in_plain_text(serving: Serving, method: str) -> None:
    reply = exchange(serving.netloc, b"", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.body == (b"" if method == "HEAD" else b"This is a SOAP endpoint: messages are posted to it.\n")


def test_where_no_service_is_nothing_is_found(serving: Serving) -> None:
    assert exchange(serving.netloc, create_sequence(), path="/services/nothing").status == 404


# --- how it is sent ------------------------------------------------------------------------------------------------


@BOTH
def test_a_body_that_is_announced_as_too_long_is_refused_before_it_comes(serving: Serving, soap: str) -> None:
    with serving.connection() as peer:
        peer.sendall(head(soap, f"Content-Length: {LIMIT + 1}"))
        reply = read_reply(peer)
        assert peer.recv(1) == b""  # and it is not waited for
    assert f"longer than {LIMIT} bytes" in reply.reason(soap, 413)


@BOTH
def test_a_chunked_body_that_turns_out_too_long_is_refused(serving: Serving, soap: str) -> None:
    with serving.connection() as peer:
        peer.sendall(head(soap, "Transfer-Encoding: chunked"))
        for _ in range(LIMIT // 10_000 + 1):
            peer.sendall(b"%x\r\n%s\r\n" % (10_000, b" " * 10_000))
        reply = read_reply(peer)
    assert f"longer than {LIMIT} bytes" in reply.reason(soap, 413)


def test_a_chunked_message_is_read(serving: Serving) -> None:
    message = create_sequence(message_id="urn:m:chunked")
    with serving.connection() as peer:
        peer.sendall(head(SOAP12, "Transfer-Encoding: chunked"))
        for byte in range(0, len(message), 100):
            piece = message[byte : byte + 100]
            peer.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        peer.sendall(b"0\r\n\r\n")
        assert read_reply(peer).status == 200


@BOTH
@pytest.mark.parametrize("trickle", [False, True], ids=["silent", "trickling"])
def test_a_slow_body_is_not_waited_for(serving: Serving, soap: str, trickle: bool) -> None:
    begun = time.monotonic()
    with serving.connection() as peer:
        peer.sendall(head(soap, "Content-Length: 1000") + b"<s:Envelope")
        if trickle:
            peer.settimeout(0.05)
            received = b""
            while not received:
                try:
                    received = peer.recv(1, socket.MSG_PEEK)
                except TimeoutError:
                    peer.sendall(b" ")
            peer.settimeout(PATIENCE)
        reply = read_reply(peer)
    assert "took too long" in reply.reason(soap, 408)
    assert time.monotonic() - begun < 10


@BOTH
def test_a_compressed_body_is_refused(serving: Serving, soap: str) -> None:
    reply = exchange(serving.netloc, gzip.compress(create_sequence(soap)), soap=soap, Content_Encoding="gzip")
    assert "gzip" in reply.reason(soap, 415)


def test_a_request_that_breaks_off_affects_no_other_request(serving: Serving) -> None:
    with serving.connection() as peer:
        peer.sendall(head(SOAP12, "Content-Length: 1000") + b"<s:Envelope")
    assert exchange(serving.netloc, create_sequence()).status == 200


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"NONSENSE\r\n\r\n", id="no request"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"POST /services/desk HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", id="a length below 0"),
        pytest.param(
            b"POST /services/desk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            id="a chunk that is none",
        ),
    ],
)
def test_bytes_that_are_not_http_are_refused_and_others_are_served(serving: Serving, data: bytes) -> None:
    with serving.connection() as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert exchange(serving.netloc, create_sequence()).status == 200


# --- what is in it -------------------------------------------------------------------------------------------------

EXTERNAL = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
DEEP = "<x>" * 5_000 + "</x>" * 5_000
WIDE = "<x" + "".join(f" a{n}=''" for n in range(5_000)) + "/>"
HOSTILE: dict[str, Callable[[str], bytes]] = {
    "doctype": lambda soap: b"<!DOCTYPE x>" + envelope(soap),
    "external entity": lambda soap: EXTERNAL + envelope(soap, "<x>&e;</x>"),
    "billion laughs": lambda soap: f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>'.encode() + envelope(soap, "<x>&l9;</x>"),
    "undeclared entity": lambda soap: envelope(soap, "<x>&e;</x>"),
    "deep": lambda soap: envelope(soap, DEEP),
    "unclosed": lambda soap: f'<s:Envelope xmlns:s="{soap}"><s:Body>'.encode() + b"<x>" * 10_000,
    "wide": lambda soap: envelope(soap, WIDE),
    "long name": lambda soap: envelope(soap, f"<{'x' * 20_000}/>"),
    "instruction": lambda soap: b"<?xml-stylesheet href='http://127.0.0.1:1/'?>" + envelope(soap),
    "not xml": lambda _soap: b"hello",
    "empty": lambda _soap: b"",
    "nothing but zeros": lambda _soap: bytes(1000),
    "not utf-8": lambda soap: envelope(soap, "<x>\xe9</x>").replace("é".encode(), b"\xe9"),
    "not soap": lambda _soap: b"<html/>",
    "two bodies": lambda soap: envelope(soap).replace(b"<s:Body></s:Body>", b"<s:Body/><s:Body/>"),
}


@BOTH
@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_input_gets_a_fault(serving: Serving, soap: str, attack: str) -> None:
    begun = time.monotonic()
    reply = exchange(serving.netloc, HOSTILE[attack](soap), soap=soap)
    assert reply.code(soap, 500 if soap == SOAP11 else 400) in ("Client", "Sender")
    assert b"root:" not in reply.body
    assert len(reply.body) < 2_000
    assert time.monotonic() - begun < 5


@BOTH
def test_mtom_message_with_a_mistake_gets_a_fault_in_its_version(serving: Serving, soap: str) -> None:
    media = TYPES[soap].partition(";")[0]
    kind = f'multipart/related; type="application/xop+xml"; start-info="{media}"; boundary='
    root = f'\r\n--b\r\nContent-Type: application/xop+xml; type="{media}"\r\n\r\n'.encode() + envelope(soap)
    for boundary, body in (("b", root), ("c", root), ("b", b"\r\n--b" * 8000), ("b", b"x" * (LIMIT + 1))):
        reply = exchange(serving.netloc, body, soap=soap, Content_Type=kind + boundary)
        status = 413 if len(body) > LIMIT else 500 if soap == SOAP11 else 400
        assert reply.code(soap, status) in ("Client", "Sender")


def test_another_version_of_soap_gets_a_fault(serving: Serving) -> None:
    reply = exchange(serving.netloc, envelope("http://www.w3.org/2099/soap"), soap=SOAP11)
    assert reply.code(SOAP11, 500) == "VersionMismatch"


def test_another_media_type_is_refused(serving: Serving) -> None:
    reply = exchange(serving.netloc, b"{}", soap=SOAP11, Content_Type="application/json")
    assert "application/json" in reply.reason(SOAP11, 500)


@BOTH
def test_plain_soap_gets_a_fault_that_asks_for_reliable_messages(serving: Serving, soap: str) -> None:
    body = '<Note xmlns="urn:mercury:app"><text>x</text></Note>'
    for header in ("", addressing()):
        reply = exchange(serving.netloc, envelope(soap, body, header), soap=soap, SOAPAction='"urn:mercury:app/Note"')
        assert "WS-ReliableMessaging" in reply.reason(soap, 500 if soap == SOAP11 else 400)


@BOTH
def test_a_block_that_must_be_understood_and_is_not_is_named(serving: Serving, soap: str) -> None:
    block = '<x:Strange xmlns:x="urn:x" s:mustUnderstand="1"/>'
    reply = exchange(serving.netloc, envelope(soap, "<x/>", addressing() + block), soap=soap)
    assert reply.code(soap, 500) == "MustUnderstand"


@BOTH
def test_an_unknown_sequence_gets_a_fault(serving: Serving, soap: str) -> None:
    sequence = (
        f'<w:Sequence xmlns:w="{RM}" s:mustUnderstand="1"><w:Identifier>urn:nowhere</w:Identifier>'
        "<w:MessageNumber>1</w:MessageNumber></w:Sequence>"
    )
    body = '<Note xmlns="urn:mercury:app"><text>x</text></Note>'
    reply = exchange(serving.netloc, envelope(soap, body, addressing() + sequence), soap=soap)
    found = reply.fault(soap, 500 if soap == SOAP11 else 400)
    whole = etree.fromstring(reply.body)
    action = whole.findtext(f".//{{{WSA}}}Action")
    assert action == f"{RM}/fault"
    assert whole.findtext(f".//{{{WSA}}}RelatesTo") == "urn:m:1"
    assert whole.findtext(f".//{{{RM}}}Identifier") == "urn:nowhere"
    if soap == SOAP11:
        assert whole.findtext(f".//{{{RM}}}SequenceFault/{{{RM}}}FaultCode", "").endswith(":UnknownSequence")
    else:
        values = [value.text for value in found.iter(f"{{{soap}}}Value")]
        assert [str(value).rpartition(":")[2] for value in values] == ["Sender", "UnknownSequence"]


# --- too much ------------------------------------------------------------------------------------------------------


class StuckStore(MemoryStore):
    """A store whose transactions wait at their begin until the test releases them."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()
        self.waiting = threading.Semaphore(0)

    def transaction(self, before_commit: BeforeCommit | None = None) -> MemoryTransaction:
        if threading.current_thread().name == "mercury-committer" and not self.free.is_set():
            self.waiting.release()
            self.free.wait(PATIENCE)
        return super().transaction(before_commit)


@BOTH
def test_more_than_can_wait_is_refused_as_busy_and_the_rest_is_answered(soap: str) -> None:
    store = StuckStore()
    service = Service("desk")
    service.operation("Note")(forget)
    mercury = Mercury(store, settings=Settings(runtime=RuntimeSettings(queue=1)))
    netloc = mercury.listen(service).removeprefix("http://")
    replies: list[Reply] = []

    def post(number: int) -> None:
        replies.append(exchange(netloc, create_sequence(soap, f"urn:m:{number}"), soap=soap))

    with mercury:
        store.free.clear()
        first, second = (threading.Thread(target=post, args=(number,)) for number in (1, 2))
        first.start()
        assert store.waiting.acquire(timeout=PATIENCE)  # the committer has taken the first
        second.start()
        runtime = mercury.running_runtime
        assert runtime is not None
        eventually(lambda: runtime._arrivals.full, "the second waits")
        busy = exchange(netloc, create_sequence(soap, "urn:m:3"), soap=soap)
        store.free.set()
        for thread in (first, second):
            thread.join(PATIENCE)
    assert "later" in busy.reason(soap, 503)
    assert busy.headers["retry-after"] == "1"
    assert [reply.status for reply in replies] == [200, 200]


def forget(what: Note) -> None:
    del what


# --- sockets -------------------------------------------------------------------------------------------------------


def head(soap: str, *headers: str) -> bytes:
    lines = (f"POST {DESK} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {TYPES[soap]}", *headers, "", "")
    return "\r\n".join(lines).encode()


def read_reply(peer: socket.socket) -> Reply:
    response = http.client.HTTPResponse(peer)
    response.begin()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
