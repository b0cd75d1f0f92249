"""Certificates are renewed in their files while the process runs, as ACME clients and Kubernetes do it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury import Mercury, Service, Settings
from mercury.engine.runtime import certificate_files
from mercury.engine.runtime.peers import Peer, Peers, TlsSettings
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.acceptance.test_certificates import Folder
from tests.acceptance.test_endpoint import read_reply
from tests.scenario.foreign import Foreign

STATUS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Two authorities, and a server's and a client's certificate from each."""
    folder = Folder(tmp_path_factory.mktemp("certificates"))
    for authority in ("old", "new"):
        folder.authority(authority, f"/CN={authority}")
        folder.sign(f"{authority} server", authority, "/CN=server", "subjectAltName=IP:127.0.0.1")
        folder.sign(f"{authority} client", authority, "/CN=till")
    folder.together("both", "old", "new")
    return folder


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every new connection looks at the files."""
    monkeypatch.setitem(certificate_files.FileContext.__init__.__kwdefaults__, "look_interval", 0.0)


@dataclass
class Files:
    """The files that the settings name."""

    made: Folder
    folder: Path

    def put(self, name: str, source: str) -> None:
        """Replace a file in one step, as a renewal should."""
        fresh = self.folder / f"{name}.tmp"
        shutil.copy(self.made.path / source, fresh)
        fresh.rename(self.folder / name)

    def named(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture
def files(made: Folder, tmp_path: Path) -> Files:
    found = Files(made, tmp_path)
    for name, source in (
        ("server.pem", "old server.pem"),
        ("server.key", "old server.key"),
        ("clients.pem", "old.pem"),
        ("client.pem", "old client.pem"),
        ("client.key", "old client.key"),
    ):
        found.put(name, source)
    return found


@contextlib.contextmanager
def serving(files: Files, *, mutual: bool = False, identity: str | None = None) -> Iterator[tuple[str, int]]:
    tls = TlsSettings(
        server_cert=files.named("server.pem"),
        server_key=files.named("server.key"),
        client_ca=files.named("clients.pem") if mutual else None,
        identity=identity,
    )
    service = Service("desk")
    service.operation("Note")(forget)
    server = Mercury("memory:", settings=Settings(tls=tls))
    host, port = server.listen(service).removeprefix("https://").split(":")
    try:
        yield host, int(port)
    finally:
        server.stop()


def forget(what: Note) -> None:
    del what


def trusting(files: Files, authority: str, client: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.made.path / f"{authority}.pem")
    if client is not None:
        context.load_cert_chain(files.made.path / f"{client}.pem", files.made.path / f"{client}.key")
    return context


@contextlib.contextmanager
def connected(address: tuple[str, int], context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(address, PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as peer,
    ):
        yield peer


def answers(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    """Whether a new connection is accepted by both sides."""
    with contextlib.suppress(OSError, ConnectionError, AssertionError), connected(address, context) as peer:
        peer.sendall(STATUS)
        return read_reply(peer).status == 200
    return False


def posted(address: tuple[str, int], context: ssl.SSLContext, message: HttpMessage) -> bytes:
    """The answer to a message on a new connection."""
    head = f"POST /services/desk HTTP/1.1\r\nHost: x\r\nContent-Type: {message.content_type}\r\n"
    with connected(address, context) as peer:
        peer.sendall(f"{head}Content-Length: {len(message.body)}\r\n\r\n".encode() + message.body)
        return read_reply(peer).body


def identifier_in(created: bytes) -> str:
    return created.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()


def test_renewed_certificate_is_shown_to_new_connections_and_open_ones_go_on(files: Files) -> None:
    old, new = trusting(files, "old"), trusting(files, "new")
    with serving(files) as address, connected(address, old) as kept:
        kept.sendall(STATUS)
        assert read_reply(kept).status == 200
        assert not answers(address, new)
        files.put("server.key", "new server.key")
        files.put("server.pem", "new server.pem")
        eventually(lambda: answers(address, new), "the renewed certificate is shown")
        assert not answers(address, old)
        kept.sendall(STATUS)
        assert read_reply(kept).status == 200


def test_certificate_whose_key_is_not_there_yet_changes_nothing_and_is_logged_once(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = trusting(files, "old"), trusting(files, "new")

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "mercury.tls"]

    with caplog.at_level(logging.INFO, "mercury.tls"), serving(files) as address:
        files.put("server.pem", "new server.pem")
        eventually(lines, "the log tells of it")
        assert [answers(address, old) for _ in range(3)] == [True] * 3
        (line,) = lines()
        assert "for this server" in line
        assert files.named("server.pem") in line
        assert files.named("server.key") in line
        assert "\n" not in line
        files.put("server.key", "new server.key")
        eventually(lambda: answers(address, new), "the pair is complete")
    assert len(lines()) == 2


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nMIIB", None], ids=["empty", "cut", "gone"])
def test_half_written_file_of_authorities_keeps_the_ones_that_were_read(files: Files, content: bytes | None) -> None:
    client, stranger = trusting(files, "old", "old client"), trusting(files, "old", "new client")
    with serving(files, mutual=True) as address:
        if content is None:
            (files.folder / "clients.pem").unlink()
        else:
            (files.folder / "clients.pem").write_bytes(content)
        assert [answers(address, client) for _ in range(3)] == [True] * 3
        assert not answers(address, stranger)


def test_authority_that_is_taken_out_of_the_file_admits_nobody_any_longer(files: Files) -> None:
    old, new = trusting(files, "old", "old client"), trusting(files, "old", "new client")
    with serving(files, mutual=True, identity="issuer") as address:
        assert answers(address, old)
        assert not answers(address, new)
        files.put("clients.pem", "both.pem")
        eventually(lambda: answers(address, new), "the second authority counts")
        assert answers(address, old)
        files.put("clients.pem", "new.pem")
        eventually(lambda: not answers(address, old), "the first authority no longer counts")
        assert answers(address, new)


def test_authority_that_would_change_identities_is_not_used_and_the_sender_goes_on(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual rollover: the next authority is added to the file of the only one."""
    old, foreign = trusting(files, "old", "old client"), Foreign()
    with serving(files, mutual=True) as address:
        identifier = identifier_in(posted(address, old, foreign.create()))
        files.put("clients.pem", "both.pem")
        files.put("server.key", "new server.key")
        files.put("server.pem", "new server.pem")
        renewed = trusting(files, "new", "old client")
        eventually(lambda: answers(address, renewed), "the server's certificate is renewed all the same")
        assert b"SequenceAcknowledgement" in posted(address, renewed, foreign.alone(foreign.ack_requested(identifier)))
        assert not answers(address, trusting(files, "new", "new client"))
    (line,) = {each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR}
    assert "tls.identity" in line
    assert "restart" in line


@pytest.mark.parametrize("identity", ["name", "issuer"])
def test_setting_of_identities_lets_authorities_come_and_go(files: Files, identity: str) -> None:
    """The identities stay over the renewal of the file, and over a restart with another number of authorities."""
    old, new = trusting(files, "old", "old client"), trusting(files, "old", "new client")
    foreign = Foreign()
    with serving(files, mutual=True, identity=identity) as address:
        identifier = identifier_in(posted(address, old, foreign.create()))
        files.put("clients.pem", "both.pem")
        eventually(lambda: answers(address, new), "the second authority counts")
        assert b"SequenceAcknowledgement" in posted(address, old, foreign.alone(foreign.ack_requested(identifier)))
        of_new = posted(address, new, foreign.alone(foreign.ack_requested(identifier)))
        assert (b"UnknownSequence" in of_new) == (identity == "issuer")
        files.put("clients.pem", "old.pem")
        eventually(lambda: not answers(address, new), "the second authority no longer counts")
        assert b"SequenceAcknowledgement" in posted(address, old, foreign.alone(foreign.ack_requested(identifier)))


def test_file_of_authorities_that_is_rewritten_slowly_changes_no_identity(files: Files) -> None:
    """For a while the file holds one of its two certificates, and is valid."""
    old, new = trusting(files, "old", "old client"), trusting(files, "old", "new client")
    foreign = Foreign()
    files.put("clients.pem", "both.pem")
    with serving(files, mutual=True) as address:
        identifier = identifier_in(posted(address, old, foreign.create()))
        (files.folder / "clients.pem").write_bytes((files.made.path / "old.pem").read_bytes())
        eventually(lambda: not answers(address, new), "the first part of the file is used")
        assert b"SequenceAcknowledgement" in posted(address, old, foreign.alone(foreign.ack_requested(identifier)))
        (files.folder / "clients.pem").write_bytes((files.made.path / "both.pem").read_bytes())
        eventually(lambda: answers(address, new), "the whole file is used")
        assert b"SequenceAcknowledgement" in posted(address, old, foreign.alone(foreign.ack_requested(identifier)))
        assert b"UnknownSequence" in posted(address, new, foreign.alone(foreign.ack_requested(identifier)))


def test_sender_shows_its_renewed_certificate_and_trusts_the_renewed_authority(files: Files) -> None:
    with serving(files, mutual=True) as (host, port):
        files.put("ca.pem", "old.pem")
        url = f"https://{host}:{port}"
        peer = Peer(
            ca_file=files.named("ca.pem"), client_cert=files.named("client.pem"), client_key=files.named("client.key")
        )
        peers = Peers({url: peer})

        def arrives() -> bool:
            transport = HttpTransport(PATIENCE, peers=peers)  # without connections that are open already
            try:
                return b"Identifier>" in transport.post(f"{url}/services/desk", Foreign().create()).body
            except TransportError:
                return False
            finally:
                transport.close()

        assert arrives()
        for name, source in (("client.pem", "old server.pem"), ("ca.pem", "both.pem")):
            files.put(name, source)
        assert [arrives() for _ in range(3)] == [True] * 3, "a certificate without its key is not shown"
        files.put("client.key", "new client.key")
        files.put("client.pem", "new client.pem")
        files.put("clients.pem", "new.pem")
        old = trusting(files, "old", "old client")
        eventually(lambda: not answers((host, port), old), "only the renewed certificate is accepted")
        eventually(arrives, "the renewed certificate is shown")
        for part in ("server.key", "server.pem"):
            files.put(part, f"new {part}")
        renewed = trusting(files, "new", "new client")
        eventually(lambda: answers((host, port), renewed), "the server shows its renewed certificate")
        eventually(arrives, "the renewed authority is trusted")
