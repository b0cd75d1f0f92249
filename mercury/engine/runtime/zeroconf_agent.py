"""Members that are announced by zeroconf, which is DNS-SD over multicast DNS (RFC 6762, RFC 6763; decision 86)."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mercury.engine.members import LONGEST
from mercury.engine.runtime.multicast_agent import check_interface
from mercury.errors import ConfigurationError, TransportError
from mercury.statemachine.failover import AnnouncedMembers

if TYPE_CHECKING:
    from zeroconf import ServiceStateChange, Zeroconf

#: Seconds that a question takes: it is asked twice, and a member repeats an answer once a second at most (RFC 6762).
LIFETIME = 2.0
#: The most instances that are read.
MOST_READ = 1024


def look_up(wanted: AnnouncedMembers) -> tuple[str, ...]:
    """The URLs of the members that are announced now. They may be anything.

    Nothing is remembered between two questions: a member that was killed, and has announced no end, is not found.

    :raises TransportError: no member answers, or nothing can be sent.
    """
    from zeroconf import DNSQuestionType, Error, ServiceBrowser, ServiceInfo

    service, names = f"{wanted.name}.", dict[str, None]()

    def note(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:  # noqa: ARG001
        if len(names) < MOST_READ:
            names[name] = None

    found: dict[str, None] = {}
    try:
        with _opened(wanted.interface) as zeroconf:
            # Answers go to all: of several processes on a host, only one gets an answer to itself (RFC 6762, 15.1).
            browser = ServiceBrowser(zeroconf, service, handlers=[note], question_type=DNSQuestionType.QM)
            time.sleep(LIFETIME)  # threads of the library call `note` meanwhile
            browser.cancel()
            for name in list(names):
                try:
                    info = ServiceInfo(service, name)
                    info.load_from_cache(zeroconf)
                    properties = info.properties
                    address = (properties.get(b"address") or b"").decode()
                except (Error, ValueError):
                    continue  # it is not one of ours
                if properties.get(b"group") == wanted.group.encode() and 0 < len(address) <= LONGEST:
                    found[f"{address}{wanted.path}"] = None
    except (Error, OSError, ValueError) as error:
        raise TransportError(f"{wanted.name}: {error}") from error
    if not found:
        raise TransportError(f"{wanted.name}: no member answers")
    return tuple(found)


class ZeroconfMember:
    """Announces the address of this process until it is stopped.

    :param service: ``_service._tcp.local.``.
    :param address: where clients reach this process, ``http://host:port``.
    :param instance: a name that no other process has.
    :raises ConfigurationError: there is no such interface, or nothing can be announced.
    """

    def __init__(self, service: str, group: str, address: str, interface: str | None, instance: str) -> None:
        from zeroconf import Error, ServiceInfo

        service = f"{service.rstrip('.')}."
        parts = urlsplit(address)
        host = parts.hostname or ""
        try:
            own, server = [str(ipaddress.ip_address(host))], f"{instance}.local."
        except ValueError:
            own, server = [], f"{host}."
        try:
            self._zeroconf = _opened(interface)
        except OSError as error:
            raise ConfigurationError(f"discovery.zeroconf: {error}") from error
        try:
            info = ServiceInfo(
                service,
                f"{instance}.{service}",
                port=parts.port or (443 if parts.scheme == "https" else 80),
                properties={"address": address, "group": group},
                server=server,
                parsed_addresses=own,
            )
            # The name is unique, so no host is asked for it before.
            self._zeroconf.register_service(info, cooperating_responders=True)
        except (Error, OSError, ValueError) as error:
            self._zeroconf.close()
            raise ConfigurationError(f"discovery.zeroconf: {error}") from error

    def stop(self) -> None:
        """Announce the end. Its threads have ended afterwards."""
        self._zeroconf.close()


def _opened(interface: str | None) -> Zeroconf:
    from zeroconf import InterfaceChoice, IPVersion, Zeroconf

    if interface is not None:
        check_interface(interface)  # the library would leave its sockets open
    interfaces = InterfaceChoice.All if interface is None else [interface]
    return Zeroconf(interfaces=interfaces, ip_version=IPVersion.V4Only, use_asyncio=False)
