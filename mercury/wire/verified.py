"""What WS-Security proves of a message, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A message whose WS-Security header was checked."""

    #: The identity of the sender: the user, or the subject and the issuer of the certificate.
    identity: str
    #: The tokens that were checked: the user, and the certificate by its SHA-256.
    tokens: frozenset[str]
    #: The certificate of the signature, in DER; ``None`` = the message is not signed.
    certificate: bytes | None = None
    #: The one of them that CreateSequence refers to: the sequence takes messages with this token only (SEC-02).
    bound_to: str | None = None
    #: The Body was encrypted.
    encrypted: bool = False
    #: Only copies of the message have this digest. It is recorded until ``expires``, seconds since the epoch.
    digest: str
    expires: float
