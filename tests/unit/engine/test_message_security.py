"""What this process logs and answers when a message cannot be secured, or is refused."""

from __future__ import annotations

import pytest
from lxml import etree

from mercury.engine.message_security import SecurityParties
from mercury.errors import TransportError
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage, Payload, Undecodable
from mercury.wire.scan import DEFAULT_LIMITS
from tests.keys import Keys, keys  # noqa: F401  a fixture
from tests.unit.security.forge import NOW, PLAIN, Peers, http, one, party

URL, CLIENT = "http://server/services/shop", "http://client/responses"
CHARSETS = ("utf-8", "utf-16", "utf-16le", "us-ascii", "iso-8859-1", "windows-1252")
NAME = "M\u00fcller"
NAMED = PLAIN.replace("10 euros", NAME)


def same_id() -> str:
    """Makes ids that are not unique, so that signxml finds two elements for one reference, and raises IndexError."""
    return "same"


def parties(keys: Keys) -> SecurityParties:  # noqa: F811
    settings = MessageSecurity(certificate=keys.file("shop"), trusted=keys.public("authority"))
    made = SecurityParties(lambda: NOW, same_id, lambda _url: Party(settings, same_id))
    made.add_service("shop", settings)
    return made


def test_answer_that_cannot_be_signed_becomes_status_500_and_few_log_lines(
    keys: Keys,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = parties(keys)
    for _ in range(40):
        assert made.secured_reply(http(PLAIN), "shop", None) == HttpMessage(b"", "", None, 500)
    lines = [record.getMessage() for record in caplog.records]
    assert set(lines) == {"an answer of service 'shop' cannot be secured: 'it cannot be signed: IndexError'"}
    assert len(lines) == 30


def test_message_that_cannot_be_signed_is_one_that_cannot_be_sent(keys: Keys) -> None:  # noqa: F811
    with pytest.raises(TransportError, match="WS-Security cannot be applied: it cannot be signed: IndexError"):
        parties(keys).secured(http(PLAIN), URL)


def test_log_line_about_a_refused_message_is_short_and_has_no_line_break_of_the_peer(
    keys: Keys,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    peers = Peers.of(keys)
    root = peers.sent()
    # The schema of XML Signature does not permit this value, and signxml's error repeats it.
    one(root, "Signature").set("Id", "a\nERROR:forged " + "x" * 5000)
    with pytest.raises(Undecodable):
        parties(keys).opened(http(etree.tostring(root)), "shop", DEFAULT_LIMITS)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("a message is refused: ")
    assert "a\\nERROR:forged xxx" in line
    assert len(line) < 350


def in_charset(root: etree._Element, charset: str, *, named: bool = True) -> HttpMessage:
    """A message as a peer that does not write UTF-8 sends it.

    :param named: the Content-Type has the charset; else, only the message itself shows it.
    """
    data = etree.tostring(root, encoding=charset, xml_declaration=not named)
    kind = "application/soap+xml" + (f"; charset={charset}" if named else "") + '; action="urn:shop/Take"'
    return HttpMessage(data, kind)


def text_of(opened: HttpMessage) -> str | None:
    """The text in the Body, as it is delivered."""
    body = decode(opened.body, opened.content_type, opened.soap_action).body
    assert isinstance(body, Payload)
    return etree.fromstring(body.xml).text


@pytest.mark.parametrize("named", [True, False], ids=["Content-Type", "declared"])
@pytest.mark.parametrize("charset", CHARSETS)
def test_signed_message_in_another_charset_is_delivered_as_it_was_signed(
    keys: Keys,  # noqa: F811
    charset: str,
    named: bool,
) -> None:
    made, root = parties(keys), Peers.of(keys).sent(NAMED)
    sent = in_charset(root, charset, named=named)
    assert text_of(made.opened(sent, "shop", DEFAULT_LIMITS)[0]) == NAME
    assert text_of(made.opened_reply(sent, URL, DEFAULT_LIMITS)[0]) == NAME


@pytest.mark.parametrize("charset", CHARSETS)
def test_message_of_a_user_in_another_charset_is_delivered_as_it_was_sent(charset: str) -> None:
    made = SecurityParties(lambda: NOW, same_id)
    made.add_service("shop", MessageSecurity(users={"till": "secret"}))
    root = etree.fromstring(party(user="till", password="secret").secure(http(NAMED), NOW).body)
    assert text_of(made.opened(in_charset(root, charset), "shop", DEFAULT_LIMITS)[0]) == NAME


@pytest.mark.parametrize("charset", CHARSETS)
def test_signed_message_at_the_address_for_responses_is_checked_in_every_charset(
    keys: Keys,  # noqa: F811
    charset: str,
) -> None:
    responder = party(trusted=keys.public("authority"))
    made = SecurityParties(lambda: NOW, same_id, lambda _url: responder, [responder], responses=CLIENT)
    opened, verified = made.opened(in_charset(Peers.of(keys).sent(NAMED), charset), None, DEFAULT_LIMITS)
    assert text_of(opened) == NAME
    assert made.accepts(URL, verified, to=CLIENT)


def test_action_of_http_is_still_compared_with_that_of_a_message_in_another_charset(
    keys: Keys,  # noqa: F811
) -> None:
    sent = in_charset(Peers.of(keys).sent(NAMED), "iso-8859-1")
    for kind in ("application/soap+xml", "text/xml"):
        other = HttpMessage(sent.body, f'{kind}; charset=iso-8859-1; action="urn:shop/Give"')
        opened, _ = parties(keys).opened(other, "shop", DEFAULT_LIMITS)
        with pytest.raises(Undecodable, match="the action of HTTP is not that of wsa:Action"):
            text_of(opened)
