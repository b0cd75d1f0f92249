"""The URI of a destination with several addresses: ``failover:(http://a/svc,http://b/svc)?option=value``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl

from mercury.engine.addresses import split_url
from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import at_least
from mercury.statemachine.failover import FailoverOptions

Number = TypeVar("Number", int, float)

SCHEME = "failover:"
#: The beginning of a URI whose addresses are looked up: see `mercury.engine.discovery_uri`.
DISCOVERY = "discovery:"
_FORM = "failover:(http://a/path,http://b/path)?option=value is needed, or failover:NAME of the settings"
_LIST = re.compile(r"(?://)?\(([^()]*)\)(?:\?(.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

#: Options that have no use here, with the reason and what to do.
_REFUSED = {
    "backup": "no spare connection is kept: to open one takes a small part of the time to find that a member is gone",
    "maxCacheSize": "what is not acknowledged is in the store, and engine.max_outbound_backlog limits it",
}
_ALL = (
    "initialReconnectDelay",
    "maxReconnectDelay",
    "useExponentialBackOff",
    "backOffMultiplier",
    "maxReconnectAttempts",
    "startupMaxReconnectAttempts",
    "randomize",
    "backup",
    "timeout",
    "trackMessages",
    "maxCacheSize",
    "updateURIsSupported",
    "updateURIsURL",
    "nested.timeout",
    "warnAfterReconnectAttempts",
    "priorityBackup",
    "priorityURIs",
)


def is_failover(url: str) -> bool:
    """Whether a text is meant as the URI of a destination with several addresses."""
    return url.startswith((SCHEME, DISCOVERY))


@dataclass(frozen=True, slots=True)
class FailoverUri:
    """A destination with several addresses.

    :param endpoint: what the destination is known by in the store: the addresses in alphabetical order without the
        options, or the name that the settings give it.
    """

    endpoint: str
    urls: tuple[str, ...]
    options: FailoverOptions = field(default_factory=FailoverOptions)


def name_of(uri: str) -> str | None:
    """The name of a destination in the settings (``failover:NAME``); ``None`` = the text has a list of addresses.

    :raises ConfigurationError: it has neither.
    """
    rest = uri.removeprefix(SCHEME)
    if "(" in rest:
        return None
    if not _NAME.fullmatch(rest):
        raise ConfigurationError(f"not a list of addresses: {uri!r} ({_FORM})")
    return rest


def read_failover(uri: str, name: str | None = None) -> FailoverUri:
    """Read a list of addresses with its options.

    :param name: the name that the settings give it.
    :raises ConfigurationError: an address or an option is wrong, or is not known, or has no use here.
    """
    match = _LIST.fullmatch(uri.removeprefix(SCHEME))
    if not uri.startswith(SCHEME) or match is None:
        raise ConfigurationError(f"not a list of addresses: {uri!r} ({_FORM})")
    urls = tuple(url.strip() for url in match[1].split(","))
    if urls == ("",):
        raise ConfigurationError(f"there is no address in {uri!r} ({_FORM})")
    for url in urls:
        _check(url)
    if len(set(urls)) < len(urls):
        raise ConfigurationError(f"an address stands twice in {uri!r}")
    endpoint = f"{SCHEME}{name}" if name is not None else f"{SCHEME}({','.join(sorted(urls))})"
    return FailoverUri(endpoint, urls, options_of(pairs_in(match[2] or "", SCHEME), urls))


def _check(url: str) -> None:
    if url.startswith(("failover:", "discovery:", "masterslave:")):
        raise ConfigurationError(f"a list of addresses cannot contain another list: {url!r}")
    parts = split_url(url)
    if parts.username is not None:
        raise ConfigurationError("a user's name and password cannot be part of the URL to send to")
    if parts.fragment:
        raise ConfigurationError(f"not a URL to send to: {url!r} (HTTP does not send what follows #)")


def pairs_in(query: str, scheme: str) -> list[tuple[str, str]]:
    """The names and values of the options that follow the ``?`` of a URI.

    :param scheme: of the URI, for the text of errors.
    :raises ConfigurationError: they are not of the form ``name=value``.
    """
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise ConfigurationError(f"the options of {scheme} are not of the form name=value: {query!r}") from error


def options_of(pairs: Iterable[tuple[str, str]], urls: tuple[str, ...]) -> FailoverOptions:
    """The options of a list of addresses.

    :raises ConfigurationError: one is wrong, or is not known, or has no use here, or stands twice.
    """
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise ConfigurationError(f"{name}: the option stands twice")
        given[name] = value
    for name, value in given.items():
        _refuse(name, value)
    take = _Taker(given)
    initial = take.seconds("initialReconnectDelay", 0.01, least=0.001)
    longest = take.seconds("maxReconnectDelay", 30.0, least=0.001)
    if longest < initial:
        raise ConfigurationError("maxReconnectDelay: it is shorter than initialReconnectDelay")
    exponential = take.flag("useExponentialBackOff", default=True)
    multiplier = take.number("backOffMultiplier", 2.0, float)
    at_least(1, backOffMultiplier=multiplier)
    waits = take.number("timeout", -1, int)
    exchange = take.seconds("nested.timeout", -1.0, least=0.001)
    if waits != -1:
        at_least(0, timeout=waits)
    counts = {
        name: take.number(name, default, int)
        for name, default in (
            ("maxReconnectAttempts", -1),
            ("startupMaxReconnectAttempts", -1),
            ("warnAfterReconnectAttempts", 10),
        )
    }
    at_least(-1, **counts)
    return FailoverOptions(
        initial_delay=initial,
        max_delay=longest,
        multiplier=multiplier if exponential else 1.0,
        max_attempts=counts["maxReconnectAttempts"],
        startup_max_attempts=counts["startupMaxReconnectAttempts"],
        randomize=take.flag("randomize", default=True),
        timeout=None if waits == -1 else waits / 1000,
        exchange_timeout=None if exchange < 0 else exchange,
        warn_after=counts["warnAfterReconnectAttempts"],
        priority=_priority(take.flag("priorityBackup", default=False), given.get("priorityURIs"), urls),
        updates=take.flag("updateURIsSupported", default=False),
        update_url=_document(given.get("updateURIsURL")),
    )


def _document(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http:", "https:")):
        raise ConfigurationError(
            f"updateURIsURL: {url!r} is no http(s) URL; a list in a file belongs into the settings"
        )
    if url is not None:
        split_url(url)
    return url


def _refuse(name: str, value: str) -> None:
    if name == "backup" and value == "false":
        return
    if name in _REFUSED:
        raise ConfigurationError(f"{name}: {_REFUSED[name]}; leave it out")
    if name == "trackMessages" and value not in ("true", "false"):
        raise ConfigurationError(f"trackMessages: {value!r} is neither true nor false")
    if name.startswith("nested.") and name != "nested.timeout":
        raise ConfigurationError(
            f"{name}: of the options of each address there is nested.timeout only; certificates and headers are in "
            "Mercury(peers={...})"
        )
    if name not in _ALL:
        close = difflib.get_close_matches(name, _ALL, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(_ALL)}"
        raise ConfigurationError(f"{name}: failover: has no such option; {hint}")


def _priority(backup: bool, named: str | None, urls: tuple[str, ...]) -> frozenset[str]:
    if named is None:
        return frozenset(urls[:1]) if backup else frozenset()
    if not backup:
        raise ConfigurationError("priorityURIs: it needs priorityBackup=true")
    chosen = frozenset(url.strip() for url in named.split(","))
    for url in chosen - set(urls):
        raise ConfigurationError(f"priorityURIs: {url!r} is not in the list of addresses")
    return chosen


class _Taker:
    """Reads values of options."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._given.get(name)
        if value is not None and value not in ("true", "false"):
            raise ConfigurationError(f"{name}: {value!r} is neither true nor false")
        return default if value is None else value == "true"

    def number(self, name: str, default: Number, kind: Callable[[str], Number]) -> Number:
        value = self._given.get(name)
        if value is None:
            return default
        try:
            number = kind(value)
        except ValueError:
            raise ConfigurationError(f"{name}: {value!r} is not a number") from None
        if not -1e9 < number < 1e9:
            raise ConfigurationError(f"{name}: {value} is out of range")
        return number

    def seconds(self, name: str, default: float, *, least: float) -> float:
        """An option in milliseconds, as seconds."""
        if name not in self._given:
            return default
        found = self.number(name, 0.0, float) / 1000
        if found < least:
            raise ConfigurationError(f"{name}: {self._given[name]} is not at least {least * 1000:g} (milliseconds)")
        return found
