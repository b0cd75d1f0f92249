"""HTTP Basic and Bearer for the peers of a server: a ready-made ``authenticate``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

from mercury.errors import ConfigurationError, NotAuthenticated
from mercury.service.identity import HttpRequest


class Accounts:
    """The senders that a server knows, for ``Mercury(authenticate=Accounts(...))``.

    The identity of a sender is its name: the sequences that it creates are its own, whether it shows its password or
    its token. Any other request is refused with 401. A comparison takes the same time for right and wrong secrets, and
    for known and unknown names. Passwords and tokens are sent unencrypted, so the server should serve https.

    :param passwords: the passwords of HTTP Basic (RFC 7617), by the names of the senders.
    :param tokens: the Bearer tokens (RFC 6750), by the names of the senders.
    :param realm: shown to peers in the header WWW-Authenticate.
    :raises ConfigurationError: no sender is given, a name or secret is empty, two senders have the same token, or a
        name or the realm has characters that HTTP does not allow. The text has no secret.
    """

    def __init__(
        self,
        *,
        passwords: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | None = None,
        realm: str = "mercury",
    ) -> None:
        passwords, tokens = passwords or {}, tokens or {}
        if not passwords and not tokens:
            raise ConfigurationError("accounts: neither passwords nor tokens are given, so no peer could send")
        if any(":" in name for name in passwords):
            raise ConfigurationError("accounts: a name in HTTP Basic has no colon")
        for name, secret in (*passwords.items(), *tokens.items()):
            if not name.strip() or not secret.strip():
                raise ConfigurationError("accounts: a name or its secret is empty")
        if len(set(tokens.values())) < len(tokens):
            raise ConfigurationError("accounts: two senders have the same token")
        if not realm.isascii() or not realm.isprintable() or set(realm) & set('"\\'):
            raise ConfigurationError("accounts: the realm has characters that cannot be sent in HTTP")
        # Digests have one length, so that a comparison does not show that of the secret.
        self._passwords = {
            name: (_digest(name.encode()), _digest(password.encode())) for name, password in passwords.items()
        }
        self._tokens = {name: _digest(token.encode()) for name, token in tokens.items()}
        challenges = [f'Basic realm="{realm}", charset="UTF-8"'] if passwords else []
        challenges += [f'Bearer realm="{realm}"'] if tokens else []
        self._challenge = ", ".join(challenges)

    def __call__(self, request: HttpRequest) -> str:
        """The name of a request's sender.

        :raises NotAuthenticated: it shows no known password or token.
        """
        scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
        name = None
        if scheme.lower() == "basic":
            name = self._by_password(given.strip())
        elif scheme.lower() == "bearer":
            name = self._by_token(given.strip())
        if name is None:
            raise NotAuthenticated("A known name and password, or token, is needed.", challenge=self._challenge)
        return name

    def _by_password(self, given: str) -> str | None:
        try:
            decoded = base64.b64decode(given.encode(), validate=True)
        except (binascii.Error, UnicodeError):
            return None
        shown_name, found, password = _text(decoded).partition(":")
        name_digest, digest, known = _digest(shown_name.encode()), _digest(password.encode()), None
        for name, (expected_name, expected) in self._passwords.items():
            same_name, same = hmac.compare_digest(expected_name, name_digest), hmac.compare_digest(expected, digest)
            known = name if same_name & same else known
        return known if found else None

    def _by_token(self, given: str) -> str | None:
        digest, known = _digest(given.encode()), None
        for name, expected in self._tokens.items():
            known = name if hmac.compare_digest(expected, digest) else known
        return known


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _text(credentials: bytes) -> str:
    """UTF-8 as the challenge asks for, or else ISO 8859-1, as older clients write it."""
    try:
        return credentials.decode()
    except UnicodeDecodeError:
        return credentials.decode("latin-1")
