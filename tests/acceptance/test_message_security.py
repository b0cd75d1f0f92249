"""WS-Security over sockets: a client and a server with certificates, and clients without."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree

from mercury import Mercury, MessageSecurity, Peer, Service, Settings, Transaction
from tests.acceptance.processes import eventually
from tests.keys import Encoding, Keys, keys  # noqa: F401  a fixture
from tests.unit.security.forge import TYPE, Peers, one


@dataclass
class Note:
    text: str


@dataclass
class Question:
    text: str


@dataclass
class Answer:
    text: str


class Shop:
    def __init__(self, security: MessageSecurity) -> None:
        self.got: list[str] = []
        self.service = Service("shop", security=security)

        @self.service.operation
        def take(tx: Transaction, note: Note) -> None:
            tx.after_commit(lambda: self.got.append(note.text))

        @self.service.operation
        def ask(question: Question) -> Answer:
            return Answer(f"re: {question.text}")


def test_signed_and_encrypted_messages_arrive_and_others_do_not(keys: Keys, tmp_path: Path) -> None:  # noqa: F811
    trusted = keys.public("authority")
    shop = Shop(MessageSecurity(certificate=keys.file("shop"), trusted=trusted, require_encryption=True))
    security = MessageSecurity(
        certificate=keys.file("till"),
        trusted=trusted,
        encrypt_for=keys.public("shop"),
        require_encryption=True,
        bind_sequences=True,
    )
    with Mercury(f"sqlite:///{tmp_path}/server.db", settings=Settings()) as server:
        url = server.listen(shop.service)
        peers = {url: Peer(security=security)}
        with Mercury(f"sqlite:///{tmp_path}/client.db", settings=Settings(), peers=peers) as client:
            sender = client.to(f"{url}/services/shop")
            for number in range(10):
                sender.send(Note(f"{number} " + "x" * 10_000 * number))
            assert sender.request(Question("how?"), response=Answer).result(30) == Answer("re: how?")
            eventually(lambda: len(shop.got) == 10, "ten notes")
        assert [text.partition(" ")[0] for text in shop.got] == [str(number) for number in range(10)]
        with Mercury("memory:", settings=Settings()) as stranger:
            sender = stranger.to(f"{url}/services/shop")
            sender.send(Note("unsigned"))
            eventually(lambda: "InvalidSecurity" in (sender.last_error or ""), "a fault")
        assert len(shop.got) == 10


def test_user_sends_to_a_service_and_gets_responses_at_its_address() -> None:
    shop = Shop(MessageSecurity(users={"till": "secret"}))
    allowed = ("http://127.0.0.1:*",)
    with Mercury("memory:", settings=Settings(), allow=allowed) as server:
        url = server.listen(shop.service)
        peers = {url: Peer(security=MessageSecurity(user="till", password="secret"))}
        with Mercury("memory:", settings=Settings(), peers=peers, allow=allowed) as client:
            client.listen()
            sender = client.to(f"{url}/services/shop")
            sender.send(Note("a"))
            assert sender.request(Question("how?"), response=Answer).result(30) == Answer("re: how?")
            eventually(lambda: shop.got == ["a"], "a note")


def test_certificate_that_cannot_be_read_is_answered_with_a_fault_and_no_traceback(
    keys: Keys,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its X.509 version is 4. Any client may send it."""
    shop = Shop(MessageSecurity(certificate=keys.file("shop"), trusted=keys.public("authority")))
    root = Peers.of(keys).sent()
    version_3, version_4 = bytes.fromhex("a003020102"), bytes.fromhex("a003020103")
    data = keys.certificates["till"].public_bytes(Encoding.DER).replace(version_3, version_4)
    one(root, "BinarySecurityToken").text = base64.b64encode(data).decode()
    with Mercury("memory:", settings=Settings()) as server:
        url = f"{server.listen(shop.service)}/services/shop"
        request = urllib.request.Request(url, etree.tostring(root), {"Content-Type": TYPE})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        with refused.value as answer:
            assert answer.code == 400
            assert b"InvalidSecurity" in answer.read()
    assert "the certificate cannot be read" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
