"""The certificates of one endpoint or service, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.certificates import Trust, der, fingerprint, read_certificates, read_own_key
from mercury.security.encryption import decrypt, encrypt, rsa_key
from mercury.security.message import Rejected, SoapTree, write_reference
from mercury.security.names import WSU_ID, X509V3
from mercury.security.settings import MessageSecurity
from mercury.security.signature import prefixes_in, sign, verify
from mercury.security.tokens import find_certificate, write_token
from mercury.wire.scan import Limits


@dataclass(frozen=True, slots=True)
class TrustedSignature:
    """A signature by a trusted certificate."""

    identity: str
    token: str
    #: In DER.
    certificate: bytes
    digest: str
    parts: list[tuple[etree._Element, bytes]]

    @property
    def elements(self) -> list[etree._Element | None]:
        """The signed elements at their places in the message."""
        return [element for element, _ in self.parts]

    def is_certificate(self, tree: SoapTree, security: etree._Element, reference: etree._Element) -> bool:
        """Whether a SecurityTokenReference leads to the certificate of the signature."""
        own = x509.load_der_x509_certificate(self.certificate)
        return der(find_certificate(tree, security, reference, [own])) == self.certificate


class Keys:
    """The certificates and keys that the settings name.

    :raises ConfigurationError: a file cannot be used.
    """

    def __init__(self, settings: MessageSecurity) -> None:
        self.own = read_own_key(settings.certificate, settings.key) if settings.certificate is not None else None
        self._trust = Trust(settings.trusted) if settings.trusted is not None else None
        self._receiver: x509.Certificate | None = None
        if settings.encrypt_for is not None:
            self._receiver = read_certificates("encrypt_for", settings.encrypt_for)[0]
            if rsa_key(self._receiver) is None:
                raise ConfigurationError(f"encrypt_for: the certificate in {settings.encrypt_for} has no RSA key")

    def token(self, identifier: str) -> etree._Element:
        assert self.own is not None
        return write_token(self.own, identifier)

    def sign(self, tree: SoapTree, security: etree._Element, token: str, new: Callable[[str], str]) -> None:
        """Sign the Body, all other header blocks and the content of the Security header (SEC-03)."""
        assert self.own is not None
        parts: list[tuple[str, list[str]]] = []
        for element in (*security, *tree.header, tree.body):
            if element is security:
                continue
            content = None if element.getparent() is security else element
            # Two blocks may have one wsu:Id, if they repeat reference parameters that a peer has written.
            if content is not None or element.get(WSU_ID) is None:
                element.set(WSU_ID, new("id"))
            parts.append((element.get(WSU_ID) or "", prefixes_in(content)))
        security.append(sign(tree, self.own, parts, write_reference(token, X509V3)))

    def encrypt(self, tree: SoapTree, security: etree._Element, identifier: str, to: bytes | None) -> None:
        """Encrypt the Body, if there is a receiver: an empty one too, because EncryptedParts has no exception for it.

        :param to: the certificate of the sender of the request, in DER, if this is a reply to an encrypted one.
        """
        receiver = self._receiver
        if to is not None:
            certificate = x509.load_der_x509_certificate(to)
            receiver = certificate if rsa_key(certificate) is not None else receiver
        if receiver is not None:
            encrypt(tree, security, receiver, identifier)

    def decrypt(self, tree: SoapTree, security: etree._Element, limits: Limits) -> bool:
        """Decrypt the Body; see `encryption.decrypt`."""
        return decrypt(tree, security, self.own, limits)

    def verify(self, tree: SoapTree, security: etree._Element, now: float) -> TrustedSignature:
        """Check the signature, whose certificate must be trusted.

        :raises Rejected: it is not accepted.
        """
        assert self._trust is not None
        trust = self._trust
        signed = verify(tree, security, trust.known, lambda each: trust.identity(each, now), now)
        return TrustedSignature(
            identity=signed.identity,
            token=f"x509:{fingerprint(signed.certificate)}",
            certificate=der(signed.certificate),
            digest=signed.digest.hex(),
            parts=list(signed.parts),
        )

    def trusts(self, certificate: bytes, now: float) -> bool:
        """Whether a certificate, in DER, is trusted."""
        if self._trust is None:
            return True
        try:
            self._trust.identity(x509.load_der_x509_certificate(certificate), now)
        except Rejected:
            return False
        return True
