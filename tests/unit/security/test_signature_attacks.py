"""Attacks on signed messages: each is refused, and what is taken of a message is what was signed (SEC-03, SEC-07)."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from lxml import etree

from mercury.security.message import Rejected, SoapTree
from mercury.security.names import DS, SAML11, SAML20, WSSE, WSSE11, WSU, WSU_ID
from mercury.security.party import MOST_BYTES
from mercury.security.signature import verify
from mercury.wire import ns
from mercury.wire.decode import decode
from mercury.wire.envelope import Payload
from mercury.wire.scan import DEFAULT_LIMITS, MessageRefused
from tests.keys import SHA1, Encoding, Keys, PKCS1v15, elliptic, keys  # noqa: F401  a fixture
from tests.unit.security.forge import (
    COMMENTED,
    EXCLUSIVE,
    NOW,
    PLAIN,
    TYPE,
    Peers,
    body,
    canonical,
    commented,
    evil_body,
    header,
    http,
    one,
    party,
    reference_to,
    security,
    under_certificate,
)


@pytest.fixture
def peers(keys: Keys) -> Peers:  # noqa: F811
    return Peers.of(keys)


def test_honest_message_is_taken_with_all_that_it_says(peers: Peers) -> None:
    envelope, verified = peers.taken(peers.sent())
    assert isinstance(envelope.body, Payload)
    assert etree.fromstring(envelope.body.xml).text == "10 euros"
    assert etree.fromstring(envelope.body.xml).nsmap["k"] == "urn:kinds"  # used in the value of an attribute only
    assert (envelope.action, envelope.message_id) == ("urn:shop/Take", "urn:uuid:1")
    assert envelope.sequence is not None
    assert envelope.headers == ()
    assert verified.identity == "x509:CN=till;issuer=<CN=authority>"


# --- what is signed is moved, altered or left out ------------------------------------------------------------------


def altered_body(root: etree._Element) -> None:
    body(root)[0].text = "1000000 euros"


def altered_sequence(root: etree._Element) -> None:
    one(root, "MessageNumber").text = "2"


def body_moved_into_a_header_block(root: etree._Element) -> None:
    wrapper = etree.SubElement(header(root), "{urn:x}Wrapper")
    moved = body(root)
    root.replace(moved, evil_body())
    wrapper.append(moved)


def body_moved_into_the_security_header(root: etree._Element) -> None:
    moved = body(root)
    root.replace(moved, evil_body())
    security(root).append(moved)


def body_wrapped_with_the_same_id(root: etree._Element) -> None:
    wrapper = etree.Element("{urn:x}Wrapper")
    moved = body(root)
    root.replace(moved, evil_body(moved.get(WSU_ID)))
    wrapper.append(moved)
    header(root).insert(0, wrapper)


def body_with_the_id_in_another_attribute(root: etree._Element) -> None:
    wrapper = etree.Element("{urn:x}Wrapper")
    moved = body(root)
    fake = evil_body()
    fake.set("ID", moved.get(WSU_ID) or "")
    root.replace(moved, fake)
    wrapper.append(moved)
    header(root).append(wrapper)


def sequence_moved(root: etree._Element) -> None:
    signed = one(root, "Sequence")
    fake = copy.deepcopy(signed)
    del fake.attrib[WSU_ID]
    fake[1].text = "7"
    header(root).replace(signed, fake)
    etree.SubElement(header(root), "{urn:x}Wrapper").append(signed)


def timestamp_moved(root: etree._Element) -> None:
    signed = one(root, "Timestamp")
    fake = copy.deepcopy(signed)
    del fake.attrib[WSU_ID]
    security(root).replace(signed, fake)
    etree.SubElement(header(root), "{urn:x}Wrapper").append(signed)


def unsigned_reply_to(root: etree._Element) -> None:
    added = etree.SubElement(header(root), f"{{{ns.WSA10}}}ReplyTo")
    etree.SubElement(added, f"{{{ns.WSA10}}}Address").text = "http://attacker/"


def unsigned_acknowledgement(root: etree._Element) -> None:
    added = etree.SubElement(header(root), f"{{{ns.RM11}}}SequenceAcknowledgement")
    etree.SubElement(added, f"{{{ns.RM11}}}Identifier").text = "urn:other"


def unsigned_block_that_must_be_understood(root: etree._Element) -> None:
    etree.SubElement(header(root), "{urn:x}Pay").set(f"{{{ns.SOAP12}}}mustUnderstand", "1")


def no_action(root: etree._Element) -> None:
    header(root).remove(one(root, "Action"))


def no_security(root: etree._Element) -> None:
    header(root).remove(security(root))


def two_security_headers(root: etree._Element) -> None:
    header(root).insert(0, copy.deepcopy(security(root)))


def no_signature(root: etree._Element) -> None:
    security(root).remove(one(root, "Signature"))


def two_signatures(root: etree._Element) -> None:
    security(root).append(copy.deepcopy(one(root, "Signature")))


def signature_in_another_place(root: etree._Element) -> None:
    etree.SubElement(header(root), "{urn:x}Wrapper").append(one(root, "Signature"))


WRAPPINGS = {
    altered_body: "signature is wrong: InvalidDigest",
    altered_sequence: "signature is wrong: InvalidDigest",
    body_moved_into_a_header_block: "not at a place where it has a meaning",
    body_moved_into_the_security_header: "signature is wrong: InvalidDigest",
    body_wrapped_with_the_same_id: "2 elements have the identifier",
    body_with_the_id_in_another_attribute: "2 elements have the identifier",
    sequence_moved: "not at a place where it has a meaning",
    timestamp_moved: "the Timestamp or the UsernameToken is not signed",
    unsigned_reply_to: "ReplyTo is not signed",
    unsigned_acknowledgement: "SequenceAcknowledgement is not signed",
    unsigned_block_that_must_be_understood: "Pay is not signed",
    no_action: "0 elements have the identifier",
    no_security: "no Security header",
    two_security_headers: "more than one Security header",
    no_signature: "0 signatures",
    two_signatures: "2 signatures",
    signature_in_another_place: "0 signatures",
}


@pytest.mark.parametrize("attack", WRAPPINGS, ids=lambda attack: attack.__name__)
def test_moved_altered_and_unsigned_parts_are_refused(peers: Peers, attack: Callable[[etree._Element], None]) -> None:
    root = peers.sent()
    peers.taken(root)
    attack(root)
    assert WRAPPINGS[attack] in peers.reason(root)


def test_unsigned_block_of_an_application_is_left_out_and_a_comment_too(peers: Peers) -> None:
    root = peers.sent()
    etree.SubElement(header(root), "{urn:x}Note").text = "not signed"
    body(root)[0].insert(0, etree.Comment("not signed"))
    envelope, _ = peers.taken(root)
    assert envelope.headers == ()
    assert isinstance(envelope.body, Payload)
    assert b"not signed" not in envelope.body.xml


def comment_in(root: etree._Element, place: str) -> None:
    """What `commented` writes, in a message that was signed before."""
    comment, head, content = etree.Comment("c"), header(root), body(root)
    match place:
        case "before the Header":
            head.addprevious(comment)
        case "after the Header":
            head.addnext(comment)
        case "after the Body":
            content.addnext(comment)
        case "in the Header":
            head.append(comment)
        case "before the content":
            content.insert(0, comment)
        case "after the content":
            content.append(comment)


@pytest.mark.parametrize("place", COMMENTED)
def test_comment_that_plain_services_accept_is_none_of_what_is_signed(peers: Peers, place: str) -> None:
    plain = decode(commented(place).encode(), TYPE)
    root = peers.sent(commented(place).replace("<!-- c --></S:Header>", "</S:Header>"))
    comment_in(root, place)
    envelope, _ = peers.taken(root)
    assert (envelope.action, envelope.sequence, envelope.headers) == (plain.action, plain.sequence, ())
    assert isinstance(envelope.body, Payload)
    assert etree.fromstring(envelope.body.xml).text == "10 euros"


@pytest.mark.parametrize("place", COMMENTED)
def test_comment_beside_what_is_signed_hides_no_second_body(peers: Peers, place: str) -> None:
    for added in (
        lambda root: root.append(evil_body()),
        lambda root: body(root).addprevious(evil_body()),
        lambda root: root.append(etree.Element("{urn:x}Other")),
        lambda root: header(root).addprevious(etree.Element("{urn:x}Other")),
        lambda root: header(root).addnext(etree.Element(header(root).tag)),
    ):
        root = peers.sent()
        comment_in(root, place)
        added(root)
        with pytest.raises(MessageRefused, match="at most one Header, then one Body, and nothing else"):
            peers.taken(root)
    root = peers.sent()
    comment_in(root, place)
    body(root).append(evil_body()[0])
    assert "InvalidDigest" in peers.reason(root)


def test_signed_block_of_an_application_is_taken(peers: Peers) -> None:
    text = PLAIN.replace("</S:Header>", '<x:Note xmlns:x="urn:x">signed</x:Note></S:Header>')
    envelope, _ = peers.taken(peers.sent(text))
    assert [etree.fromstring(block).text for block in envelope.headers] == ["signed"]


def test_blocks_with_one_identifier_are_signed_with_identifiers_of_their_own(peers: Peers) -> None:
    """A response repeats reference parameters as header blocks: the client writes their attributes."""
    block = f'<x:Note xmlns:x="urn:x" xmlns:u="{WSU}" u:Id="same">signed</x:Note>'
    envelope, _ = peers.taken(peers.sent(PLAIN.replace("</S:Header>", f"{block}{block}</S:Header>")))
    assert [etree.fromstring(each).text for each in envelope.headers] == ["signed", "signed"]


MUST = 'S:mustUnderstand="1"'
#: Signed header blocks without which a message would mean something else.
BLOCKS = {
    **{name: f"<wsa:{name}/>" for name in ("From", "ReplyTo", "FaultTo", "RelatesTo")},
    **{name: f"<wsrm:{name} {MUST}/>" for name in ("SequenceAcknowledgement", "AckRequested", "UsesSequenceSTR")},
    **dict.fromkeys(("To", "Action", "MessageID", "Sequence"), ""),
    "MessagePending": f'<mc:MessagePending xmlns:mc="{ns.MC}" pending="true"/>',
    "Limit": f'<x:Limit xmlns:x="urn:x" {MUST}>10 euros</x:Limit>',
    "Note": '<x:Note xmlns:x="urn:x">signed</x:Note>',
    "EncryptedHeader": f'<e:EncryptedHeader xmlns:e="{WSSE11}" {MUST}/>',
}


def in_security(root: etree._Element, local: str) -> bytes:
    """The message with a header block in the Security header, with the prefixes that it was signed with."""
    block = one(root, local)
    name = f"{block.prefix}:{local}"
    begin, end = f"<{name}[ >]".encode(), b"</wsse:Security>"
    data = etree.tostring(root)
    found = re.search(begin + b".*?(?:(?<=/)>|</" + name.encode() + b">)", data, re.DOTALL)
    assert found is not None
    return data.replace(found[0], b"", 1).replace(end, found[0] + end)


@pytest.mark.parametrize("local", BLOCKS)
def test_signed_block_does_not_vanish_in_the_security_header(peers: Peers, local: str) -> None:
    root = peers.sent(PLAIN.replace("</S:Header>", f"{BLOCKS[local]}</S:Header>"))
    assert "not at a place where it has a meaning" in peers.reason(in_security(root, local))


WITHOUT_USE = [
    *(f"{{{WSSE11}}}SignatureConfirmation", f"{{{WSSE}}}UsernameToken", f"{{{DS}}}KeyInfo"),
    *(f"{{{SAML11}}}Assertion", f"{{{SAML20}}}Assertion"),
]


@pytest.mark.parametrize("tag", WITHOUT_USE)
def test_signed_part_of_the_security_header_without_use_is_taken(peers: Peers, tag: str) -> None:
    """WSS4J signs all that it writes there, also what this side has no use for."""
    root = peers.sent()
    reference = copy.deepcopy(reference_to(root, one(root, "Timestamp")))
    reference.set("URI", "#more")
    one(root, "SignedInfo").append(reference)
    etree.SubElement(security(root), tag).set(WSU_ID, "more")
    envelope, verified = peers.taken(peers.resigned(root))
    assert (envelope.message_id, verified.identity) == ("urn:uuid:1", "x509:CN=till;issuer=<CN=authority>")


# --- what a trusted signer must not do either ----------------------------------------------------------------------


def dropped(local: str) -> Callable[[etree._Element], None]:
    """The reference of an element is left out of the signature."""

    def attack(root: etree._Element) -> None:
        found = body(root) if local == "Body" else one(root, local)
        one(root, "SignedInfo").remove(reference_to(root, found))

    return attack


def transform(algorithm: str, content: str = "") -> Callable[[etree._Element], None]:
    """The first reference gets another transform before its canonical XML."""

    def attack(root: etree._Element) -> None:
        first = one(reference_to(root, body(root)), "Transforms")
        added = etree.Element(f"{{{DS}}}Transform", Algorithm=algorithm)
        if content:
            added.append(etree.fromstring(content))
        first.insert(0, added)

    return attack


def instead(algorithm: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        one(reference_to(root, body(root)), "Transform").set("Algorithm", algorithm)

    return attack


def refers(uri: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        reference_to(root, body(root)).set("URI", uri)

    return attack


def algorithm(local: str, uri: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        found = one(root, local) if local != "DigestMethod" else one(reference_to(root, body(root)), local)
        found.set("Algorithm", uri)

    return attack


def many_references(root: etree._Element) -> None:
    info = one(root, "SignedInfo")
    for number in range(40):
        block = etree.SubElement(header(root), "{urn:x}Note", {WSU_ID: f"note-{number}"})
        added = copy.deepcopy(reference_to(root, body(root)))
        added.set("URI", f"#{block.get(WSU_ID)}")
        info.append(added)


def one_element_twice(root: etree._Element) -> None:
    one(root, "SignedInfo").append(copy.deepcopy(reference_to(root, body(root))))


def one_element_in_two_forms(root: etree._Element) -> None:
    one_element_twice(root)
    last = one(root, "SignedInfo")[-1]
    one(last, "InclusiveNamespaces").set("PrefixList", "S")


def prefixes_of_info(*prefixes: str) -> Callable[[etree._Element], None]:
    def attack(root: etree._Element) -> None:
        method = one(root, "CanonicalizationMethod")
        etree.SubElement(method, f"{{{EXCLUSIVE}}}InclusiveNamespaces", PrefixList=" ".join(prefixes))

    return attack


def odd_child_of_info(root: etree._Element) -> None:
    etree.SubElement(one(root, "CanonicalizationMethod"), "{urn:odd}Odd")


def many_prefixes(root: etree._Element) -> None:
    one(reference_to(root, body(root)), "InclusiveNamespaces").set("PrefixList", " ".join(f"p{n}" for n in range(100)))


def nested_part(root: etree._Element) -> None:
    body(root)[0].set(WSU_ID, "inside")
    added = copy.deepcopy(reference_to(root, body(root)))
    added.set("URI", "#inside")
    one(root, "SignedInfo").append(added)


def nested_token(root: etree._Element) -> None:
    token = etree.SubElement(etree.SubElement(header(root), "{urn:x}Wrapper"), f"{{{WSSE}}}UsernameToken")
    token.set(WSU_ID, "inside")
    added = copy.deepcopy(reference_to(root, body(root)))
    added.set("URI", "#inside")
    one(root, "SignedInfo").append(added)


XSLT = '<x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform" version="1.0"/>'
XPATH = f'<d:XPath xmlns:d="{DS}">//*[@evil]</d:XPath>'
BAD_METHOD = "the signature has an algorithm that is not accepted"
BAD_DIGEST = "a digest of the signature has an algorithm that is not accepted"
UNACCEPTABLE = {
    "body not signed": (dropped("Body"), "the Body is not signed"),
    "To not signed": (dropped("To"), "To is not signed"),
    "Action not signed": (dropped("Action"), "Action is not signed"),
    "MessageID not signed": (dropped("MessageID"), "MessageID is not signed"),
    "Sequence not signed": (dropped("Sequence"), "Sequence is not signed"),
    "Timestamp not signed": (dropped("Timestamp"), "the Timestamp or the UsernameToken is not signed"),
    "XSLT": (transform("http://www.w3.org/TR/1999/REC-xslt-19991116", XSLT), "must have one child"),
    "XPath": (transform("http://www.w3.org/TR/1999/REC-xpath-19991116", XPATH), "must have one child"),
    "XPath filter": (instead("http://www.w3.org/2002/06/xmldsig-filter2"), "a transform"),
    "base64": (instead(DS + "base64"), "a transform"),
    "enveloped": (instead(DS + "enveloped-signature"), "a transform"),
    "with comments": (instead(EXCLUSIVE + "WithComments"), "a transform"),
    "inclusive canonical XML": (instead("http://www.w3.org/TR/2001/REC-xml-c14n-20010315"), "a transform"),
    "the whole document": (refers(""), "leads outside the message"),
    "XPointer": (refers("#xpointer(/)"), "leads outside the message"),
    "a file": (refers("file:///etc/passwd"), "leads outside the message"),
    "a URL": (refers("http://127.0.0.1:1/x"), "leads outside the message"),
    "an attachment": (refers("cid:part"), "leads outside the message"),
    "an id that is not there": (refers("#missing"), "0 elements have the identifier"),
    "40 references": (many_references, "the limit is 32"),
    "an element in two forms": (one_element_in_two_forms, "mean one element in different forms"),
    "100 prefixes": (many_prefixes, "keeps too many prefixes"),
    "a part of the body": (nested_part, "not at a place where it has a meaning"),
    "a token outside the Security header": (nested_token, "not at a place where it has a meaning"),
    "HMAC": (algorithm("SignatureMethod", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"), BAD_METHOD),
    "HMAC with SHA-1": (algorithm("SignatureMethod", DS + "hmac-sha1"), BAD_METHOD),
    "RSA with SHA-1": (algorithm("SignatureMethod", DS + "rsa-sha1"), BAD_METHOD),
    "ECDSA with a key of RSA": (
        algorithm("SignatureMethod", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256"),
        "signature is wrong",
    ),
    "no algorithm": (algorithm("SignatureMethod", "none"), BAD_METHOD),
    "a digest by SHA-1": (algorithm("DigestMethod", DS + "sha1"), BAD_DIGEST),
    "100 prefixes of SignedInfo": (prefixes_of_info(*(f"p{n}" for n in range(100))), "keeps too many prefixes"),
    "a parameter of its canonical form": (odd_child_of_info, "must have one child"),
    "SignedInfo in inclusive canonical XML": (
        algorithm("CanonicalizationMethod", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"),
        "not over exclusive canonical XML",
    ),
}


@pytest.mark.parametrize("name", UNACCEPTABLE)
def test_signature_of_an_unacceptable_form_is_refused_although_its_key_is_trusted(peers: Peers, name: str) -> None:
    attack, reason = UNACCEPTABLE[name]
    root = peers.sent()
    peers.taken(peers.resigned(root))
    attack(root)
    assert reason in peers.reason(peers.resigned(root))


@pytest.mark.parametrize("form", [one_element_twice, prefixes_of_info("S", "wsse")])
def test_signature_in_a_form_of_metro_and_cxf_is_taken(peers: Peers, form: Callable[[etree._Element], None]) -> None:
    """Metro refers twice to what two policies sign, and both keep prefixes in SignedInfo."""
    root = peers.sent()
    plain = peers.taken(root)[0]
    form(root)
    assert "signature is wrong" in peers.reason(root)
    found, verified = peers.taken(peers.resigned(root))
    assert (found, verified.identity) == (plain, "x509:CN=till;issuer=<CN=authority>")


def test_signer_with_the_algorithm_of_sha_1_is_refused(peers: Peers, keys: Keys) -> None:  # noqa: F811
    """The signature is right, and only its algorithm is not accepted."""
    root = peers.sent()
    one(root, "SignatureMethod").set("Algorithm", DS + "rsa-sha1")
    value = keys.private["till"].sign(canonical(one(root, "SignedInfo"), []), PKCS1v15(), SHA1())
    one(root, "SignatureValue").text = base64.b64encode(value).decode()
    assert peers.reason(root) == BAD_METHOD


@pytest.mark.parametrize("local", ["SignatureMethod", "DigestMethod"])
def test_reason_does_not_repeat_the_algorithm_that_a_peer_has_written(peers: Peers, local: str) -> None:
    root = peers.sent()
    algorithm(local, "x" * 900_000)(root)
    assert peers.reason(root) == (BAD_METHOD if local == "SignatureMethod" else BAD_DIGEST)


class CountedTree(SoapTree):
    """Counts the passes over all elements."""

    passes = 0

    def elements(self) -> Iterator[etree._Element]:
        self.passes += 1
        return super().elements()


def test_all_referenced_elements_are_found_in_one_pass_over_the_message(peers: Peers) -> None:
    """The elements are found before the value of the signature is checked, so any client can cause the passes."""
    tree = CountedTree(peers.client.secure(http(PLAIN), NOW).body, DEFAULT_LIMITS)
    found = tree.security()
    assert found is not None
    signed = verify(tree, found, [], lambda _: "x509:CN=till", NOW)
    assert len(signed.parts) > 5
    assert tree.passes == 2  # the first finds the token


# --- keys ----------------------------------------------------------------------------------------------------------


def test_certificate_with_the_right_name_of_another_key_is_refused(peers: Peers, keys: Keys) -> None:  # noqa: F811
    keys.make("imitation", subject="till")
    peers.client = party(certificate=keys.file("imitation"))
    assert "neither trusted nor issued" in peers.reason(peers.sent())


def test_certificate_is_checked_before_anything_is_computed(peers: Peers) -> None:
    root = Peers.of(peers.keys, "stranger").sent()
    many_references(root)
    altered_body(root)
    assert "neither trusted nor issued" in peers.reason(root)


def test_certificate_of_an_authority_with_the_right_name_and_another_key_is_refused(
    peers: Peers,
    keys: Keys,  # noqa: F811
) -> None:
    keys.make("fake authority", subject="authority", authority=True)
    keys.make("imitation 2", "fake authority", subject="till")
    peers.client = party(certificate=keys.file("imitation 2"))
    assert "neither trusted nor issued" in peers.reason(peers.sent())


def test_certificate_issued_by_a_client_is_refused(peers: Peers, keys: Keys) -> None:  # noqa: F811
    keys.make("child", "till", subject="boss")
    peers.client = party(certificate=keys.file("child"))
    assert "neither trusted nor issued" in peers.reason(peers.sent())
    pinned = party(certificate=keys.file("shop"), trusted=keys.public("till"))
    assert "neither trusted nor issued" in Peers(keys, peers.client, pinned).reason(peers.sent())


def test_token_that_is_replaced_by_another_trusted_one_is_refused(peers: Peers) -> None:
    root = peers.sent()
    other = Peers.of(peers.keys, "shop").sent()
    one(root, "BinarySecurityToken").text = one(other, "BinarySecurityToken").text
    assert "signature is wrong" in peers.reason(root)


def key_value(root: etree._Element) -> None:
    info = one(root, "KeyInfo")
    info[:] = [etree.fromstring(f'<d:KeyValue xmlns:d="{DS}"><d:RSAKeyValue/></d:KeyValue>')]


def key_value_beside_the_token(root: etree._Element) -> None:
    one(root, "KeyInfo").append(etree.fromstring(f'<d:KeyValue xmlns:d="{DS}"><d:RSAKeyValue/></d:KeyValue>'))


def token_outside(root: etree._Element) -> None:
    one(one(root, "KeyInfo"), "Reference").set("URI", "http://127.0.0.1:1/certificate")


def token_in_another_place(root: etree._Element) -> None:
    etree.SubElement(header(root), "{urn:x}Wrapper").append(one(root, "BinarySecurityToken"))


def token_of_another_type(root: etree._Element) -> None:
    one(root, "BinarySecurityToken").set("ValueType", "http://example.org/kerberos")


def token_that_is_no_certificate(root: etree._Element) -> None:
    one(root, "BinarySecurityToken").text = "AAAA"


def token_that_is_not_base64(root: etree._Element) -> None:
    one(root, "BinarySecurityToken").text = "!"


def reference_to_the_body(root: etree._Element) -> None:
    one(one(root, "KeyInfo"), "Reference").set("URI", f"#{body(root).get(WSU_ID)}")


def two_references(root: etree._Element) -> None:
    reference = one(root, "SecurityTokenReference")
    reference.append(copy.deepcopy(reference[0]))


def embedded_token(root: etree._Element) -> None:
    reference = one(root, "SecurityTokenReference")
    token = one(root, "BinarySecurityToken")
    embedded = etree.Element(f"{{{WSSE}}}Embedded")
    embedded.append(token)
    reference[:] = [embedded]


KEY_CONFUSIONS = {
    key_value: "must have one child",
    key_value_beside_the_token: "must have one child",
    token_outside: "leads outside the message",
    token_in_another_place: "does not lead to one in the Security header",
    token_of_another_type: "not an X.509 certificate",
    token_that_is_no_certificate: "certificate cannot be read",
    token_that_is_not_base64: "not base64",
    reference_to_the_body: "does not lead to one in the Security header",
    two_references: "must have one child",
    embedded_token: "names no certificate that is known here",
}


@pytest.mark.parametrize("attack", KEY_CONFUSIONS, ids=lambda attack: attack.__name__)
def test_key_of_an_unacceptable_form_is_refused(peers: Peers, attack: Callable[[etree._Element], None]) -> None:
    root = peers.sent()
    attack(root)
    assert KEY_CONFUSIONS[attack] in peers.reason(root)


# --- time ----------------------------------------------------------------------------------------------------------


def test_message_is_taken_until_it_is_too_old(peers: Peers) -> None:
    root = peers.sent()
    peers.taken(root, NOW + 359)
    assert "expired" in peers.reason(root, NOW + 361) or "too old" in peers.reason(root, NOW + 361)
    peers.taken(root, NOW - 59)
    assert "in the future" in peers.reason(root, NOW - 61)


def no_expires(root: etree._Element) -> None:
    one(root, "Timestamp").remove(one(root, "Expires"))


def test_message_without_expires_is_not_taken_for_ever(peers: Peers) -> None:
    root = peers.sent()
    no_expires(root)
    peers.resigned(root)
    peers.taken(root, NOW + 359)
    assert "too old" in peers.reason(root, NOW + 361)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z", "9999-12-31T23:59:59-23:59"]
)
def test_time_that_is_none_is_refused(peers: Peers, text: str) -> None:
    root = peers.sent()
    one(root, "Created").text = text
    assert (
        "time" in peers.reason(peers.resigned(root)) or "date" in peers.reason(root) or "future" in peers.reason(root)
    )


def test_second_timestamp_is_refused(peers: Peers) -> None:
    root = peers.sent()
    again = copy.deepcopy(one(root, "Timestamp"))
    del again.attrib[WSU_ID]
    security(root).insert(0, again)
    assert "2 Timestamps" in peers.reason(root)


def test_copies_have_the_digest_of_their_message_and_other_messages_have_another(peers: Peers) -> None:
    root = peers.sent()
    digest = peers.taken(root)[1].digest
    one(root, "Signature").insert(0, etree.Comment("another copy"))
    info = one(root, "SignedInfo")
    info.insert(0, etree.Comment("another copy"))
    header(root).append(etree.Element("{urn:x}Note"))
    assert peers.taken(root)[1].digest == digest
    assert peers.taken(peers.sent())[1].digest != digest  # the same message at the same time, signed again


@pytest.mark.parametrize("authority", ["RSA", "elliptic curve"])
def test_copy_under_a_certificate_that_is_written_in_another_way_has_the_digest_of_its_message(
    keys: Keys,  # noqa: F811
    authority: str,
) -> None:
    """Neither KeyInfo nor the bytes of the authority's signature are signed."""
    keys.make(authority, authority=True, key=None if authority == "RSA" else elliptic())
    other = keys.make_in_two_ways("rewritten", authority)
    assert other != keys.certificates["rewritten"].public_bytes(Encoding.DER)
    peers = Peers(keys, party(certificate=keys.file("rewritten")), party(trusted=keys.public(authority)))
    root = peers.sent()
    _, first = peers.taken(root)
    _, again = peers.taken(under_certificate(root, other))
    assert (again.digest, again.identity) == (first.digest, first.identity)
    assert again.tokens.isdisjoint(first.tokens)  # it opens no sequence that is bound to the certificate


def test_certificate_that_is_trusted_itself_is_trusted_as_it_is_written_only(keys: Keys) -> None:  # noqa: F811
    other = keys.make_in_two_ways("rewritten", "authority")
    peers = Peers(keys, party(certificate=keys.file("rewritten")), party(trusted=keys.public("rewritten")))
    root = peers.sent()
    peers.taken(root)
    assert "neither trusted nor issued" in peers.reason(under_certificate(root, other))


def test_time_of_the_record_outlives_the_message(peers: Peers) -> None:
    assert peers.taken(peers.sent())[1].expires >= NOW + 360


def test_message_larger_than_the_limit_is_refused_before_it_is_read(peers: Peers) -> None:
    limits = replace(DEFAULT_LIMITS, max_bytes=2 * MOST_BYTES)
    text = PLAIN.replace("10 euros", "x" * MOST_BYTES)
    with pytest.raises(Rejected, match="larger than 8388608 bytes"):
        peers.service.check(http(text), limits, NOW)
