"""Where a process announces itself to clients that look for members in the local network (decision 86)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from importlib.util import find_spec

from mercury.errors import ConfigurationError

SERVICE_TYPE = re.compile(r"_[A-Za-z0-9-]{1,15}\._tcp\.local\.?")
_GROUP = re.compile(r"[A-Za-z0-9._-]{1,63}")
#: The group that members and clients are in unless they say otherwise.
DEFAULT_GROUP = "default"
#: What the two agents need, for the text of errors.
NEEDS_ZEROCONF = "needs zeroconf: pip install mercury-rm[discovery]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """Where this process announces its ``failover.public_address``. Everything is off by default.

    :raises ConfigurationError: a value is not of its form, or the extra ``discovery`` is not installed; the text begins
        with the setting's name.
    """

    #: The service type by which it is found with zeroconf (DNS-SD over multicast DNS), ``_mercury._tcp.local.``;
    #: ``None`` = it is not.
    zeroconf: str | None = None
    #: The multicast group, ``239.255.42.99:6155``, where it answers the questions of clients; ``None`` = in none.
    multicast: str | None = None
    #: Only clients that ask for this group find it.
    group: str = DEFAULT_GROUP
    #: The IPv4 address of the interface that is used; ``None`` = all for zeroconf, the host's default for multicast.
    interface: str | None = None

    def __post_init__(self) -> None:
        if self.zeroconf is not None:
            if not SERVICE_TYPE.fullmatch(self.zeroconf):
                raise ConfigurationError(f"zeroconf: {self.zeroconf!r} is not of the form _service._tcp.local.")
            if find_spec("zeroconf") is None:
                raise ConfigurationError(f"zeroconf: it {NEEDS_ZEROCONF}")
        if self.multicast is not None and not is_multicast(self.multicast):
            raise ConfigurationError(f"multicast: {self.multicast!r} is not of the form 239.255.42.99:6155")
        check_scope(self.group, self.interface)

    @property
    def announces(self) -> str | None:
        """The name of a setting by which it is announced; ``None`` = it is not."""
        return "zeroconf" if self.zeroconf is not None else "multicast" if self.multicast is not None else None


def check_scope(group: str, interface: str | None) -> None:
    """Check a group of members, and the interface to their network.

    :raises ConfigurationError: one is not of its form; the text begins with its name.
    """
    if not _GROUP.fullmatch(group):
        raise ConfigurationError(f"group: {group!r} is not 1 to 63 letters, digits, dots, dashes")
    if interface is not None and not _is_ipv4(interface):
        raise ConfigurationError(f"interface: {interface!r} is no IPv4 address")


def is_multicast(text: str) -> bool:
    """Whether it is the IPv4 address of a multicast group, and a port."""
    host, _, port = text.rpartition(":")
    return (
        _is_ipv4(host)
        and ipaddress.IPv4Address(host).is_multicast
        and port.isascii()
        and port.isdecimal()
        and 0 < int(port) < 65536
    )


def _is_ipv4(text: str) -> bool:
    """Whether it is an IPv4 address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
