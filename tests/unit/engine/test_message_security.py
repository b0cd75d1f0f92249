"""What this process logs and answers when a message cannot be secured, or is refused."""

from __future__ import annotations

import pytest
from lxml import etree

from mercury.engine.message_security import SecurityParties
from mercury.errors import TransportError
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.wire.envelope import HttpMessage, Undecodable
from mercury.wire.scan import DEFAULT_LIMITS
from tests.keys import Keys, keys  # noqa: F401  a fixture
from tests.unit.security.forge import NOW, PLAIN, Peers, http, one

URL = "http://server/services/shop"


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
