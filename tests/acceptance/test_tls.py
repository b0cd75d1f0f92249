"""TLS and headers in both directions, over real sockets, with certificates that the tests generate."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mercury import ConfigurationError, HttpRequest, Mercury, Peer, Service, Settings
from mercury.engine.runtime.peers import Peers, TlsSettings
from mercury.engine.runtime.transport import HttpTransport
from mercury.service import serving
from mercury.service.tls_listener import TlsListener
from mercury.settings import HttpSettings
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import MERCURY as COMMAND
from tests.acceptance.processes import PATIENCE, Running, eventually, mercury
from tests.acceptance.test_endpoint import read_reply
from tests.acceptance.test_http_limits import closed, connect
from tests.scenario.foreign import Foreign
from tests.unit.engine.runtime.test_transport import MESSAGE, OK, Server

#: Seconds; asyncio alone would cut a handshake off after 60.
SOON = 30.0


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, its certificates for server and client, and one of another
    authority."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    for name in ("ca", "stranger"):
        subject = ("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,digitalSignature")
        openssl("req", "-x509", *key, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", *subject)
    for name, subject in (("server", "/CN=server"), ("client", "/O=Shop, Inc./CN=till")):
        extensions = folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        request = folder / f"{name}.csr"
        openssl("req", *key[:-2], "-keyout", folder / f"{name}.key", "-out", request, "-subj", subject)
        signed = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial", "-extfile", extensions)
        openssl("x509", "-req", "-in", request, *signed, "-days", "2", "-out", folder / f"{name}.pem")
    return folder


def served(certificates: Path, seen: list[HttpRequest], *, mutual: bool) -> tuple[Mercury, str]:
    def authenticate(request: HttpRequest) -> str | None:
        seen.append(request)
        return request.certificate

    service = Service("desk")
    service.operation("Note")(forget)
    tls = TlsSettings(
        server_cert=str(certificates / "server.pem"),
        server_key=str(certificates / "server.key"),
        client_ca=str(certificates / "ca.pem") if mutual else None,
    )
    server = Mercury("memory:", settings=Settings(tls=tls), authenticate=authenticate)
    return server, server.listen(service) + "/services/desk"


def forget(what: Note) -> None:
    del what


def test_certificates_and_headers_of_a_peer_are_used_and_its_identity_is_seen(certificates: Path) -> None:
    seen: list[HttpRequest] = []
    server, url = served(certificates, seen, mutual=True)
    peer = Peer(
        ca_file=str(certificates / "ca.pem"),
        client_cert=str(certificates / "client.pem"),
        client_key=str(certificates / "client.key"),
        headers={"Authorization": "Bearer secret"},
    )
    assert "secret" not in repr(peer)
    try:
        assert url.startswith("https://")
        with Mercury("memory:", peers={url.removesuffix("/services/desk"): peer}) as client:
            desk = client.to(url)
            desk.send(Note("x"))
            assert desk.wait(PATIENCE)
    finally:
        server.stop()
    assert {request.headers["authorization"] for request in seen} == {"Bearer secret"}
    assert {request.certificate for request in seen} == {"CN=till,O=Shop\\, Inc."}


def test_connection_over_tls_is_kept_until_something_comes_unasked(certificates: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    now, spoken = threading.Event(), threading.Event()

    def answer_and_speak_later(connection: socket.socket) -> None:
        connection.sendall(OK)
        assert now.wait(PATIENCE)
        connection.sendall(OK.replace(b"<b/>", b"<!/>"))
        spoken.set()

    server = Server(OK, answer_and_speak_later, OK, tls=context)
    transport = HttpTransport(PATIENCE, peers=Peers(None, Peer(ca_file=str(certificates / "ca.pem"))))
    try:
        assert [transport.post(server.url, MESSAGE).body for _ in range(2)] == [b"<b/>"] * 2
        assert server.connections == 1, "the session tickets of TLS 1.3 are no unasked reply"
        now.set()
        assert spoken.wait(PATIENCE)
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
        assert server.connections == 2
    finally:
        transport.close()
        server.close()


def test_kept_connection_over_tls_that_is_closed_while_a_large_request_is_sent_is_replaced(certificates: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    def answer_and_close_on_the_next_request(connection: socket.socket) -> None:
        connection.sendall(OK)
        connection.recv(1)
        connection.close()

    server = Server(answer_and_close_on_the_next_request, OK, tls=context)
    transport = HttpTransport(PATIENCE, peers=Peers(None, Peer(ca_file=str(certificates / "ca.pem"))))
    try:
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
        large = HttpMessage(bytes(20_000_000) + MESSAGE.body, MESSAGE.content_type)
        assert transport.post(server.url, large).body == b"<b/>"
        assert server.connections == 2
    finally:
        transport.close()
        server.close()


def test_another_certificate_cannot_use_my_sequence(certificates: Path) -> None:
    server, url = served(certificates, [], mutual=True)
    foreign = Foreign()

    def post(name: str, message: HttpMessage) -> bytes:
        files = {"client_cert": f"{name}.pem", "client_key": f"{name}.key", "ca_file": "ca.pem"}
        peer = Peer(**{key: str(certificates / file) for key, file in files.items()})
        transport = HttpTransport(PATIENCE, peers=Peers(None, peer))
        try:
            return transport.post(url, message).body
        finally:
            transport.close()

    try:
        created = post("client", foreign.create())
        mine = created.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()
        post("server", foreign.create(follows=mine))  # a certificate of the same authority, with another subject
        for forged in (foreign.note(mine, 1), foreign.terminate(mine, message_id="urn:end"), foreign.close(mine, 1)):
            assert b"UnknownSequence" in post("server", forged)
        reply = post("client", foreign.alone(foreign.ack_requested(mine)))
        assert b"SequenceAcknowledgement" in reply
        assert b"Final" not in reply
    finally:
        server.stop()


@contextlib.contextmanager
def behind_tls(certificates: Path, **http: float) -> Iterator[tuple[str, int]]:
    """An https server with these values of `HttpSettings`."""
    tls = TlsSettings(server_cert=str(certificates / "server.pem"), server_key=str(certificates / "server.key"))
    server = Mercury("memory:", settings=Settings(tls=tls, http=HttpSettings(**http)))  # type: ignore[arg-type]
    host, port = server.listen().removeprefix("https://").split(":")
    try:
        yield host, int(port)
    finally:
        server.stop()


def answers(certificates: Path, address: tuple[str, int]) -> int:
    """The status of a request whose handshake, header and body are sent in as few packets as possible."""
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    with connect(address) as plain, context.wrap_socket(plain, server_hostname=address[0]) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return read_reply(peer).status


def test_handshake_that_is_never_finished_makes_room_for_a_new_connection(certificates: Path) -> None:
    with (
        behind_tls(certificates, max_connections=2, first_byte_timeout=600) as address,
        contextlib.ExitStack() as stack,
    ):
        silent = [stack.enter_context(connect(address)) for _ in range(2)]
        assert [answers(certificates, address) for _ in range(3)] == [200] * 3
        silent[0].settimeout(SOON)
        assert closed(silent[0])


def test_handshakes_count_for_the_connections_of_one_address(certificates: Path) -> None:
    limits = {"max_connections_per_address": 2, "first_byte_timeout": 600}
    with behind_tls(certificates, **limits) as address, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(address)) for _ in range(2)]
        with connect(address):
            silent[0].settimeout(SOON)
            assert closed(silent[0])  # the oldest one makes room

        def taken() -> bool:
            with contextlib.suppress(OSError):
                return answers(certificates, address) == 200
            return False

        eventually(taken, "another one is taken")


def test_address_is_printed_when_connections_over_tls_are_accepted(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, early = threading.Event(), []

    class Late(TlsListener):
        def __init__(self, *arguments: Any) -> None:
            early.append(told.wait(0.2))
            super().__init__(*arguments)

    monkeypatch.setattr(serving, "TlsListener", Late)
    with behind_tls(certificates):
        told.set()
    assert early == [False]


@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x01"])
def test_handshake_has_a_deadline(certificates: Path, beginning: bytes) -> None:
    with behind_tls(certificates, first_byte_timeout=0.3) as address, connect(address) as peer:
        peer.settimeout(SOON)
        peer.sendall(beginning)
        assert closed(peer)


def test_peer_that_speaks_no_tls_is_cut_off_and_the_next_one_is_answered(certificates: Path) -> None:
    with behind_tls(certificates) as address:
        with connect(address) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while peer.recv(1000):
                    pass
        assert answers(certificates, address) == 200


def test_unfinished_handshake_does_not_hold_up_the_end(certificates: Path) -> None:
    with behind_tls(certificates, first_byte_timeout=600, shutdown_deadline=600) as address:
        peer = connect(address)
        assert answers(certificates, address) == 200  # the one before it is taken
    with peer:
        assert closed(peer)


def test_settings_are_used_for_peers_that_are_not_named(certificates: Path) -> None:
    seen: list[HttpRequest] = []
    server, url = served(certificates, seen, mutual=True)
    files = {"ca_file": "ca.pem", "client_cert": "client.pem", "client_key": "client.key"}
    tls = TlsSettings(**{name: str(certificates / file) for name, file in files.items()})
    try:
        with Mercury("memory:", settings=Settings(tls=tls)) as client:
            desk = client.to(url)
            desk.send(Note("x"))
            assert desk.wait(PATIENCE)
    finally:
        server.stop()
    assert all(request.certificate for request in seen)


@pytest.mark.parametrize(
    ("mutual", "authority", "why"),
    [(False, None, "certificate"), (False, "stranger.pem", "certificate"), (True, "ca.pem", "")],
    ids=["the system's authorities", "another authority", "no certificate of its own"],
)
def test_peer_that_is_not_known_gets_and_gives_nothing(
    certificates: Path, mutual: bool, authority: str | None, why: str
) -> None:
    seen: list[HttpRequest] = []
    server, url = served(certificates, seen, mutual=mutual)
    tls = TlsSettings(ca_file=str(certificates / authority) if authority else None)
    try:
        with Mercury("memory:", settings=Settings(tls=tls, http=HttpSettings(timeout=5))) as client:
            desk = client.to(url)
            desk.send(Note("x"))
            trouble = eventually(lambda: desk.last_error, "the error is reported")
            assert trouble is not None
            assert why in trouble
    finally:
        server.stop()
    assert seen == []


def test_ssl_cert_file_names_the_authorities(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, url = served(certificates, [], mutual=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    try:
        with Mercury("memory:") as client:
            desk = client.to(url)
            desk.send(Note("x"))
            assert desk.wait(PATIENCE)
    finally:
        server.stop()


def test_serve_speaks_https_and_send_trusts_the_given_authority(certificates: Path) -> None:
    options = ["--tls-cert", str(certificates / "server.pem"), "--tls-key", str(certificates / "server.key")]
    with Running(COMMAND, "serve", "tests.acceptance.app:app", "--port", "0", *options) as serving:
        url = serving.says(r"(https://[^\s\"]+)") + "/services/desk"
        body = '<Note xmlns="urn:mercury:app"><text>x</text></Note>'
        arguments = ["send", url, "--body", body, "--action", "urn:mercury:app/Note"]
        assert mercury(*arguments, MERCURY_TLS_CA_FILE=str(certificates / "ca.pem")).code == 0
        assert mercury(*arguments, "--timeout", "1").code == 1


def test_headers_go_to_the_named_peer_only() -> None:
    secret = Peer(headers={"Authorization": "x"})
    peers = Peers({"http://a.example/in": secret, "https://b.example": secret})
    for url in ("http://a.example/in", "http://A.example:80/in/x", "https://b.example/", "https://b.example:443/x"):
        assert peers.find(url).peer is secret, url
    for url in ("http://a.example/inner", "http://a.example:81/in", "https://a.example/in", "http://b.example/"):
        assert peers.find(url).peer is not secret, url


@pytest.mark.parametrize("path", ["../evil", "%2e%2e/evil", "%252e%252e/evil", "..;/evil", "..%2fevil", "./x"])
def test_path_that_climbs_gets_the_headers_of_the_whole_server_only(path: str) -> None:
    """A server may resolve it to a path that the credentials are not for."""
    secret, whole = Peer(user="shop", password="secret"), Peer(token="whole")
    url = f"http://a.example/orders/{path}"
    assert Peers({"http://a.example/orders": secret}).find(url).peer == Peer()
    assert Peers({"http://a.example/orders": secret, "http://a.example": whole}).find(url).peer is whole
    assert Peers({"http://a.example/orders": secret}).find("http://a.example/orders/..x/a.b").peer is secret


def test_unusable_resource_is_refused_when_it_is_named(tmp_path: Path) -> None:
    none = str(tmp_path / "none.pem")
    for peer in (Peer(ca_file=none), Peer(client_cert=none)):
        with pytest.raises(ConfigurationError, match=r"none\.pem"):
            Mercury("memory:", peers={"https://a.example": peer})
        with pytest.raises(ConfigurationError, match="need https"):
            Mercury("memory:", peers={"http://a.example": peer})
    for headers in ({"A\r\nB": "x"}, {"A": "x\r\nB: y"}, {"content-length": "1"}):
        with pytest.raises(ConfigurationError, match="headers: "):
            Peer(headers=headers)
    with pytest.raises(ConfigurationError, match="client_key: "):
        Peer(client_key=none)
    for name in ("client_key", "server_key", "client_ca"):
        with pytest.raises(ConfigurationError, match=f"{name}: "):
            TlsSettings(**{name: none})
    mercury("serve", "tests.acceptance.app:app", "--port", "0", "--tls-cert", none).refused("tls.server_cert", none)
