"""Applies the settings of one endpoint or service: secures messages of this side, and checks those of the peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.message import (
    CREATE_SEQUENCES,
    USES_SEQUENCE_STR,
    Rejected,
    SoapTree,
    children,
    envelope_of,
    in_memory,
    write_reference,
)
from mercury.security.names import (
    CREATED,
    DS,
    EXPIRES,
    REFERENCE,
    SAML11,
    SAML20,
    SECURITY,
    TIMESTAMP,
    USERNAME_TOKEN,
    WSSE,
    WSSE11,
    WSU,
    WSU_ID,
    X509V3,
    XENC,
)
from mercury.security.settings import MessageSecurity
from mercury.security.timing import check_age, read_time, written_time
from mercury.security.username import check_username, write_username
from mercury.wire import ns
from mercury.wire.envelope import HttpMessage
from mercury.wire.ns import clark
from mercury.wire.own_thread import in_own_thread
from mercury.wire.scan import DEFAULT_LIMITS, Limits, MessageRefused, refused
from mercury.wire.verified import Verified

if TYPE_CHECKING:
    from mercury.security.keys import Keys

#: Header blocks of these namespaces say how a message is handled: unsigned ones are refused.
_PROTOCOLS = frozenset({ns.WSA200408, ns.WSA10, ns.RM10, ns.RM11, ns.MC})
#: What a Security header consists of: SignatureConfirmation is of WS-Security 1.1, and assertions say what nothing here
#: asks for.
_SECURITY = frozenset({WSSE, WSSE11, WSU, DS, XENC, SAML11, SAML20})
#: Bytes of the largest message that is secured: each reference of a signature is a copy of the message.
MOST_BYTES = 8 * 1024 * 1024


class Party:
    """The settings of one endpoint or service, with its keys loaded.

    :param new_id: makes unique ids.
    :raises ConfigurationError: a file cannot be used, or the extra ``security`` is not installed.
    """

    def __init__(self, settings: MessageSecurity, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._new_id = new_id
        self._keys: Keys | None = None
        if settings.uses_keys:
            self._keys = _load_keys(settings)

    # --- messages of this side -------------------------------------------------------------------------------------

    def secure(self, http: HttpMessage, now: float) -> HttpMessage:
        """A message to an endpoint, with its Security header. Every transmission is secured anew (SEC-09).

        :raises MessageRefused: it cannot be secured, because it is too large or cannot be signed.
        """
        return in_own_thread(lambda: self._secure(http, now, is_reply=False, must_understand=True, to=None))

    def secure_reply(self, http: HttpMessage, request: Verified | None, now: float) -> HttpMessage:
        """A reply of a service, signed with its key, and encrypted if the request was.

        :param request: what was verified of the request; ``None`` = the request was refused.
        :raises MessageRefused: it cannot be secured, because it is too large or cannot be signed.
        """
        if self._keys is None or self._keys.own is None or not http.body:
            return http
        to = request.certificate if request is not None and request.encrypted else None
        # A client without WS-Security reads the fault that refuses its message.
        known = request is not None
        return in_own_thread(lambda: self._secure(http, now, is_reply=True, must_understand=known, to=to))

    def _secure(
        self, http: HttpMessage, now: float, *, is_reply: bool, must_understand: bool, to: bytes | None
    ) -> HttpMessage:
        data, http = envelope_of(in_memory(http, DEFAULT_LIMITS), DEFAULT_LIMITS)
        tree, settings = SoapTree(data, DEFAULT_LIMITS), self.settings
        security = etree.Element(SECURITY, nsmap={"wsse": WSSE, "wsu": WSU})
        if must_understand:
            security.set(clark(tree.uri, "mustUnderstand"), "1")
        tokens: list[tuple[str, str]] = []
        timestamp = etree.SubElement(security, TIMESTAMP, {WSU_ID: self._new("TS")})
        etree.SubElement(timestamp, CREATED).text = written_time(now)
        etree.SubElement(timestamp, EXPIRES).text = written_time(now + settings.max_age)
        tree.header.insert(0, security)
        if self._keys is not None and self._keys.own is not None:
            identifier = self._new("X509")
            security.insert(0, self._keys.token(identifier))
            tokens.append((identifier, X509V3))
        if settings.user is not None and not is_reply:
            identifier = self._new("User")
            security.append(write_username(settings, now, identifier))
            tokens.append((identifier, USERNAME_TOKEN))
        if settings.bind_sequences and not is_reply:
            self._bind(tree, tokens[0])
        if self._keys is not None and self._keys.own is not None:
            try:
                self._keys.sign(tree, security, tokens[0][0], self._new)
                self._keys.encrypt(tree, security, self._new("ED"), to)
            except Exception as error:  # a reply repeats content of the peer's, and signxml raises errors of any kind
                raise refused(f"it cannot be signed: {type(error).__name__}") from error
        return replace(http, body=tree.written())

    def _new(self, kind: str) -> str:
        return f"{kind}-{self._new_id().removeprefix('urn:uuid:').replace(':', '-')}"

    def _bind(self, tree: SoapTree, token: tuple[str, str]) -> None:
        """Add the SecurityTokenReference to a CreateSequence, and UsesSequenceSTR (SEC-02, RM11-CS-16)."""
        content = tree.content
        if content is None or content.tag not in CREATE_SEQUENCES:
            return
        uri = etree.QName(content).namespace
        before = [child for child in children(content) if etree.QName(child).namespace == uri]
        content.insert(content.index(before[-1]) + 1, write_reference(*token))
        if uri == ns.RM11:
            header = etree.SubElement(tree.header, USES_SEQUENCE_STR, nsmap={"wsrm": ns.RM11})
            header.set(clark(tree.uri, "mustUnderstand"), "1")

    # --- messages of the peer --------------------------------------------------------------------------------------

    def check(self, http: HttpMessage, limits: Limits, now: float) -> tuple[HttpMessage, Verified]:
        """Check the Security header of a message. Returns the message that was proved, and what is known of it.

        Of a signed message, that is made only of the elements that the verifier returned.

        :raises MessageRefused: the message is not well-formed, exceeds a limit, or is not a SOAP envelope.
        :raises Rejected: its security is not accepted.
        """
        data, http = envelope_of(http, limits)
        if len(data) > MOST_BYTES:
            raise Rejected(f"the message is larger than {MOST_BYTES} bytes")
        body, verified = in_own_thread(lambda: self._check(data, limits, now))
        return replace(http, body=body), verified

    def accepts(self, verified: Verified | None, now: float) -> bool:
        """Whether a message that was verified by other settings would be accepted by these."""
        if not self.settings.checks:
            return True
        if verified is None or verified.certificate is None or self._keys is None:
            return False
        if self.settings.require_encryption and not verified.encrypted:
            return False
        return self._keys.trusts(verified.certificate, now)

    def _check(self, data: bytes, limits: Limits, now: float) -> tuple[bytes, Verified]:
        try:
            return self._checked(SoapTree(data, limits), limits, now)
        except (Rejected, MessageRefused):
            raise
        except Exception as error:  # signxml, cryptography and lxml raise errors of any kind for odd content
            raise Rejected(f"the Security header cannot be used: {type(error).__name__}: {error}") from error

    def _checked(self, tree: SoapTree, limits: Limits, now: float) -> tuple[bytes, Verified]:
        settings = self.settings
        security = tree.security()
        if security is None:
            raise Rejected("the message has no Security header")
        encrypted = self._keys is not None and self._keys.decrypt(tree, security, limits)
        if settings.require_encryption and not encrypted and tree.content is not None:
            raise Rejected("the Body is not encrypted")
        user, token = None, None
        if settings.users is not None:
            user, token = check_username(settings, security, now)
        if self._keys is None or settings.trusted is None:
            assert user is not None  # `MessageSecurity.checks`
            _check_times(settings, security, now, required=False)
            verified = replace(user, bound_to=_bound_to(tree, token, user.identity, None))
            return _without(tree, security), verified
        signed = self._keys.verify(tree, security, now)
        times = _check_times(settings, security, now, required=True)
        if times not in signed.elements or (token is not None and token not in signed.elements):
            raise Rejected("the Timestamp or the UsernameToken is not signed")
        expires = check_age(settings, read_time(times.findtext(CREATED) if times is not None else None), now)
        verified = Verified(
            identity=user.identity if user is not None else signed.identity,
            tokens=frozenset({signed.token, *(user.tokens if user is not None else ())}),
            certificate=signed.certificate,
            bound_to=_bound_to(
                tree,
                token,
                user.identity if user is not None else "",
                lambda reference: signed.token if signed.is_certificate(tree, security, reference) else None,
            ),
            encrypted=encrypted,
            digest=signed.digest,
            expires=expires,
        )
        return _rebuilt(tree, security, signed.parts), verified


def _load_keys(settings: MessageSecurity) -> Keys:
    try:
        from mercury.security.keys import Keys
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is missing: pip install 'mercury-rm[security]'") from error
    return Keys(settings)


def _check_times(
    settings: MessageSecurity, security: etree._Element, now: float, *, required: bool
) -> etree._Element | None:
    """Check the Timestamp, and return it.

    :raises Rejected: it is missing although it is required, there are several, or it is not valid now.
    """
    found = security.findall(TIMESTAMP)
    if len(found) > 1 or (required and not found):
        raise Rejected(f"there are {len(found)} Timestamps instead of one")
    if not found:
        return None
    created, expires = found[0].findall(CREATED), found[0].findall(EXPIRES)
    if len(created) != 1 or len(expires) > 1:
        raise Rejected("the Timestamp must have one Created, and at most one Expires")
    check_age(settings, read_time(created[0].text), now)
    if expires and read_time(expires[0].text) + settings.clock_skew < now:
        raise Rejected("the message has expired")
    return found[0]


def _bound_to(
    tree: SoapTree,
    user: etree._Element | None,
    name: str,
    certificate: Callable[[etree._Element], str | None] | None,
) -> str | None:
    """The token of the sender that a CreateSequence refers to (SEC-02); ``None`` = it refers to none.

    :param user: the UsernameToken that was checked, and ``name`` the token's name.
    :param certificate: returns the name of the certificate of the signature, if a reference leads to it.
    :raises Rejected: the reference leads elsewhere, or the header block UsesSequenceSTR stands alone (RM11-CS-16).
    """
    content, reference = tree.content, tree.reference_in_create_sequence()
    uses = tree.header.findall(USES_SEQUENCE_STR)
    is_11 = content is not None and etree.QName(content).namespace == ns.RM11
    if len(uses) > 1 or bool(uses) is not (reference is not None and is_11):
        raise Rejected("UsesSequenceSTR and the SecurityTokenReference in CreateSequence belong together")
    if reference is None:
        return None
    if user is not None:
        named = reference.find(REFERENCE)
        uri = named.get("URI", "") if named is not None else ""
        if uri.startswith("#") and tree.by_id(uri[1:]) is user:
            return name
    token = certificate(reference) if certificate is not None else None
    if token is None:
        raise Rejected("the SecurityTokenReference in CreateSequence is not that of the sender's token")
    return token


def _without(tree: SoapTree, security: etree._Element) -> bytes:
    """The message without its Security header and UsesSequenceSTR, which are handled here."""
    for block in (security, *tree.header.findall(USES_SEQUENCE_STR)):
        tree.header.remove(block)
    return tree.written()


def _has_meaning(tree: SoapTree, security: etree._Element, element: etree._Element) -> bool:
    """Whether an element is a header block, or belongs to the Security header: a header block that was moved there
    would not be read.
    """
    if element.getparent() is tree.header:
        return True
    named = etree.QName(element).namespace in _SECURITY and not tree.must_understand(element)
    return named and element.getparent() is security


def _rebuilt(tree: SoapTree, security: etree._Element, parts: list[tuple[etree._Element, bytes]]) -> bytes:
    """A message of the signed elements only (SEC-03).

    :raises Rejected: a signed element stands where it has no meaning, or something that matters is not signed.
    """
    signed = dict(parts)
    for element in signed:
        if element is not tree.body and not _has_meaning(tree, security, element):
            raise Rejected("a signed element is not at a place where it has a meaning")
    if tree.body not in signed:
        raise Rejected("the Body is not signed")
    blocks, names = [], set()
    for block in tree.header.iterchildren("*"):
        if block is security or not (block in signed or tree.is_for_this_node(block)):
            continue
        name = etree.QName(block)
        if block in signed:
            names.add(name.localname if name.namespace in _PROTOCOLS else "")
            if block.tag != USES_SEQUENCE_STR:
                blocks.append(signed[block])
        elif name.namespace in _PROTOCOLS or tree.must_understand(block):
            raise Rejected(f"the header block {block.tag} is not signed")
    if "Action" not in names:
        raise Rejected("the message has no Action")
    opened = f'<S:Envelope xmlns:S="{tree.uri}"><S:Header>'.encode()
    return opened + b"".join(blocks) + b"</S:Header>" + signed[tree.body] + b"</S:Envelope>"
