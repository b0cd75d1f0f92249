"""Settings of HTTP connections to peers: certificates to show and to demand, and headers such as Authorization."""

from __future__ import annotations

import base64
import dataclasses
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from mercury.engine.address_book import AddressBook, FailoverSettings
from mercury.engine.addresses import climbs, origin_of, split_url
from mercury.engine.failover_uri import is_failover
from mercury.engine.runtime.certificate_files import FileContext
from mercury.errors import ConfigurationError
from mercury.security.settings import MessageSecurity

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
#: RFC 6750 (b64token).
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
#: Headers that Mercury sets on every message or connection.
_TAKEN = frozenset({"content-type", "soapaction", "content-length", "transfer-encoding", "host", "connection"})
#: The values of `TlsSettings.identity`.
NAME, ISSUER = "name", "issuer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The HTTP settings for one peer, or for all others.

    :raises ConfigurationError: a file cannot be read or holds no certificate or key, or a header cannot be sent.
    """

    #: A file with the certificates (PEM) of the authorities that may sign the peer's certificate; by default those of
    #: the system, or of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.
    ca_file: str | None = None
    #: A file with this side's client certificate (PEM) and its chain.
    client_cert: str | None = None
    #: The file with its private key; by default the same file.
    client_key: str | None = None
    #: HTTP headers of every request; never logged or shown.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Name and password of HTTP Basic, in UTF-8 (RFC 7617), or else a Bearer token (RFC 6750): every request has them
    #: in its header Authorization. They are not encrypted, so the peer's URL should be https. Never logged or shown.
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    #: The identity of the peer when it posts here: the result of ``authenticate``, or else the name in its certificate
    #: as in `HttpRequest.certificate`: ``URI:spiffe://...``, or else the subject (RFC 4514), followed by the authority
    #: according to `TlsSettings.identity`: ``CN=partner;issuer=<CN=authority>``. If set, acknowledgements, faults and
    #: responses of its sequences are taken from this identity only.
    identity: str | None = None
    #: WS-Security of the messages to the peer, and of its messages.
    security: MessageSecurity | None = None

    def __post_init__(self) -> None:
        if self.client_key is not None and self.client_cert is None:
            raise ConfigurationError("client_key: it needs client_cert, the certificate that it belongs to")
        if self.identity is not None and not self.identity.strip():
            raise ConfigurationError("identity: it is empty; without it, the peer that answers CreateSequence counts")
        if self.security is not None and self.security.users is not None:
            raise ConfigurationError("security: users is for services; an endpoint is shown user and password")
        for name, value in self.headers.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ConfigurationError(f"headers: {name!r} or its value cannot be sent in HTTP")
            if name.lower() in _TAKEN:
                raise ConfigurationError(f"headers: {name} is set by Mercury")
        self._check_credentials()

    def _check_credentials(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigurationError("user: it needs password, and password needs user")
        if self.user is not None and self.token is not None:
            raise ConfigurationError("token: it cannot be sent together with user and password")
        if not self.user and self.user is not None:
            raise ConfigurationError("user: it is empty")
        if any(letter == ":" or not letter.isprintable() for letter in self.user or ""):
            raise ConfigurationError("user: a colon and control characters cannot be sent in HTTP")
        if not (self.password or "").isprintable():
            raise ConfigurationError("password: control characters cannot be sent in HTTP")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise ConfigurationError("token: it has characters that a Bearer token cannot have")
        has_header = any(name.lower() == "authorization" for name in self.headers)
        if has_header and (self.user is not None or self.token is not None):
            raise ConfigurationError("headers: Authorization is made from user and password, or token")

    @property
    def authorization(self) -> str | None:
        """The value of the header Authorization; ``None`` = there is none."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is not None:
            return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return next((value for name, value in self.headers.items() if name.lower() == "authorization"), None)

    @property
    def every_header(self) -> dict[str, str]:
        """`headers`, with Authorization made from the credentials."""
        made = self.authorization if self.user is not None or self.token is not None else None
        return {**self.headers, "Authorization": made} if made is not None else dict(self.headers)

    def context(self, *, passphrase: str | None = None) -> ssl.SSLContext:
        """The TLS context of connections to the peer.

        :param passphrase: of an encrypted key; ``None`` = OpenSSL asks for it at the terminal.
        :raises ConfigurationError: a file cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigurationError(f"ca_file: {self.ca_file} cannot be used: {error.strerror or error}") from error
        if self.client_cert is not None:
            try:
                context.load_cert_chain(self.client_cert, self.client_key, passphrase)
            except OSError as error:
                files = " and ".join(name for name in (self.client_cert, self.client_key) if name is not None)
                raise ConfigurationError(f"client_cert: {files} cannot be used: {error.strerror or error}") from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Names of PEM files: for https to peers without a `Peer`, and for the server.

    :raises ConfigurationError: a key is set without its certificate, or `identity` is something else.
    """

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    #: The server's certificate with its chain, and its private key; with them the server listens for https.
    server_cert: str | None = None
    server_key: str | None = None
    #: Authorities of client certificates; if set, a peer without a certificate of theirs is refused.
    client_ca: str | None = None
    #: What the identity of a peer is: ``"name"``, the name in its certificate, whichever authority signed it; or
    #: ``"issuer"``, that name and the authority. ``None`` = ``"issuer"`` if `client_ca` holds several certificates at
    #: the start of the process, else ``"name"``.
    identity: str | None = None

    def __post_init__(self) -> None:
        for key, certificate in (
            ("client_key", "client_cert"),
            ("server_key", "server_cert"),
            ("client_ca", "server_cert"),
        ):
            if getattr(self, key) is not None and getattr(self, certificate) is None:
                raise ConfigurationError(f"{key}: it needs {certificate}, the certificate that it belongs to")
        if self.identity not in (None, NAME, ISSUER):
            raise ConfigurationError(f'identity: {self.identity!r} is neither "{NAME}" nor "{ISSUER}"')

    @property
    def with_issuer(self) -> bool | None:
        """Whether identities include the authority; ``None`` = the number of authorities decides."""
        return None if self.identity is None else self.identity == ISSUER

    @property
    def others(self) -> Peer:
        """The settings for peers without a `Peer`."""
        return Peer(ca_file=self.ca_file, client_cert=self.client_cert, client_key=self.client_key)


@dataclass(slots=True, eq=False)
class PeerConnection:
    """A `Peer` and the URLs that it applies to."""

    peer: Peer
    #: Scheme, host and port; ``None`` = all.
    origin: tuple[str, str, int] | None = None
    path: str = "/"
    #: The headers of every request.
    headers: Mapping[str, str] = field(init=False, repr=False)
    _files: FileContext = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.headers = self.peer.every_header
        use = "{}://{}:{}".format(*self.origin) if self.origin is not None else "other peers"
        files = (self.peer.ca_file, self.peer.client_cert, self.peer.client_key)
        self._files = FileContext(use, files, self.peer.context, renew=lambda: self.peer.context(passphrase=""))

    def context(self) -> ssl.SSLContext:
        """The TLS context of a new connection. It is made at its first use, because reading the system's certificates
        is slow, and made again when the peer's files have changed."""
        return self._files.current()


def place_of(prefix: str) -> tuple[tuple[str, str, int], str]:
    """The origin of a URL prefix, and its path with a slash at its end: the same for every way to write them.

    :raises ConfigurationError: it is not a URL.
    """
    origin, path = _split(prefix)
    return origin, path if path.endswith("/") else path + "/"


def is_below(url: str, prefix: str) -> bool:
    """Whether a URL prefix is another one, or below it."""
    (origin, path), (above, start) = place_of(url), place_of(prefix)
    return origin == above and path.startswith(start)


def key_of(url: str, peers: Mapping[str, Peer]) -> str:
    """The key under which ``peers`` has a URL, however it is written; else the URL itself."""
    place = place_of(url)
    return next((known for known in peers if place_of(known) == place), url)


class Peers:
    """The settings of peers, by URL.

    :param peers: by URL prefix, which matches the same scheme, host and port, and the same path or one below it. The
        longest matching path counts. A path that climbs (``/orders/../other``) is below ``/`` only.
    :param others: for all other peers.
    :param failover: the destinations with several addresses: what applies to the first one applies to all.
    :raises ConfigurationError: a key is not a URL, or two are for one place, or a file cannot be used.
    """

    def __init__(
        self, peers: Mapping[str, Peer] | None, others: Peer | None = None, failover: FailoverSettings | None = None
    ) -> None:
        #: The destinations with several addresses.
        self.addresses = AddressBook(failover)
        self._others = PeerConnection(others or Peer())
        self._known: list[PeerConnection] = []
        for prefix, peer in (peers or {}).items():
            origin, path = place_of(prefix)
            if any((known.origin, known.path) == (origin, path) for known in self._known):
                # Only one of them could apply; the other may be the one that protects messages.
                scheme, host, port = origin
                raise ConfigurationError(f"peers: there are two entries for {scheme}://{host}:{port}{path}")
            each = PeerConnection(peer, origin, path)
            if origin[0] == "https":
                each.context()
            elif peer.ca_file or peer.client_cert:
                raise ConfigurationError(f"peers: certificates need https: {prefix}")
            self._known.append(each)
        self._known.sort(key=lambda each: len(each.path), reverse=True)
        if others is not None and (others.ca_file or others.client_cert):
            self._others.context()

    @property
    def all(self) -> list[PeerConnection]:
        """The settings of all peers, and those for others."""
        return [*self._known, self._others]

    def as_entry(self, url: str) -> Peer:
        """What applies to a URL, to be an entry for it: certificates are for https only."""
        peer = self.find(url).peer
        if url.startswith("http:"):
            peer = dataclasses.replace(peer, ca_file=None, client_cert=None, client_key=None)
        return peer

    def add(self, uri: str) -> str:
        """Add a destination with several addresses. Returns what it is known by: `FailoverUri.endpoint`.

        :raises ConfigurationError: see `AddressBook.add`; or other settings apply to some of its addresses.
        """
        found = self.addresses.add(uri)
        if any(self.find(url).peer != self.find(found.urls[0]).peer for url in found.urls):
            raise ConfigurationError(f"peers: other settings for some addresses of {found.endpoint}; give all the same")
        return found.endpoint

    def find(self, url: str) -> PeerConnection:
        """The settings for the peer at a URL."""
        if not self._known:
            return self._others
        try:
            origin, path = _split(self.addresses.first(url))
        except ConfigurationError:
            if not is_failover(url):
                raise
            return self._others  # its addresses are looked up; or the settings no longer have it, and its posts fail
        for each in self._known:
            # A server may resolve a path that climbs to one that the entry's credentials are not for.
            is_below = (path + "/").startswith(each.path) and (each.path == "/" or not climbs(path))
            if each.origin == origin and is_below:
                return each
        return self._others


def _split(url: str) -> tuple[tuple[str, str, int], str]:
    parts = split_url(url)
    return origin_of(parts), parts.path or "/"
