"""What is shown to a peer, and what is demanded of it: certificates, and headers such as Authorization."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mercury.engine.addresses import split_url
from mercury.errors import ConfigurationError

_PORTS = MappingProxyType({"http": 80, "https": 443})
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
#: Headers that a message has already, or that the connection needs.
_TAKEN = frozenset({"content-type", "soapaction", "content-length", "transfer-encoding", "host", "connection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How one peer, or every other one, is talked to over HTTP.

    :raises ConfigurationError: a file cannot be read or holds no certificate or key, or a header cannot be sent.
    """

    #: A file with the certificates (PEM) of the authorities that the peer's certificate may come from; left out, those
    #: of the system, or of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.
    ca_file: str | None = None
    #: A file with the certificate (PEM) that is shown to the peer, with its chain.
    client_cert: str | None = None
    #: The file with its private key; left out, it is in the same file.
    client_key: str | None = None
    #: Sent with every request; never shown.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Who the peer is when it posts here: what ``authenticate`` returns for it, or else the name in its certificate, as
    #: `HttpRequest.certificate` has it: ``URI:spiffe://...``, or else the subject (RFC 4514), and behind it the
    #: authority when ``tls.client_ca`` holds several: ``CN=partner;issuer=<CN=authority>``. Then acknowledgements,
    #: faults and responses of its sequences count from this identity only.
    identity: str | None = None

    def __post_init__(self) -> None:
        if self.client_key is not None and self.client_cert is None:
            raise ConfigurationError("client_key: it needs client_cert, the certificate that it belongs to")
        if self.identity is not None and not self.identity.strip():
            raise ConfigurationError("identity: it is empty; left out, it is the peer that answers CreateSequence")
        for name, value in self.headers.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ConfigurationError(f"headers: {name!r} or its value cannot be sent in HTTP")
            if name.lower() in _TAKEN:
                raise ConfigurationError(f"headers: {name} is set by Mercury")

    def context(self) -> ssl.SSLContext:
        """What connections to it are made with.

        :raises ConfigurationError: a file cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigurationError(f"ca_file: {self.ca_file} cannot be used: {error.strerror or error}") from error
        if self.client_cert is not None:
            try:
                context.load_cert_chain(self.client_cert, self.client_key)
            except OSError as error:
                files = " and ".join(name for name in (self.client_cert, self.client_key) if name is not None)
                raise ConfigurationError(f"client_cert: {files} cannot be used: {error.strerror or error}") from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Certificates: for https to peers that no `Peer` is given for, and for listening. Names of PEM files.

    :raises ConfigurationError: a key is named without its certificate.
    """

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    #: What the server shows to peers, with its chain, and its private key; with them, it listens for https.
    server_cert: str | None = None
    server_key: str | None = None
    #: Authorities that the certificates of peers must come from; with it, a peer without a certificate is refused.
    client_ca: str | None = None

    def __post_init__(self) -> None:
        for key, certificate in (
            ("client_key", "client_cert"),
            ("server_key", "server_cert"),
            ("client_ca", "server_cert"),
        ):
            if getattr(self, key) is not None and getattr(self, certificate) is None:
                raise ConfigurationError(f"{key}: it needs {certificate}, the certificate that it belongs to")

    @property
    def others(self) -> Peer:
        """How peers are talked to that no `Peer` is given for."""
        return Peer(ca_file=self.ca_file, client_cert=self.client_cert, client_key=self.client_key)


@dataclass(slots=True, eq=False)
class PeerConnection:
    """A `Peer` and where it applies."""

    peer: Peer
    #: Scheme, host and port; ``None`` = everywhere.
    origin: tuple[str, str, int] | None = None
    path: str = "/"
    _context: ssl.SSLContext | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def context(self) -> ssl.SSLContext:
        """Made once, when it is needed first: to read the system's certificates takes a while."""
        with self._mutex:
            if self._context is None:
                self._context = self.peer.context()
            return self._context


class Peers:
    """Peers by the URLs that they are reached at.

    :param peers: by URL prefix: the same scheme, host and port, and a path that is the same or below it. The longest
        path counts.
    :param others: everybody else.
    :raises ConfigurationError: a key is no URL, or a file cannot be used.
    """

    def __init__(self, peers: Mapping[str, Peer] | None, others: Peer | None = None) -> None:
        self._others = PeerConnection(others or Peer())
        self._known: list[PeerConnection] = []
        for prefix, peer in (peers or {}).items():
            origin, path = _split(prefix)
            manner = PeerConnection(peer, origin, path if path.endswith("/") else path + "/")
            if origin[0] == "https":
                manner.context()
            elif peer.ca_file or peer.client_cert:
                raise ConfigurationError(f"peers: certificates are of no use without https: {prefix}")
            self._known.append(manner)
        self._known.sort(key=lambda manner: len(manner.path), reverse=True)
        if others is not None and (others.ca_file or others.client_cert):
            self._others.context()

    def find(self, url: str) -> PeerConnection:
        """How the peer at a URL is talked to."""
        if not self._known:
            return self._others
        origin, path = _split(url)
        for manner in self._known:
            if manner.origin == origin and (path + "/").startswith(manner.path):
                return manner
        return self._others


def _split(url: str) -> tuple[tuple[str, str, int], str]:
    parts = split_url(url)
    return (parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme]), parts.path or "/"
