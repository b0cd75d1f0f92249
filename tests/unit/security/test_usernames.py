"""UsernameToken: a message is taken only with the right password, and only while its nonce is young."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable

import pytest
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.message import Rejected
from mercury.security.names import PASSWORD_TEXT
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.security.username import password_digest
from mercury.wire.decode import decode
from mercury.wire.scan import DEFAULT_LIMITS
from tests.unit.security.forge import (
    COMMENTED,
    CREATE,
    NOW,
    PLAIN,
    body,
    commented,
    header,
    http,
    one,
    party,
    security,
)

USERS = {"till": "secret", "jörg": "pässword"}


def client(user: str = "till", password: str = "secret", **more: object) -> Party:
    return party(user=user, password=password, **more)


def sent(text: str = PLAIN, **options: object) -> etree._Element:
    return etree.fromstring(client(**options).secure(http(text), NOW).body)  # type: ignore[arg-type]


def taken(root: etree._Element, now: float = NOW, **options: object) -> str:
    """The identity of a message that is taken, which has no Security header any more."""
    opened, verified = party(users=USERS, **options).check(http(etree.tostring(root)), DEFAULT_LIMITS, now)
    assert decode(opened.body, opened.content_type).headers == ()
    return verified.identity


def reason(root: etree._Element, now: float = NOW, **options: object) -> str:
    with pytest.raises(Rejected) as refused:
        taken(root, now, **options)
    return str(refused.value)


def test_digest_is_that_of_the_profile() -> None:
    # Section 3.1: base64(sha1(nonce + created + password)).
    nonce = base64.b64decode("LKqI6G/AikKCQrN0zqZFlg==")
    assert password_digest(nonce, "2010-09-16T07:50:45Z", "userpassword") == "tuOSpGlFlIXsozq4HFNeeGeFLEI="


@pytest.mark.parametrize("name", USERS)
def test_user_with_the_right_password_is_known(name: str) -> None:
    assert taken(sent(user=name, password=USERS[name])) == f"user:{name}"


@pytest.mark.parametrize(
    ("name", "password"), [("till", "guessed"), ("till", "Secret"), ("nobody", "secret"), ("nobody", "unknown")]
)
def test_wrong_user_or_password_is_refused_for_one_reason(name: str, password: str) -> None:
    assert reason(sent(user=name, password=password)) == "the user is not known, or the password is wrong"
    plain = sent(user=name, password=password, plain_password=True)
    assert reason(plain, plain_password=True) == "the user is not known, or the password is wrong"


@pytest.mark.parametrize("place", COMMENTED)
def test_message_of_a_user_may_have_comments(place: str) -> None:
    assert taken(sent(commented(place).replace("<!-- c --></S:Header>", "</S:Header>"))) == "user:till"
    root = sent()
    text = etree.tostring(root, encoding="unicode").replace("<!-- c -->", "")
    assert taken(etree.fromstring(commented(place, text))) == "user:till"


def test_create_sequence_behind_a_comment_is_bound_to_its_user() -> None:
    root = sent(CREATE, bind_sequences=True)
    body(root).insert(0, etree.Comment("c"))
    body(root)[1].insert(0, etree.Comment("c"))
    _, verified = party(users=USERS).check(http(etree.tostring(root)), DEFAULT_LIMITS, NOW)
    assert verified.bound_to == "user:till"


def test_password_as_text_is_taken_only_where_the_settings_say_so() -> None:
    assert "sent as text" in reason(sent(plain_password=True))
    assert taken(sent(plain_password=True), plain_password=True) == "user:till"
    assert taken(sent(), plain_password=True) == "user:till"


def test_token_is_taken_while_it_is_young() -> None:
    root = sent()
    assert taken(root, NOW + 359) == "user:till"
    assert "too old" in reason(root, NOW + 361)
    assert taken(root, NOW - 59) == "user:till"
    assert "in the future" in reason(root, NOW - 61)


def without(local: str) -> Callable[[etree._Element], None]:
    def change(root: etree._Element) -> None:
        token = one(root, "UsernameToken")
        token.remove(next(child for child in token if etree.QName(child).localname == local))

    return change


def twice(local: str) -> Callable[[etree._Element], None]:
    def change(root: etree._Element) -> None:
        token = one(root, "UsernameToken")
        token.append(copy.deepcopy(next(child for child in token if etree.QName(child).localname == local)))

    return change


def text(local: str, value: str) -> Callable[[etree._Element], None]:
    def change(root: etree._Element) -> None:
        token = one(root, "UsernameToken")
        next(child for child in token if etree.QName(child).localname == local).text = value

    return change


def another_type(root: etree._Element) -> None:
    one(root, "Password").set("Type", "http://example.org/plain")


def two_tokens(root: etree._Element) -> None:
    security(root).append(copy.deepcopy(one(root, "UsernameToken")))


def no_token(root: etree._Element) -> None:
    security(root).remove(one(root, "UsernameToken"))


def no_security(root: etree._Element) -> None:
    header(root).remove(security(root))


WRONG = {
    "no nonce": (without("Nonce"), "one Username, Password, Nonce and Created"),
    "no created": (without("Created"), "one Username, Password, Nonce and Created"),
    "no password": (without("Password"), "one Username, Password, Nonce and Created"),
    "no user": (without("Username"), "one Username, Password, Nonce and Created"),
    "two nonces": (twice("Nonce"), "one Username, Password, Nonce and Created"),
    "two users": (twice("Username"), "one Username, Password, Nonce and Created"),
    "two times": (twice("Created"), "one Username, Password, Nonce and Created"),
    "an empty nonce": (text("Nonce", ""), "empty or too long"),
    "a long nonce": (text("Nonce", "A" * 400), "empty or too long"),
    "a nonce that is not base64": (text("Nonce", "!!"), "not base64"),
    "another nonce": (text("Nonce", "AAAA"), "password is wrong"),
    "another user": (text("Username", "jörg"), "password is wrong"),
    "another time": (text("Created", "2023-11-14T22:13:21.000Z"), "password is wrong"),
    "no time": (text("Created", "now"), "not an xsd:dateTime"),
    "another type": (another_type, "neither a digest nor a text"),
    "two tokens": (two_tokens, "2 UsernameTokens"),
    "no token": (no_token, "0 UsernameTokens"),
    "no header": (no_security, "no Security header"),
    "letters that are not ASCII": (text("Password", "ü"), "password is wrong"),
}


@pytest.mark.parametrize("name", WRONG)
def test_token_that_is_incomplete_or_altered_is_refused(name: str) -> None:
    change, expected = WRONG[name]
    root = sent()
    change(root)
    assert expected in reason(root)


def test_password_without_a_type_is_a_text() -> None:
    root = sent(plain_password=True)
    assert one(root, "Password").attrib.pop("Type") == PASSWORD_TEXT
    assert "sent as text" in reason(root)


def test_expired_timestamp_beside_the_token_is_refused() -> None:
    root = sent()
    one(root, "Expires").text = "2023-11-14T22:00:00Z"
    assert "expired" in reason(root)


def test_copies_have_the_digest_of_their_message() -> None:
    service, root = party(users=USERS), sent()
    digests = {service.check(http(etree.tostring(root)), DEFAULT_LIMITS, NOW)[1].digest for _ in range(2)}
    digests.add(service.check(http(etree.tostring(sent())), DEFAULT_LIMITS, NOW)[1].digest)
    assert len(digests) == 2


def test_header_for_another_node_does_not_count() -> None:
    root = sent()
    security(root).set("{http://www.w3.org/2003/05/soap-envelope}role", "urn:another")
    assert "no Security header" in reason(root)


def test_sequence_is_bound_to_the_user_where_create_sequence_refers_to_the_token() -> None:
    root = sent(CREATE, bind_sequences=True)
    _, verified = party(users=USERS).check(http(etree.tostring(root)), DEFAULT_LIMITS, NOW)
    assert verified.bound_to == "user:till"
    reference = one(root, "SecurityTokenReference")
    reference[0].set("URI", "#other")
    assert "0 elements" in reason(root)
    reference[0].set("URI", "http://elsewhere/")
    assert "not that of the sender's token" in reason(root)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": "till"}, "user: it needs password"),
        ({"password": "x"}, "user: it needs password"),
        ({"user": " ", "password": "x"}, "user: it is empty"),
        ({"users": {}}, "users: there is none"),
        ({"users": {"till": ""}}, "users: a name or its password is empty"),
        ({"key": "x"}, "key: it needs certificate"),
        ({"bind_sequences": True}, "bind_sequences: it needs certificate or user"),
        ({"encrypt_for": "x"}, "encrypt_for: it needs certificate"),
        ({"require_encryption": True}, "require_encryption: it needs certificate"),
        ({"max_age": 0}, "max_age"),
        ({"clock_skew": -1}, "clock_skew"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MessageSecurity(**options)  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    shown = repr(MessageSecurity(user="till", password="secret", users={"x": "hidden"}))
    assert "secret" not in shown
    assert "hidden" not in shown
