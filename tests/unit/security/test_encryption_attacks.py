"""Encrypted messages: what an attacker may alter is refused, always for the same reason (SEC-08)."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.encryption import encrypt
from mercury.security.message import SoapTree
from mercury.security.names import DS, SECURITY, XENC, XENC11
from mercury.wire.envelope import Payload
from mercury.wire.scan import DEFAULT_LIMITS
from tests.keys import AESGCM, MGF1, OAEP, SHA1, SHA256, Keys, PKCS1v15, elliptic, keys  # noqa: F401  a fixture
from tests.unit.security.forge import NOW, PLAIN, Peers, body, commented, evil_body, header, http, one, party, security

WRONG = "the Body cannot be decrypted"


@pytest.fixture
def peers(keys: Keys) -> Peers:  # noqa: F811
    made = Peers.of(keys, encrypt_for=keys.public("shop"), trusted=keys.public("authority"))
    made.service = party(certificate=keys.file("shop"), trusted=keys.public("authority"), require_encryption=True)
    return made


def test_encrypted_message_is_taken_with_all_that_it_says(peers: Peers) -> None:
    root = peers.sent()
    assert b"10 euros" not in etree.tostring(root)
    envelope, verified = peers.taken(root)
    assert isinstance(envelope.body, Payload)
    assert etree.fromstring(envelope.body.xml).text == "10 euros"
    assert verified.encrypted


@pytest.mark.parametrize("place", ["before the content", "after the content"])
def test_comment_beside_the_content_is_no_content_before_and_after_decryption(peers: Peers, place: str) -> None:
    root = peers.sent(commented(place))
    body(root).insert(0, etree.Comment("c"))
    body(root).append(etree.Comment("c"))
    envelope, verified = peers.taken(root)
    assert isinstance(envelope.body, Payload)
    assert etree.fromstring(envelope.body.xml).text == "10 euros"
    assert verified.encrypted


def test_comment_beside_encrypted_content_hides_no_second_element(peers: Peers) -> None:
    root = peers.sent()
    body(root).insert(0, etree.Comment("c"))
    body(root).append(evil_body()[0])
    assert peers.reason(root) == WRONG


def test_empty_body_is_encrypted_too_because_cxf_refuses_others(peers: Peers) -> None:
    start, end = PLAIN.index("<a:Take"), PLAIN.index("</S:Body>")
    root = peers.sent(PLAIN[:start] + PLAIN[end:])
    assert [etree.QName(each).localname for each in body(root)] == ["EncryptedData"]
    envelope, verified = peers.taken(root)
    assert isinstance(envelope.body, Payload)
    assert (envelope.body.xml, verified.encrypted) == (b"", True)


def test_reply_to_an_encrypted_request_is_encrypted_for_its_signer(peers: Peers) -> None:
    _, verified = peers.taken(peers.sent())
    reply = peers.service.secure_reply(http(PLAIN), verified, NOW)
    assert b"10 euros" not in reply.body
    opened, _ = peers.client.check(reply, DEFAULT_LIMITS, NOW)
    assert b"10 euros" in opened.body


def test_reply_to_a_plain_request_is_not_encrypted(peers: Peers) -> None:
    plain = Peers.of(peers.keys)
    _, verified = plain.taken(plain.sent())
    assert b"10 euros" in plain.service.secure_reply(http(PLAIN), verified, NOW).body
    assert b"10 euros" in plain.service.secure_reply(http(PLAIN), None, NOW).body


def test_message_that_is_not_encrypted_is_refused_where_it_must_be(peers: Peers) -> None:
    assert "not encrypted" in peers.reason(Peers.of(peers.keys).sent())


def test_message_for_another_receiver_is_refused(peers: Peers) -> None:
    other = Peers.of(peers.keys, encrypt_for=peers.keys.public("stranger")).sent()
    assert "names no certificate" in peers.reason(other)
    one(security(other), "KeyIdentifier").text = one(security(peers.sent()), "KeyIdentifier").text
    assert peers.reason(other) == WRONG


def test_content_that_is_encrypted_by_an_attacker_and_not_signed_is_refused(peers: Peers) -> None:
    """Anyone can encrypt for the service."""
    root = peers.sent()
    tree = SoapTree(etree.tostring(root), DEFAULT_LIMITS)
    stolen = tree.security()
    assert stolen is not None
    stolen.remove(one(stolen, "EncryptedKey"))
    identifier = dict(tree.body.attrib)
    tree.body[:] = list(evil_body())
    encrypt(tree, stolen, peers.keys.certificates["shop"], "ED-evil")
    assert dict(tree.body.attrib) == identifier
    assert "InvalidDigest" in peers.reason(tree.written())
    unsigned = SoapTree(PLAIN.encode(), DEFAULT_LIMITS)
    block = etree.SubElement(unsigned.header, SECURITY)
    encrypt(unsigned, block, peers.keys.certificates["shop"], "ED-evil")
    assert "0 signatures" in peers.reason(unsigned.written())


def flipped(local: str, place: int) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        found = one(one(root, local), "CipherValue")
        value = bytearray(base64.b64decode(found.text or ""))
        value[place] ^= 1
        found.text = base64.b64encode(value).decode()

    return attack


def cut(local: str, length: int) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        found = one(one(root, local), "CipherValue")
        found.text = base64.b64encode(base64.b64decode(found.text or "")[:length]).decode()

    return attack


def method(local: str, uri: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        one(root, local).find(f"{{{XENC}}}EncryptionMethod").set("Algorithm", uri)  # type: ignore[union-attr]

    return attack


def inside_the_key(local: str, uri: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        one(one(root, "EncryptedKey"), local).set("Algorithm", uri)

    return attack


def set_to(local: str, attribute: str, value: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        one(root, local).set(attribute, value)

    return attack


def key_by_pkcs1(keys: Keys) -> Callable[[etree._Element], None]:  # noqa: F811
    def attack(root: etree._Element) -> None:
        method("EncryptedKey", XENC + "rsa-1_5")(root)
        value = keys.certificates["shop"].public_key().encrypt(b"k" * 32, PKCS1v15())  # type: ignore[union-attr, call-arg]
        one(one(root, "EncryptedKey"), "CipherValue").text = base64.b64encode(value).decode()

    return attack


ALTERED = {
    "the tag": flipped("EncryptedData", -1),
    "the vector": flipped("EncryptedData", 0),
    "the content": flipped("EncryptedData", 20),
    "the key": flipped("EncryptedKey", 30),
    "no content": cut("EncryptedData", 0),
    "content shorter than its tag": cut("EncryptedData", 14),
    "no key": cut("EncryptedKey", 0),
    "half a key": cut("EncryptedKey", 128),
    "CBC": method("EncryptedData", XENC + "aes256-cbc"),
    "a key of another size": method("EncryptedData", XENC11 + "aes128-gcm"),
    "an unknown algorithm": method("EncryptedData", "urn:x"),
    "RSA 1.5": method("EncryptedKey", XENC + "rsa-1_5"),
    "another hash of the key": inside_the_key("DigestMethod", DS + "sha1"),
    "another mask of the key": inside_the_key("MGF", XENC11 + "mgf1sha1"),
    "an unknown hash": inside_the_key("DigestMethod", "urn:x"),
    "an unknown mask": inside_the_key("MGF", "urn:x"),
    "the older algorithm with a mask": method("EncryptedKey", XENC + "rsa-oaep-mgf1p"),
    "an element instead of its content": set_to("EncryptedData", "Type", XENC + "Element"),
    "another id": set_to("EncryptedData", "Id", "other"),
    "a reference to something else": set_to("DataReference", "URI", "#other"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_content_and_keys_are_refused_for_one_reason(peers: Peers, name: str) -> None:
    root = peers.sent()
    ALTERED[name](root)
    assert peers.reason(root) == WRONG


def test_key_with_the_padding_of_pkcs_1_is_not_decrypted(peers: Peers) -> None:
    root = peers.sent()
    key_by_pkcs1(peers.keys)(root)
    assert peers.reason(root) == WRONG


def test_key_with_the_older_oaep_is_taken(peers: Peers) -> None:
    """The default of WSS4J: SHA-1 as hash and as mask."""
    root = peers.sent()
    key = one(root, "EncryptedKey")
    wrapped = base64.b64decode(one(key, "CipherValue").text or "")
    plain = peers.keys.private["shop"].decrypt(wrapped, OAEP(MGF1(SHA256()), SHA256(), None))
    again = peers.keys.certificates["shop"].public_key().encrypt(plain, OAEP(MGF1(SHA1()), SHA1(), None))  # type: ignore[union-attr, call-arg]
    chosen = key.find(f"{{{XENC}}}EncryptionMethod")
    assert chosen is not None
    chosen[:] = []
    chosen.set("Algorithm", XENC + "rsa-oaep-mgf1p")
    one(key, "CipherValue").text = base64.b64encode(again).decode()
    assert peers.taken(root)[1].encrypted


def test_many_keys_are_refused_without_decrypting_one(peers: Peers) -> None:
    root = peers.sent()
    for _ in range(1000):
        security(root).append(copy.deepcopy(security(root)[0]))
    assert peers.reason(root) == WRONG


def test_encrypted_parts_in_other_places_are_refused(peers: Peers) -> None:
    for place in (header, security):
        root = peers.sent()
        place(root).append(copy.deepcopy(one(body(root), "EncryptedData")))
        assert peers.reason(root) == WRONG
    root = Peers.of(peers.keys).sent()
    header(root).append(copy.deepcopy(one(body(peers.sent()), "EncryptedData")))
    assert "only the content of the Body" in peers.reason(root)


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE a [<!ENTITY x "y">]><a/>',
        b"<a>",
        b"</Body><Body>",
        b"<a/><b/>",
        b"text",
        b"<a/>text",
        b"<a/><!-- c --><b/>",
        b"<!-- c -->text<a/>",
        b"<a>" * 100 + b"</a>" * 100,
        b"<?xml-stylesheet href='x'?><a/>",
        b"<u:a/>",
        b"\xff",
    ],
)
def test_content_that_is_no_body_is_refused_after_decryption(peers: Peers, content: bytes) -> None:
    root = peers.sent()
    wrapped = base64.b64decode(one(one(root, "EncryptedKey"), "CipherValue").text or "")
    key = peers.keys.private["shop"].decrypt(wrapped, OAEP(MGF1(SHA256()), SHA256(), None))
    value = b"v" * 12 + AESGCM(key).encrypt(b"v" * 12, content, None)
    one(one(root, "EncryptedData"), "CipherValue").text = base64.b64encode(value).decode()
    assert peers.reason(root) == WRONG


def test_service_without_a_key_decrypts_nothing(peers: Peers) -> None:
    peers.service = party(trusted=peers.keys.public("authority"))
    assert peers.reason(peers.sent()) == WRONG


def test_certificate_without_an_rsa_key_is_no_receiver(keys: Keys) -> None:  # noqa: F811
    keys.make("curve", "authority", key=elliptic())
    with pytest.raises(ConfigurationError, match="no RSA key"):
        party(certificate=keys.file("till"), encrypt_for=keys.public("curve"))


def test_reply_to_a_signer_without_an_rsa_key_is_sent_plain(peers: Peers) -> None:
    peers.keys.make("curve 2", "authority", key=elliptic())
    client = Peers.of(peers.keys, "curve 2", encrypt_for=peers.keys.public("shop"))
    _, verified = peers.taken(client.sent())
    reply = peers.service.secure_reply(http(PLAIN), replace(verified), NOW)
    assert b"10 euros" in reply.body
