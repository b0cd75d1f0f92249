"""uvicorn with Mercury's HTTP protocol, in a thread of the process or in its main thread."""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import create_ssl_context

from mercury.engine.runtime.certificate_files import FileContext
from mercury.engine.runtime.peers import TlsSettings
from mercury.errors import ConfigurationError
from mercury.service.authorities import Authorities
from mercury.service.connections import Connections, keep
from mercury.service.host import takes_attachments
from mercury.service.http11 import Http11Protocol
from mercury.service.tls_listener import Handshake, TlsListener
from mercury.settings import HttpSettings

#: Seconds that a server has to start to accept connections.
START_TIMEOUT = 10.0
#: Seconds between two checks whether the server's thread has ended instead.
CHECK_INTERVAL = 0.05

MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Listening:
    """A bound socket and the URL it is reached at."""

    socket: socket.socket
    url: str


def bind(host: str, port: int, *, tls: bool = False) -> Listening:
    """Bind a socket before the server starts, so that the URL is known.

    :param port: 0 = any free port.
    :param tls: whether the URL is https.
    :raises ConfigurationError: the address cannot be bound.
    """
    if not 0 <= port <= MAX_PORT:
        raise ConfigurationError(f"nothing can listen at {host}:{port}: a port is between 0 and {MAX_PORT}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigurationError(f"nothing can listen at {host}:{port}: {error.strerror}") from error
    shown = f"[{host}]" if ":" in host else host
    return Listening(bound, f"{'https' if tls else 'http'}://{shown}:{bound.getsockname()[1]}")


class Server(uvicorn.Server):
    """uvicorn's server, which also reports when it accepts connections.

    :param on_started: called once, when the server accepts connections.
    :param connections: counts and limits the server's connections.
    :param certificates: the TLS context of new connections, which changes with the files of certificates.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        on_started: Callable[[], None],
        connections: Connections,
        certificates: FileContext,
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._connections = connections
        self._certificates = certificates
        #: Whether new connections use `certificates`: not without TLS, and not in Windows' event loop.
        self._follows_files = False
        keep(self.server_state, connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        context = self.config.ssl
        if context is None or not sockets or sys.platform == "win32":  # Windows' event loop has no add_reader
            await super().startup(sockets)
        else:
            await super().startup([])
            self._certificates.begin_with(context)
            self._connections.authorities.use(context)
            self._follows_files = True
            for each in sockets:
                listener = TlsListener(each, self._certificates.current, self._connections, self._protocol)
                self.servers.append(listener)  # type: ignore[arg-type]
        self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """uvicorn calls this ten times in a second. Without connections, too, the log tells of unusable files."""
        if self._follows_files:
            self._certificates.current()
        return await super().on_tick(counter)

    def _protocol(self, handshake: Handshake) -> Http11Protocol:
        protocol = Http11Protocol(self.config, self.server_state, self.lifespan.state)
        protocol.before = handshake
        return protocol


def server_for(
    app: ASGIApp,
    settings: HttpSettings,
    on_started: Callable[[], None] = lambda: None,
    tls: TlsSettings | None = None,
) -> Server:
    """uvicorn for an application, with Mercury's HTTP protocol and the application's logging.

    :param settings: limits and timeouts. An orderly stop takes ``shutdown_deadline`` seconds at most: half for the open
        exchanges, half for the application.
    :param tls: certificates. With ``server_cert`` the server uses https; with ``client_ca`` it accepts only peers with
        a certificate of that authority.
    :raises ConfigurationError: a certificate or key cannot be loaded.
    """
    tls = tls or TlsSettings()
    authorities = Authorities(tls.with_issuer)
    certificates = FileContext(
        "this server", (tls.server_cert, tls.server_key, tls.client_ca), lambda: _renewed(config, tls, authorities)
    )
    _check_certificates(tls)
    config = uvicorn.Config(
        app,
        http=Http11Protocol,
        ws="none",
        ssl_certfile=tls.server_cert,
        ssl_keyfile=tls.server_key,
        ssl_ca_certs=tls.client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if tls.client_ca is None else ssl.CERT_REQUIRED,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # with X-Forwarded-For any local process could claim another address
        timeout_graceful_shutdown=max(1, int(settings.shutdown_deadline / 2)),
    )
    connections = Connections(settings, authorities, in_files=takes_attachments(app))
    return Server(config, on_started, connections, certificates)


def _renewed(config: uvicorn.Config, tls: TlsSettings, authorities: Authorities) -> ssl.SSLContext:
    """The TLS context that uvicorn would make from the files now.

    :raises ConfigurationError: a file cannot be used, or peers would get other identities with these authorities. Then
        the previous context has got the new certificate and key.
    """
    _check_certificates(tls, password="")
    try:
        context = create_ssl_context(
            str(config.ssl_certfile),
            config.ssl_keyfile,
            None,
            config.ssl_version,
            config.ssl_cert_reqs,
            config.ssl_ca_certs,
            config.ssl_ciphers,
        )
    except OSError as error:  # a file has changed since it was checked
        raise ConfigurationError(f"tls.server_cert: {tls.server_cert} cannot be used: {error}") from error
    try:
        authorities.use(context)
    except ConfigurationError as error:
        # The file of the authorities may stay as it is for months, and the server's certificate must not expire then.
        if authorities.context is not None and tls.server_cert is not None:
            with contextlib.suppress(OSError):  # a file has changed since it was checked
                authorities.context.load_cert_chain(tls.server_cert, tls.server_key, "")
        raise ConfigurationError(f"{error}. A new tls.server_cert is used") from error
    return context


def _check_certificates(tls: TlsSettings, password: str | None = None) -> None:
    """Check that the certificates and keys can be loaded.

    :param password: for an encrypted key; ``None`` = OpenSSL asks at the terminal, which a running server must not.
    :raises ConfigurationError: a file cannot be loaded; the text begins with the setting's name.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        if tls.server_cert is not None:
            context.load_cert_chain(tls.server_cert, tls.server_key, password)
    except OSError as error:
        files = " and ".join(name for name in (tls.server_cert, tls.server_key) if name)
        raise ConfigurationError(f"tls.server_cert: {files} cannot be used: {error.strerror or error}") from error
    try:
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
    except OSError as error:
        raise ConfigurationError(f"tls.client_ca: {tls.client_ca} cannot be used: {error.strerror}") from error


class BackgroundServer:
    """uvicorn in a thread of the process.

    :raises ConfigurationError: the address cannot be bound.
    """

    def __init__(self, host: str, port: int, tls: TlsSettings) -> None:
        self._tls = tls
        self._listening = bind(host, port, tls=tls.server_cert is not None)
        self.url = self._listening.url
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, app: ASGIApp, settings: HttpSettings) -> None:
        """Start the server, and wait until it accepts connections.

        :raises ConfigurationError: the server does not accept connections within `START_TIMEOUT`, or the application's
            start fails.
        """
        accepting = threading.Event()  # uvicorn's own flag is set before the TLS listener exists
        self._server = server = server_for(app, settings, accepting.set, self._tls)
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._listening.socket]}, name="mercury-http", daemon=True
        )
        self._thread.start()
        give_up = time.monotonic() + START_TIMEOUT
        while not accepting.wait(CHECK_INTERVAL):
            if not self._thread.is_alive() or time.monotonic() > give_up:
                raise ConfigurationError("the HTTP server did not start; its log says why")

    def stop(self) -> None:
        """Finish the open requests, within the shutdown deadline, and free the port."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        self._listening.socket.close()
