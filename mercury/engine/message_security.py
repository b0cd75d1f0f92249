"""WS-Security of this process: which settings apply to a message, and the faults about it.

A message is checked before it is decoded, and secured after it is encoded. So the rest of the engine handles the same
envelopes with and without WS-Security; `Envelope.verified` says what is known of the sender.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.errors import ConfigurationError, TransportError
from mercury.security.message import Rejected
from mercury.security.names import WSSE
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.protocol import AddressingVersion
from mercury.wire import ns
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.ns import clark
from mercury.wire.scan import Limits, MessageRefused
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.security")

#: SEC-06: the same for every reason, which only the log has.
NOT_ACCEPTED = Fault(code=FaultCode.INVALID_SECURITY, reason="The security of the message is not accepted.")
#: Log lines per minute about rejected messages, and about answers that cannot be signed.
_LINES = 30
#: Characters of the reason in such a line, which may repeat what the peer has written.
_LENGTH = 300

#: What a message with a Security header contains, in each encoding that is read.
_WSSE = tuple(WSSE.encode(codec) for codec in ("ascii", "utf-16-le", "utf-16-be"))
#: The settings for the endpoint at a URL; ``None`` = it has none.
FindParty = Callable[[str], Party | None]


class SecurityParties:
    """The parties of this process: its services, and the endpoints that it sends to.

    :param find: finds the party of an endpoint.
    :param endpoints: all parties of endpoints.
    :param services: applies to services of these names that have no settings of their own.
    :param responses: the address of this side for responses; ``None`` = it has none.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        find: FindParty = lambda _url: None,
        endpoints: Iterable[Party] = (),
        services: Mapping[str, MessageSecurity] | None = None,
        responses: str | None = None,
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        self._find = find
        self._responses = responses
        #: Who may post to the address for responses, as far as signatures are required of them.
        self._responders = [party for party in endpoints if party.settings.trusted is not None]
        self._services: dict[str, Party] = {}
        self._settings = services or {}
        self._hosted: set[str] = set()
        self._log = LogLimiter(_LINES, LOG_INTERVAL)
        self._mutex = threading.Lock()

    def add_service(self, name: str, settings: MessageSecurity | None) -> None:
        """Apply settings to a service.

        :param settings: its own; ``None`` = it has none.
        :raises ConfigurationError: they are not for a service, or a file cannot be used.
        """
        self._hosted.add(name)
        settings = settings or self._settings.get(name)
        if settings is None:
            return
        if settings.user is not None or settings.encrypt_for is not None or settings.bind_sequences:
            raise ConfigurationError(f"service {name!r}: user, encrypt_for and bind_sequences are for endpoints")
        if not settings.checks:
            raise ConfigurationError(f"service {name!r}: its security needs users or trusted")
        self._services[name] = Party(settings, self._new_id)

    def log_unused(self) -> None:
        """Log the settings for services that are not hosted here: where a name is misspelt, its service is open."""
        for name in sorted(self._settings.keys() - self._hosted) if self._hosted else ():
            log.warning(
                "the settings security.* name a service %r, which this process does not host: if no other process "
                "with these settings does, the name is misspelt, and they protect no service",
                name,
            )

    def settings_of(self, service: str) -> MessageSecurity | None:
        """The settings of a service; ``None`` = it has none."""
        party = self._services.get(service)
        return party.settings if party is not None else None

    def concerns(self, service: str | None) -> bool:
        """Whether messages to a service, or (``None``) to the address for responses, may have to be checked."""
        return service in self._services if service is not None else bool(self._responders)

    def concerns_endpoint(self, url: str) -> bool:
        """Whether messages to the endpoint at a URL are secured, or its replies checked."""
        return self._find(url) is not None

    # --- messages that are received --------------------------------------------------------------------------------

    def opened(self, http: HttpMessage, service: str | None, limits: Limits) -> tuple[HttpMessage, Verified | None]:
        """A message to a service, or (``None``) to the address for responses: what of it may be used.

        :raises Undecodable: it is not accepted.
        """
        if service is not None:
            party = self._services.get(service)
            return (http, None) if party is None else self._checked([party], http, limits)
        if not self._responders or not any(name in http.body for name in _WSSE):
            # Without proof, it counts only for endpoints that need none: see `accepts`.
            return http, None
        return self._checked(self._responders, http, limits)

    def opened_reply(self, http: HttpMessage, url: str, limits: Limits) -> tuple[HttpMessage, Verified | None]:
        """The same for a reply on the connection of a message to an endpoint."""
        party = self._find(url)
        if party is None or party.settings.trusted is None:
            return http, None
        return self._checked([party], http, limits)

    def accepts(self, endpoint: str, verified: Verified | None, *, to: str | None) -> bool:
        """Whether a message that was posted here counts as one of an endpoint that this side sends to.

        A message of the endpoint to another of its clients does not: that client could post its copy here.

        :param to: the wsa:To of a message that came to the address for responses; ``None`` = it came to a service.
        """
        party = self._find(endpoint) if "://" in endpoint else None
        if party is None:
            return True
        elsewhere = party.settings.trusted is not None and to is not None and to != self._responses
        return not elsewhere and party.accepts(verified, self._clock())

    def answers(self, request: Envelope, url: str, fault: Envelope) -> bool:
        """Whether a fault on the connection of a request to an endpoint may be the answer to that request.

        Without TLS, an attacker on the way could put a fault there that the endpoint has signed for another client.
        """
        party = self._find(url)
        signs = party is not None and party.settings.trusted is not None
        return not signs or request.message_id is None or fault.relates_to == request.message_id

    def _checked(
        self, parties: Iterable[Party], http: HttpMessage, limits: Limits
    ) -> tuple[HttpMessage, Verified | None]:
        reasons = []
        for party in parties:
            try:
                return party.check(http, limits, self._clock())
            except Rejected as error:
                reasons.append(str(error))
            except MessageRefused as error:
                raise Undecodable(error.fault) from error
        if self._may_log("refused"):
            log.warning("a message is refused: %r", "; ".join(dict.fromkeys(reasons))[:_LENGTH])
        raise _refused(http, limits)

    # --- messages that are sent ------------------------------------------------------------------------------------

    def secured(self, http: HttpMessage, url: str) -> HttpMessage:
        """A message to an endpoint as it is posted.

        :raises TransportError: it cannot be secured, because it is too large or cannot be signed.
        """
        party = self._find(url)
        if party is None:
            return http
        try:
            return party.secure(http, self._clock())
        except MessageRefused as error:
            raise TransportError(f"{url}: WS-Security cannot be applied: {error}") from error

    def secured_reply(self, http: HttpMessage, service: str | None, request: Verified | None) -> HttpMessage:
        """A reply of a service as it is sent. If it cannot be secured, that is an empty one with HTTP status 500.

        :param request: what was verified of the request.
        """
        party = self._services.get(service or "")
        if party is None:
            return http
        try:
            return party.secure_reply(http, request, self._clock())
        except MessageRefused as error:
            if self._may_log("not secured"):
                log.warning("an answer of service %r cannot be secured: %r", service, str(error)[:_LENGTH])
            return HttpMessage(b"", "", None, 500)

    def _may_log(self, about: str) -> bool:
        with self._mutex:
            return self._log.allow(about, self._clock())


def _refused(http: HttpMessage, limits: Limits) -> Undecodable:
    """The fault, in the versions of the message, which is read for nothing else."""
    understood = (clark(WSSE, "Security"), clark(ns.RM11, "UsesSequenceSTR"), clark(ns.RM11, "UsesSequenceSSL"))
    try:
        read = decode(http.body, http.content_type, http.soap_action, limits=limits, understands=understood)
    except Undecodable as error:
        shown = {"addressing": error.addressing, "rm": error.rm, "message_id": error.message_id}
        return Undecodable(NOT_ACCEPTED, soap=error.soap, **shown)  # type: ignore[arg-type]
    addressing = read.addressing or AddressingVersion.WSA10
    return Undecodable(NOT_ACCEPTED, soap=read.soap, addressing=addressing, rm=read.rm, message_id=read.message_id)
