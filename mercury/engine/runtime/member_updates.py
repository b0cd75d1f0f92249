"""Asks destinations with several addresses for their members, while something is sent there (decision 76)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, runtime_checkable

from mercury.engine.address_book import AddressBook
from mercury.engine.addresses import AddressPolicy, server_of, split_url
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.members import MOST, QUERY, MemberList, read_members
from mercury.engine.runtime import multicast_agent, zeroconf_agent
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.srv_records import look_up
from mercury.errors import ConfigurationError, TransportError

log = logging.getLogger("mercury.runtime")

#: Seconds between two questions about one destination, of which a random part between 1/2 and 1 is used.
INTERVAL = 10.0
#: The same while no address is known.
NOBODY_INTERVAL = 1.0
#: Seconds within which the clients of a destination with a new member choose one anew, each at a random time.
REBALANCED_WITHIN = 30.0
#: The most addresses that are asked in one turn, before the given ones are used again.
MOST_ASKED = 4


@runtime_checkable
class Fetching(Protocol):
    """A transport that fetches documents."""

    def get(self, url: str) -> bytes:
        """A document of bounded size.

        :raises TransportError: it cannot be fetched.
        """

    def alike(self, url: str, other: str) -> bool:
        """Whether the same settings of peers apply to two URLs: certificates, headers, WS-Security."""


class NoFetching:
    """In the place of a transport that fetches nothing."""

    def get(self, url: str) -> bytes:
        raise TransportError(f"{url}: this transport fetches no documents")

    def alike(self, url: str, other: str) -> bool:
        return url == other


class MemberUpdates:
    """Keeps the lists of addresses up to date that ask for it by an option. Thread-safe.

    It has no thread of its own: a post begins a question when one is due, in a helper thread.

    :param allowed: addresses that may be used although the list does not have them.
    :param clock: seconds of a monotonic clock, the one of the times in ``book``.
    :param chance: returns random numbers, 0 <= n < 1.
    """

    def __init__(
        self,
        book: AddressBook,
        transport: Fetching,
        allowed: AddressPolicy,
        clock: Callable[[], float],
        chance: Callable[[], float],
        helpers: HelperThreads,
    ) -> None:
        self._book = book
        self._transport = transport
        self._allowed = allowed
        self._clock = clock
        self._chance = chance
        self._helpers = helpers
        self._mutex = threading.Lock()
        #: When each destination may be asked again.
        self._next: dict[str, float] = {}
        #: Destinations that are being asked for.
        self._asking: set[str] = set()
        self._refusals = LogLimiter(1, LOG_INTERVAL)

    def used(self, endpoint: str) -> None:
        """Something is posted to a destination: ask for its members if that is due.

        :raises ConfigurationError: the destination is not known.
        """
        options = self._book.options(endpoint)
        if not options.asks:
            return
        now = self._clock()
        interval = INTERVAL if self._book.addresses(endpoint) else NOBODY_INTERVAL
        with self._mutex:
            if endpoint in self._asking or now < self._next.get(endpoint, now):
                return
            self._asking.add(endpoint)
            self._next[endpoint] = now + interval * (1 + self._chance()) / 2
        self._helpers.run(partial(self._ask, endpoint))

    def _ask(self, endpoint: str) -> None:
        try:
            self.update(endpoint)
        finally:
            with self._mutex:
                self._asking.discard(endpoint)

    def update(self, endpoint: str) -> None:
        """Ask for the members of a destination. If nothing answers, the given addresses are used again; where none are
        given, those that were found before are kept."""
        try:
            given = self._book.given(endpoint)
            for url in self._sources(endpoint, given):
                try:
                    found = self._read(endpoint, url)
                except (TransportError, ValueError) as error:
                    log.info("%s: its members are not known: %s: %s", endpoint, url, error)
                    continue
                wanted = re.compile(self._book.options(endpoint).members_filter or ".*", re.DOTALL)
                urls = [each for each in found.urls if wanted.fullmatch(each) and self._may_use(endpoint, each, given)]
                # Cut only now: in the local network any host may have answered, and a flood of others hides no member.
                self._take(endpoint, urls[:MOST] or list(given), rebalance=found.rebalance)
                return
            if given:
                self._take(endpoint, list(given), rebalance=False)
        except ConfigurationError as error:
            log.info("%s", error)  # the settings no longer have it

    def _read(self, endpoint: str, url: str) -> MemberList:
        """What a source says.

        :raises TransportError, ValueError: it does not answer, or not with members.
        """
        options = self._book.options(endpoint)
        if options.update_srv is not None:
            return MemberList(urls=look_up(options.update_srv, self._chance))
        announced = options.update_announced
        if announced is not None:
            zeroconf = announced.agent == "zeroconf"
            urls = zeroconf_agent.look_up(announced) if zeroconf else multicast_agent.look_up(announced, self._chance)
            return MemberList(urls=urls)
        return read_members(self._transport.get(url))

    def _sources(self, endpoint: str, given: tuple[str, ...]) -> Iterator[str]:
        """The URLs to ask, the best first."""
        options = self._book.options(endpoint)
        looked_up = options.update_srv or options.update_announced
        url = looked_up.name if looked_up is not None else options.update_url
        if url is not None:
            yield url
            return
        known = sorted(self._book.addresses(endpoint), key=lambda each: -each.worked_at)
        for address in list(dict.fromkeys([*(each.url for each in known), *given]))[:MOST_ASKED]:
            yield f"{address}{'&' if '?' in address else '?'}{QUERY}"

    def _may_use(self, endpoint: str, url: str, given: tuple[str, ...]) -> bool:
        """Whether an address that a document names may be used; it may be anything."""
        if url in given:
            return True
        problem = self._problem(endpoint, url, given)
        # In the local network any host can name new addresses all the time.
        about = endpoint if self._book.options(endpoint).update_announced is not None else f"{endpoint} {url}"
        if problem is not None and self._refusals.allow(about, self._clock()):
            log.warning("%s: the member %r is not used: %s", endpoint, url, problem, extra={"endpoint": endpoint})
        return problem is None

    def _problem(self, endpoint: str, url: str, given: tuple[str, ...]) -> str | None:
        """Why an address that is not given may not be used; ``None`` = it may."""
        try:
            parts = split_url(url)
        except ConfigurationError:
            return "it is no URL to send to"
        known = [split_url(each) for each in given]
        if parts.username is not None or parts.fragment:
            return "it has a user or a fragment"
        if known and parts.scheme not in {each.scheme for each in known}:
            return f"it is not {known[0].scheme}:"
        if known and (parts.path, parts.query) not in {(each.path, each.query) for each in known}:
            return "its path is another one"
        if server_of(url) not in {server_of(each) for each in given} and not self._allowed.allows(url):
            return "it is not in engine.addresses.allowed"
        if not self._transport.alike(url, given[0] if given else endpoint):
            return "other settings of peers apply to it"
        return None

    def _take(self, endpoint: str, urls: list[str], *, rebalance: bool) -> None:
        at = self._clock() + self._chance() * REBALANCED_WITHIN if rebalance else None
        if self._book.update(endpoint, urls, at):
            log.info("%s: its members are %s", endpoint, ", ".join(urls), extra={"endpoint": endpoint})
