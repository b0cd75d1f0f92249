"""The destinations with several addresses that this process knows, and what it knows of each address."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from mercury.engine.addresses import split_url
from mercury.engine.discovery_uri import read_destination
from mercury.engine.failover_uri import SCHEME, FailoverUri, is_failover, name_of
from mercury.errors import ConfigurationError
from mercury.statemachine.failover import Address, AddressList, FailoverOptions, Failure, Until


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSettings:
    """Destinations with several addresses, by name.

    :raises ConfigurationError: an entry is not of the form, or its URI is wrong; the text begins with the setting's
        name.
    """

    #: Each entry ``NAME=failover:(URL,URL)?options`` or ``NAME=discovery:(AGENT)?options``: then
    #: ``mercury.to("failover:NAME")`` sends there, and its addresses and options can change while messages wait.
    destinations: tuple[str, ...] = field(default=())
    #: The URL at which clients reach this process and no other one, ``http://host:port``: it is named to clients that
    #: ask for the members of their destination (``updateURIsSupported=true``); ``None`` = none are named.
    public_address: str | None = None
    #: A regular expression: members whose whole ``public_address`` does not match are not named; empty = all are.
    members_filter: str = ""
    #: Clients choose among the members anew, each at a random time within 30 s, when there is a new one.
    rebalance: bool = False

    def __post_init__(self) -> None:
        if self.public_address is not None:
            parts = split_url(self.public_address)
            if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
                raise ConfigurationError(f"public_address: {self.public_address!r} is not of the form http://host:port")
        try:
            re.compile(self.members_filter)
        except re.error as error:
            raise ConfigurationError(f"members_filter: {self.members_filter!r} is no pattern: {error}") from error
        if len(_named(self.destinations)) < len(self.destinations):
            raise ConfigurationError("destinations: a name stands there twice")


def _named(entries: tuple[str, ...]) -> dict[str, FailoverUri]:
    """The destinations of the settings by their names.

    :raises ConfigurationError: an entry is wrong.
    """
    found = {}
    for entry in entries:
        name, _, uri = (part.strip() for part in entry.partition("="))
        try:
            if name_of(f"{SCHEME}{name}") is None or not uri:
                raise ConfigurationError("it is not of the form NAME=failover:(URL,URL)")
            found[name] = read_destination(uri, name)
        except ConfigurationError as error:
            raise ConfigurationError(f"destinations: {name}: {error}") from error
    return found


class AddressBook:
    """The destinations with several addresses. Thread-safe.

    :param settings: those that have a name.
    """

    def __init__(self, settings: FailoverSettings | None = None) -> None:
        self._named = _named(settings.destinations) if settings is not None else {}
        self._mutex = threading.Lock()
        self._given: dict[str, FailoverUri] = {}
        self._lists: dict[str, AddressList] = {}

    def add(self, uri: str) -> FailoverUri:
        """The destination that a URI means; its options hold from now on.

        The endpoint of a known destination means that one, with its options.

        :raises ConfigurationError: the URI is wrong, its name is not in the settings, or the same addresses are in use
            with other options.
        """
        if name_of(uri) is not None:
            return self._known(uri)
        found = read_destination(uri)
        with self._mutex:
            if uri in self._given:
                return self._given[uri]  # what the destination is known by in the store
            before = self._given.setdefault(found.endpoint, found)
            if before != found:
                raise ConfigurationError(
                    f"{found.endpoint} is in use with other options or another order: give both the same, or name the"
                    " destination in the settings (failover.destinations)"
                )
            known = self._list(found.endpoint)
            known.options = found.options
            if not found.options.asks:
                known.update(found.urls)
        return found

    def given(self, endpoint: str) -> tuple[str, ...]:
        """The addresses that the application or the settings have given.

        :raises ConfigurationError: the destination is not known.
        """
        return self._known(endpoint).urls

    def update(self, endpoint: str, urls: Sequence[str], rebalanced_at: float | None) -> bool:
        """See `AddressList.update`.

        :raises ConfigurationError: the destination is not known.
        """
        with self._mutex:
            return self._list(endpoint).update(urls, rebalanced_at)

    def first(self, url: str) -> str:
        """An address of a destination; a URL that is no list is returned unchanged.

        :raises ConfigurationError: the destination is not known, or its addresses are looked up.
        """
        if not is_failover(url):
            return url
        given = self._known(url).urls
        if not given:
            raise ConfigurationError(f"{url}: its addresses are looked up while something is posted")
        return given[0]

    def options(self, endpoint: str) -> FailoverOptions:
        """How the addresses of a destination are used.

        :raises ConfigurationError: it is not known.
        """
        return self._known(endpoint).options

    def addresses(self, endpoint: str) -> Sequence[Address]:
        """What is known of the addresses of a destination.

        :raises ConfigurationError: it is not known.
        """
        with self._mutex:
            return self._list(endpoint).addresses

    def choose(self, endpoint: str, now: float, chance: float) -> str | Until:
        """See `AddressList.choose`.

        :raises ConfigurationError: the destination is not known.
        """
        with self._mutex:
            return self._list(endpoint).choose(now, chance)

    def worked(self, endpoint: str, url: str, now: float) -> bool:
        """See `AddressList.worked`. Returns whether another address is in use than before."""
        with self._mutex:
            addresses = self._list(endpoint)
            before = addresses.current
            addresses.worked(url, now)
            return addresses.current != before

    def failed(self, endpoint: str, url: str, began: float, now: float, chance: float, failure: Failure) -> bool:
        """See `AddressList.failed`."""
        with self._mutex:
            return self._list(endpoint).failed(url, began, now, chance, failure)

    def is_silent(self, endpoint: str, url: str, since: float) -> bool:
        """See `AddressList.is_silent`."""
        with self._mutex:
            return self._list(endpoint).is_silent(url, since)

    def gives_up(self, endpoint: str, attempts: int) -> bool:
        """See `AddressList.gives_up`."""
        with self._mutex:
            return self._list(endpoint).gives_up(attempts)

    def _list(self, endpoint: str) -> AddressList:
        found = self._lists.get(endpoint)
        if found is None:
            known = self._known(endpoint)
            found = self._lists[endpoint] = AddressList(known.urls, known.options)
        return found

    def _known(self, endpoint: str) -> FailoverUri:
        """A destination. A list that the application has not named since the start of the process has the options'
        defaults."""
        name = name_of(endpoint)
        if name is None:
            return self._given.get(endpoint) or read_destination(endpoint)
        found = self._named.get(name)
        if found is None:
            raise ConfigurationError(
                f"{endpoint} is not among the destinations of the settings (failover.destinations)"
            )
        return found
