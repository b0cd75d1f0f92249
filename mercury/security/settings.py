"""The settings of WS-Security for one endpoint or one service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import above, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSecurity:
    """What the messages of this side show, and what those of the peer must show (WS-Security 1.1).

    With ``Peer(security=...)`` it applies to the messages to an endpoint and to its replies; with
    ``Service(security=...)`` to the messages that a service takes and to its replies. Files are PEM files, which are
    read when Mercury is made. Times are seconds.

    :raises ConfigurationError: settings do not fit together.
    """

    #: The UsernameToken that requests show. The password is sent as a digest unless ``plain_password`` is set.
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    #: The password itself is sent, and taken: the connection must be encrypted.
    plain_password: bool = False
    #: The passwords of the users whose UsernameToken a service takes: requests without one are refused.
    users: Mapping[str, str] | None = field(default=None, repr=False)
    #: The certificate of this side, and its private key if that is in another file: messages are signed with it.
    certificate: str | None = None
    key: str | None = None
    #: Certificates of peers, or of authorities that have issued them: messages of the peer must be signed by one.
    trusted: str | None = None
    #: CreateSequence has a SecurityTokenReference, which binds the sequence to the token of this side.
    bind_sequences: bool = False
    #: The certificate of the peer: the Body of messages to it is encrypted.
    encrypt_for: str | None = None
    #: Messages of the peer whose Body is not encrypted are refused.
    require_encryption: bool = False
    #: How old a message may be, and how far the clock of the peer may be ahead.
    max_age: float = 300.0
    clock_skew: float = 60.0

    def __post_init__(self) -> None:
        above(0, max_age=self.max_age)
        at_least(0, clock_skew=self.clock_skew)
        if (self.user is None) != (self.password is None):
            raise ConfigurationError("user: it needs password, and password needs user")
        if self.user is not None and not self.user.strip():
            raise ConfigurationError("user: it is empty")
        for name, password in (self.users or {}).items():
            if not name.strip() or not password:
                raise ConfigurationError("users: a name or its password is empty")
        if self.users is not None and not self.users:
            raise ConfigurationError("users: there is none, so no peer could send")
        if self.key is not None and self.certificate is None:
            raise ConfigurationError("key: it needs certificate, the certificate that it belongs to")
        if self.bind_sequences and self.certificate is None and self.user is None:
            raise ConfigurationError("bind_sequences: it needs certificate or user, the token that is referred to")
        if self.encrypt_for is not None and self.certificate is None:
            raise ConfigurationError("encrypt_for: it needs certificate, because what is encrypted must be signed too")
        if self.require_encryption and (self.certificate is None or self.trusted is None):
            raise ConfigurationError("require_encryption: it needs certificate, to decrypt with, and trusted")

    @property
    def checks(self) -> bool:
        """Whether messages of the peer must be signed, or show a user."""
        return self.users is not None or self.trusted is not None

    @property
    def uses_keys(self) -> bool:
        """Whether certificates are used."""
        return self.certificate is not None or self.trusted is not None
