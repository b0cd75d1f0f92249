"""The URI of a destination whose addresses are looked up: ``discovery:(registry:http://host/list)?option=value``."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from urllib.parse import urlencode

from mercury.engine.addresses import split_url
from mercury.engine.discovery_settings import (
    DEFAULT_GROUP,
    NEEDS_ZEROCONF,
    SERVICE_TYPE,
    check_scope,
    is_multicast,
)
from mercury.engine.failover_uri import DISCOVERY, SCHEME, FailoverUri, options_of, pairs_in, read_failover
from mercury.errors import ConfigurationError
from mercury.statemachine.failover import AnnouncedMembers, FailoverOptions, SrvName

_FORM = (
    "discovery:(AGENT)?option=value is needed, with one of the agents static:(URL,URL), registry:URL,"
    " dns:_service._tcp.domain, zeroconf:_service._tcp.local. and multicast://ADDRESS:PORT"
)
_STATIC = re.compile(r"(?://)?\(static:(?://)?(\([^()]*\))\)(\?.*)?", re.DOTALL)
_AGENT = re.compile(r"(?://)?\(([a-z]+):([^()]*)\)(?:\?(.*))?", re.DOTALL)
_SRV = re.compile(r"_[A-Za-z0-9-]{1,62}\._tcp(?:\.[A-Za-z0-9_-]{1,63})+\.?")
_NAMESERVER = re.compile(r"(?:[0-9.]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")
_PATH = re.compile(r"/[!-~]*")

#: Options that have no use here, with the reason.
_REFUSED = {
    "reconnectDelay": "it is initialReconnectDelay",
    "priorityBackup": "the addresses are not known before; priorities are those of SRV records",
    "priorityURIs": "the addresses are not known before; priorities are those of SRV records",
    "updateURIsSupported": "the addresses are looked up already",
    "updateURIsURL": "the registry's URL is what is read",
}
#: Options of the agents themselves.
_OWN = {
    "registry": ("filter",),
    "dns": ("filter", "path", "scheme", "nameserver"),
    "zeroconf": ("filter", "path", "group", "interface"),
    "multicast": ("filter", "path", "group", "interface"),
}


def read_destination(uri: str, name: str | None = None) -> FailoverUri:
    """Read a list of addresses, or where to look them up.

    :param name: the name that the settings give it.
    :raises ConfigurationError: it is wrong, an option is not known or has no use, or an extra is not installed.
    """
    if not uri.startswith(DISCOVERY):
        return read_failover(uri, name)
    rest = uri.removeprefix(DISCOVERY)
    static = _STATIC.fullmatch(rest)
    if static is not None:
        return read_failover(f"{SCHEME}{static[1]}{static[2] or ''}", name)
    match = _AGENT.fullmatch(rest)
    if match is None:
        raise ConfigurationError(f"no agent of discovery: {uri!r} ({_FORM})")
    agent, where = match[1], match[2].strip()
    if agent not in _OWN:
        raise ConfigurationError(f"discovery: there is no agent {agent!r} ({_FORM})")
    query = match[3] or ""
    if agent in ("zeroconf", "multicast"):
        where, _, inner = where.partition("?")  # other products have the group's name there
        query = "&".join(each for each in (inner, query) if each)
    own, options = _options(agent, query)
    if agent == "registry":
        endpoint, options = _registry(where, options)
    elif agent == "dns":
        endpoint, options = _dns(where, own, options)
    else:
        endpoint, options = _announced(agent, where, own, options)
    return FailoverUri(f"{SCHEME}{name}" if name is not None else endpoint, (), options)


def _options(agent: str, query: str) -> tuple[dict[str, str], FailoverOptions]:
    own: dict[str, str] = {}
    others = []
    for name, value in pairs_in(query, DISCOVERY):
        reason = _REFUSED.get(name)
        if agent == "dns" and name == "randomize":
            reason = "SRV records have an order of their own"
        if agent in ("registry", "dns") and name == "group":
            reason = "the registry's URL, or the name in DNS, says which members"
        if reason is not None:
            raise ConfigurationError(f"{name}: {reason}; leave it out")
        if name not in _OWN[agent]:
            others.append((name, value))
        elif own.setdefault(name, value) != value:
            raise ConfigurationError(f"{name}: the option stands twice")
    chosen = own.get("filter", "")
    try:
        re.compile(chosen)
    except re.error as error:
        raise ConfigurationError(f"filter: {chosen!r} is no pattern: {error}") from error
    return own, replace(options_of(others, ()), members_filter=chosen)


def _registry(url: str, options: FailoverOptions) -> tuple[str, FailoverOptions]:
    parts = split_url(url)
    if parts.username is not None or parts.fragment:
        raise ConfigurationError(f"registry: {url!r} has a user or a fragment; passwords are in Mercury(peers={{...}})")
    return f"{DISCOVERY}(registry:{url})", replace(options, update_url=url)


def _dns(name: str, own: dict[str, str], options: FailoverOptions) -> tuple[str, FailoverOptions]:
    if not _SRV.fullmatch(name) or len(name) > 253:
        raise ConfigurationError(f"dns: {name!r} is not of the form _service._tcp.domain")
    path, scheme, server = _path(own), own.get("scheme", "https"), own.get("nameserver")
    if scheme not in ("http", "https"):
        raise ConfigurationError(f"scheme: {scheme!r} is neither http nor https")
    if server is not None and not _NAMESERVER.fullmatch(server):
        raise ConfigurationError(f"nameserver: {server!r} is not of the form address:port")
    if find_spec("dns") is None:
        raise ConfigurationError("discovery:(dns:...) needs dnspython: pip install mercury-rm[discovery]")
    name = name.lower().rstrip(".")
    # Path and scheme say where messages go, so a process that has only the store has to know them.
    endpoint = f"{DISCOVERY}(dns:{name})?{urlencode({'path': path, 'scheme': scheme}, safe='/')}"
    srv = SrvName(name=name, scheme=scheme, path=path, nameserver=server)
    return endpoint, replace(options, update_srv=srv, randomize=False)


def _announced(agent: str, where: str, own: dict[str, str], options: FailoverOptions) -> tuple[str, FailoverOptions]:
    group, interface = own.get("group", DEFAULT_GROUP), own.get("interface")
    if agent == "zeroconf":
        name, shown = where.lower().rstrip("."), where.lower().rstrip(".")
        if not SERVICE_TYPE.fullmatch(name):
            raise ConfigurationError(f"zeroconf: {where!r} is not of the form _service._tcp.local.")
        if find_spec("zeroconf") is None:
            raise ConfigurationError(f"discovery:(zeroconf:...) {NEEDS_ZEROCONF}")
    else:
        name = where.removeprefix("//")
        shown = f"//{name}"
        if not is_multicast(name):
            raise ConfigurationError(f"multicast: {where!r} is not of the form multicast://239.255.42.99:6155")
    check_scope(group, interface)
    path = _path(own)
    endpoint = f"{DISCOVERY}({agent}:{shown})?{urlencode({'path': path, 'group': group}, safe='/')}"
    wanted = AnnouncedMembers(agent=agent, name=name, group=group, path=path, interface=interface)
    return endpoint, replace(options, update_announced=wanted)


def _path(own: dict[str, str]) -> str:
    path = own.get("path", "")
    if not _PATH.fullmatch(path) or "#" in path:
        raise ConfigurationError(
            f"path: {path!r} is no path of a service: members are found without one, so path=/... is needed"
        )
    return path
