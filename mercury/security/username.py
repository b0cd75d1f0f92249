"""UsernameToken (UsernameToken Profile 1.1): a user, and proof that the password is known."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

from lxml import etree

from mercury.security.message import Rejected
from mercury.security.names import BASE64, CREATED, PASSWORD_DIGEST, PASSWORD_TEXT, USERNAME_TOKEN, WSSE, WSU_ID
from mercury.security.settings import MessageSecurity
from mercury.security.timing import check_age, read_time, written_time
from mercury.wire.ns import clark
from mercury.wire.verified import Verified

_USERNAME, _PASSWORD, _NONCE = clark(WSSE, "Username"), clark(WSSE, "Password"), clark(WSSE, "Nonce")
#: Bytes of a nonce that is written, and the most that are read.
_NONCE_BYTES, _MOST_NONCE_BYTES = 16, 128


def password_digest(nonce: bytes, created: str, password: str) -> str:
    """Base64 of the SHA-1 that the profile prescribes (section 3.1)."""
    digest = hashlib.sha1(nonce + created.encode() + password.encode(), usedforsecurity=False)
    return base64.b64encode(digest.digest()).decode()


def write_username(
    settings: MessageSecurity, now: float, identifier: str, random: Callable[[int], bytes] = secrets.token_bytes
) -> etree._Element:
    """The token of the user in the settings.

    :param identifier: its wsu:Id.
    """
    assert settings.user is not None
    assert settings.password is not None
    nonce, created = random(_NONCE_BYTES), written_time(now)
    token = etree.Element(USERNAME_TOKEN, {WSU_ID: identifier})
    etree.SubElement(token, _USERNAME).text = settings.user
    plain = settings.plain_password
    password = etree.SubElement(token, _PASSWORD, Type=PASSWORD_TEXT if plain else PASSWORD_DIGEST)
    password.text = settings.password if plain else password_digest(nonce, created, settings.password)
    etree.SubElement(token, _NONCE, EncodingType=BASE64).text = base64.b64encode(nonce).decode()
    etree.SubElement(token, CREATED).text = created
    return token


def check_username(settings: MessageSecurity, security: etree._Element, now: float) -> tuple[Verified, etree._Element]:
    """Check the one UsernameToken of a Security header. Returns what it proves, and its element.

    :raises Rejected: it is missing, incomplete, too old, or its password is wrong.
    """
    tokens = security.findall(USERNAME_TOKEN)
    if len(tokens) != 1:
        raise Rejected(f"there are {len(tokens)} UsernameTokens instead of one")
    token = tokens[0]
    name, shown = _only(token, _USERNAME), _only(token, _PASSWORD)
    kind = _password_type(token)
    nonce, created = _nonce(token), _only(token, CREATED)
    expires = check_age(settings, read_time(created), now)
    known = (settings.users or {}).get(name)
    # A password is checked for an unknown user too: the answer takes as long as for a known one.
    expected = known if known is not None else "unknown"
    if kind == PASSWORD_TEXT:
        if not settings.plain_password:
            raise Rejected("the password is sent as text, which plain_password does not allow")
        right = hmac.compare_digest(expected.encode(), shown.encode())
    elif kind == PASSWORD_DIGEST:
        right = hmac.compare_digest(password_digest(nonce, created, expected).encode(), shown.encode())
    else:
        raise Rejected("the password is neither a digest nor a text")
    if not right or known is None:
        raise Rejected("the user is not known, or the password is wrong")
    parts = (name.encode(), nonce, created.encode())
    digest = hashlib.sha256(b"username" + b"".join(len(part).to_bytes(4, "big") + part for part in parts))
    who = f"user:{name}"
    return Verified(identity=who, tokens=frozenset({who}), digest=digest.hexdigest(), expires=expires), token


def _password_type(token: etree._Element) -> str:
    found = token.find(_PASSWORD)
    return found.get("Type", PASSWORD_TEXT) if found is not None else ""


def _nonce(token: etree._Element) -> bytes:
    try:
        nonce = base64.b64decode(_only(token, _NONCE), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected("the nonce is not base64") from error
    if not 0 < len(nonce) <= _MOST_NONCE_BYTES:
        raise Rejected("the nonce is empty or too long")
    return nonce


def _only(token: etree._Element, name: str) -> str:
    """The text of the one child with this name.

    :raises Rejected: it is missing, or there are several.
    """
    found = token.findall(name)
    if len(found) != 1 or len(found[0]):
        raise Rejected("the UsernameToken must have one Username, Password, Nonce and Created each")
    return (found[0].text or "").strip()
