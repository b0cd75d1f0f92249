"""The identity of a peer by its TLS certificate, over real sockets: different certificates are different peers."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury import Authenticate, HttpRequest, Mercury, Service, Settings
from mercury.engine.runtime.peers import TlsSettings
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_tls import openssl
from tests.scenario.foreign import Foreign

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
TILL = "/O=Shop/CN=till"


@dataclass
class Folder:
    """A folder with certificates and their keys, by name."""

    path: Path

    def authority(self, name: str, subject: str) -> None:
        extension = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
        files = ("-keyout", self.path / f"{name}.key", "-out", self.path / f"{name}.pem")
        openssl("req", "-x509", *KEY, "-days", "2", *files, "-subj", subject, *extension)

    def self_signed(self, name: str, subject: str) -> None:
        """A certificate that is not an authority's: a server that trusts it accepts only its owner."""
        files = ("-keyout", self.path / f"{name}.key", "-out", self.path / f"{name}.pem")
        extension = ("-addext", "basicConstraints=critical,CA:FALSE")
        openssl("req", "-x509", *KEY, "-days", "2", *files, "-subj", subject, *extension)

    def sign(self, name: str, by: str, subject: str, *extensions: str) -> None:
        """:param by: the name of the authority, whose certificate goes along if it is none of the server's."""
        own, request = self.path / f"{name}.ext", self.path / f"{name}.csr"
        own.write_text("\n".join(("authorityKeyIdentifier=keyid", "subjectKeyIdentifier=hash", *extensions)) + "\n")
        openssl("req", *KEY, "-keyout", self.path / f"{name}.key", "-out", request, "-subj", subject)
        signed = ("-CA", self.path / f"{by}.pem", "-CAkey", self.path / f"{by}.key", "-CAcreateserial", "-extfile", own)
        openssl("x509", "-req", "-in", request, *signed, "-days", "2", "-out", self.path / f"{name}.pem")

    def together(self, name: str, *parts: str) -> str:
        whole = self.path / f"{name}.pem"
        whole.write_text("".join((self.path / f"{part}.pem").read_text() for part in parts))
        return str(whole)

    def fingerprint(self, name: str) -> str:
        pem = (self.path / f"{name}.pem").read_text()
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()

    def client(self, name: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.path / "ca.pem"))
        context.load_cert_chain(self.path / f"{name}.pem", self.path / f"{name}.key")
        context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The authority ``ca``; ``namesake`` has its name and another key; ``other`` another name. Clients of each.

    ``pinned`` and ``pinned too`` have the subject of those clients, and are signed by themselves.
    """
    made = Folder(tmp_path_factory.mktemp("certificates"))
    for name, subject in (("ca", "/CN=ca"), ("namesake", "/CN=ca"), ("other", "/CN=other")):
        made.authority(name, subject)
    made.sign("server", "ca", "/CN=server", "subjectAltName=IP:127.0.0.1")
    for authority in ("ca", "namesake", "other"):
        made.sign(f"till of {authority}", authority, TILL)
    for name in ("pinned", "pinned too"):
        made.self_signed(name, TILL)
    made.sign("between", "other", "/CN=ca", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
    made.sign("leaf", "between", TILL)
    made.together("till of between", "leaf", "between")
    (made.path / "till of between.key").write_bytes((made.path / "leaf.key").read_bytes())
    for name, uris in {"one": ("one",), "two": ("two",), "both": ("one", "two"), "turned": ("two", "one")}.items():
        made.sign(name, "ca", "/C=US/O=SPIRE", "subjectAltName=" + ",".join(f"URI:spiffe://x/{uri}" for uri in uris))
    return made


@dataclass
class Desk:
    """A server in this process that accepts only clients with certificates."""

    address: tuple[str, int]
    sessions: list[ssl.SSLSession | None]

    def post(self, client: ssl.SSLContext, message: HttpMessage, session: ssl.SSLSession | None = None) -> bytes:
        """:return: the whole answer. What may take up its TLS session is added to `sessions`."""
        head = (
            f"POST /services/desk HTTP/1.1\r\nHost: x\r\nContent-Type: {message.content_type}\r\nConnection: close\r\n"
        )
        with (
            socket.create_connection(self.address, PATIENCE) as plain,
            client.wrap_socket(plain, server_hostname=self.address[0], session=session) as peer,
        ):
            assert peer.session_reused == (session is not None)
            peer.sendall(f"{head}Content-Length: {len(message.body)}\r\n\r\n".encode() + message.body)
            answer = b""
            while part := peer.recv(65536):
                answer += part
            self.sessions.append(peer.session)
        return answer


@contextmanager
def desk_with(folder: Folder, client_ca: str, authenticate: Authenticate | None = None) -> Iterator[Desk]:
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    server = {"server_cert": str(folder.path / "server.pem"), "server_key": str(folder.path / "server.key")}
    settings = Settings(tls=TlsSettings(client_ca=client_ca, **server))
    with Mercury("memory:", settings=settings, authenticate=authenticate) as mercury:
        host, port = mercury.listen(service).removeprefix("https://").split(":")
        yield Desk((host, int(port)), [])


def made_by(desk: Desk, client: ssl.SSLContext, foreign: Foreign) -> str:
    created = desk.post(client, foreign.create())
    return created.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()


def assert_only_the_first_owns(desk: Desk, foreign: Foreign, mine: ssl.SSLContext, others: ssl.SSLContext) -> None:
    identifier = made_by(desk, mine, foreign)
    for forged in (foreign.note(identifier, 1), foreign.terminate(identifier, message_id="urn:end")):
        assert b"UnknownSequence" in desk.post(others, forged)
    reply = desk.post(mine, foreign.alone(foreign.ack_requested(identifier)))
    assert b"SequenceAcknowledgement" in reply
    assert b"Final" not in reply


@pytest.mark.parametrize("other", ["other", "namesake", "between"])
def test_same_subject_from_another_authority_cannot_use_my_sequence(folder: Folder, other: str) -> None:
    """``between`` has the name of my authority, and comes from the other one."""
    known = folder.together(f"known with {other}", "ca", "other" if other == "between" else other)
    with desk_with(folder, known) as desk:
        mine, others = folder.client("till of ca"), folder.client(f"till of {other}")
        assert_only_the_first_owns(desk, Foreign(), mine, others)


@pytest.mark.parametrize("owner", ["pinned", "till of ca"])
def test_same_subject_as_a_self_signed_certificate_cannot_use_its_sequence(folder: Folder, owner: str) -> None:
    """`SSLContext.get_ca_certs` leaves out a certificate that is no authority's."""
    with desk_with(folder, folder.together("ca and pinned", "ca", "pinned")) as desk:
        other = "till of ca" if owner == "pinned" else "pinned"
        assert_only_the_first_owns(desk, Foreign(), folder.client(owner), folder.client(other))


def test_self_signed_certificates_of_one_subject_are_different_peers(folder: Folder) -> None:
    with desk_with(folder, folder.together("two pinned", "pinned", "pinned too")) as desk:
        assert_only_the_first_owns(desk, Foreign(), folder.client("pinned"), folder.client("pinned too"))


@pytest.mark.parametrize("other", ["two", "both"])
def test_same_subject_with_another_uri_cannot_use_my_sequence(folder: Folder, other: str) -> None:
    with desk_with(folder, str(folder.path / "ca.pem")) as desk:
        assert_only_the_first_owns(desk, Foreign(), folder.client("one"), folder.client(other))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_session_that_is_taken_up_again_has_the_same_identity(folder: Folder, version: ssl.TLSVersion) -> None:
    """Only a full handshake verifies a certificate; a resumed session has no chain."""
    foreign = Foreign()
    with desk_with(folder, folder.together("known", "ca", "other")) as desk:
        mine, others = folder.client("till of ca", version), folder.client("till of other", version)
        identifier = made_by(desk, mine, foreign)
        asked = foreign.alone(foreign.ack_requested(identifier))
        assert b"SequenceAcknowledgement" in desk.post(mine, asked, desk.sessions[-1])
        assert b"UnknownSequence" in desk.post(others, asked)
        assert b"UnknownSequence" in desk.post(others, asked, desk.sessions[-1])


def told_by(folder: Folder, client_ca: str, *clients: str) -> list[HttpRequest]:
    """The requests that a hook gets from these clients."""
    seen: list[HttpRequest] = []

    def authenticate(request: HttpRequest) -> str | None:
        seen.append(request)
        return request.certificate

    with desk_with(folder, client_ca, authenticate) as desk:
        for name in clients:
            assert b"200 OK" in desk.post(folder.client(name), Foreign().create())
    return seen


def test_hook_gets_the_content_of_the_certificate(folder: Folder) -> None:
    by_uri, by_uris, turned, by_subject = told_by(
        folder, str(folder.path / "ca.pem"), "one", "both", "turned", "till of ca"
    )
    assert by_uri.certificate == "URI:spiffe://x/one"
    assert (by_uri.subject, by_uri.issuer) == ("O=SPIRE,C=US", "CN=ca")
    assert by_uri.alternative_names == (("URI", "spiffe://x/one"),)
    assert by_uri.fingerprint == folder.fingerprint("one")
    assert by_uris.certificate == "URI:spiffe://x/one,URI:spiffe://x/two"
    assert turned.certificate == "URI:spiffe://x/two,URI:spiffe://x/one"
    assert (by_subject.certificate, by_subject.alternative_names) == ("CN=till,O=Shop", ())


def test_authority_is_part_of_the_identity_when_there_are_several(folder: Folder) -> None:
    known = folder.together("all", "ca", "namesake", "other")
    mine, namesake, between, by_uri = told_by(folder, known, "till of ca", "till of namesake", "till of between", "one")
    of_ca, of_namesake = (f"CN=ca;sha256={folder.fingerprint(name)}" for name in ("ca", "namesake"))
    assert (mine.certificate, mine.issuer) == (f"CN=till,O=Shop;issuer=<{of_ca}>", of_ca)
    assert (namesake.certificate, namesake.issuer) == (f"CN=till,O=Shop;issuer=<{of_namesake}>", of_namesake)
    assert (between.certificate, between.issuer) == ("CN=till,O=Shop;issuer=<CN=other>", "CN=other")
    assert by_uri.certificate == f"URI:spiffe://x/one;issuer=<{of_ca}>"


def test_self_signed_certificate_is_its_own_authority(folder: Folder) -> None:
    pinned, of_ca = told_by(folder, folder.together("ca and pinned", "ca", "pinned"), "pinned", "till of ca")
    itself = f"CN=till,O=Shop;sha256={folder.fingerprint('pinned')}"
    assert (pinned.certificate, pinned.issuer) == (f"CN=till,O=Shop;issuer=<{itself}>", itself)
    assert (of_ca.certificate, of_ca.issuer) == ("CN=till,O=Shop;issuer=<CN=ca>", "CN=ca")


def test_certificate_with_a_name_that_is_not_text_closes_the_connection_and_is_logged_once(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL accepts it, Python cannot decode it, and asyncio would log a traceback for each connection."""
    folder.sign("undecodable", "ca", TILL, "subjectAltName=DER:30078605687474fffe")
    message = Foreign().create()
    with desk_with(folder, str(folder.path / "ca.pem")) as desk:
        for _ in range(3):
            answer = b""
            with contextlib.suppress(OSError):  # the end of the connection may be a reset
                answer = desk.post(folder.client("undecodable"), message)
            assert answer == b""
        assert b"200 OK" in desk.post(folder.client("till of ca"), message)
    (line,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert line.name == "mercury.tls"
    assert line.exc_info is None
    assert "127.0.0.1" in line.getMessage()
    assert "not text" in line.getMessage()


def test_only_certificate_that_is_given_needs_no_authority_behind_its_name(folder: Folder) -> None:
    (alone,) = told_by(folder, str(folder.path / "pinned.pem"), "pinned")
    assert (alone.certificate, alone.issuer) == (
        "CN=till,O=Shop",
        f"CN=till,O=Shop;sha256={folder.fingerprint('pinned')}",
    )
