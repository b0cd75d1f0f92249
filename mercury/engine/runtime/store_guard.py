"""Keeps what is posted to a destination from another store than the one that its sequences are at (decision 73)."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from mercury.bounded import BoundedDict
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_reply import MISDIRECTED
from mercury.errors import StorageError, TransportError
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.runtime")

#: The most addresses, and the most destinations, of which is known which store they have.
MOST = 10_000
#: How often a refusal at one address is noted in the store within `LOG_INTERVAL`: a peer may state any id.
MOST_NOTES = 4
#: The id of another store, if a proxy has removed the header.
UNNAMED = "not named"
#: What belongs to a sequence at the other side without saying which store that is in.
_UNMARKED = frozenset({Purpose.ACKNOWLEDGEMENT, Purpose.DESTINATION_END})


class _Nothing(enum.Enum):
    """What is known of an address that has stated no store."""

    #: Nothing was heard of it.
    UNHEARD = enum.auto()
    #: Its answers state none: it is no Mercury, or a proxy removes the header.
    STATES_NONE = enum.auto()


class OtherStore(TransportError):
    """Another store has answered than the one that a sequence is at: the answer counts as none.

    :param found: the id that the answer states.
    """

    def __init__(self, address: str, expected: str, found: str) -> None:
        super().__init__(
            f"{address}: another store answers there ({found} instead of {expected}): nothing is sent to it until "
            "`mercury sequences new-destination` says that it is a new destination"
        )
        self.address = address
        self.expected = expected
        self.found = found


class GuardedEngine(Protocol):
    """What the guard needs of the engine. The methods may be called in any thread."""

    def probe(self, outgoing: Outgoing) -> HttpMessage: ...

    def store_refused(self, endpoint: str, error: OtherStore, now: float) -> None: ...

    def store_answers(self, endpoint: str, address: str) -> None: ...

    def refused_addresses(self) -> Mapping[str, str]: ...


class StoreGuard:
    """What each address has said of its store, and whether it may get what belongs to a sequence. Thread-safe.

    :param clock: seconds since the epoch.
    :param helpers: the threads of what uses the store.
    """

    def __init__(self, engine: GuardedEngine, clock: Callable[[], float], helpers: HelperThreads) -> None:
        self._engine = engine
        self._clock = clock
        self._helpers = helpers
        self._mutex = threading.Lock()
        self._stated: BoundedDict[str, str | _Nothing] = BoundedDict(MOST)
        #: The store of each destination, by the last sequence that was worked on.
        self._expected: BoundedDict[str, str] = BoundedDict(MOST)
        self._notes = LogLimiter(MOST_NOTES, LOG_INTERVAL)

    def start(self) -> None:
        """Learn which addresses were refused before, so that it is noted when they have the right store."""
        try:
            found = self._engine.refused_addresses()
        except StorageError as error:
            log.info("it is not known which addresses were refused: %s", error)
            return
        with self._mutex:
            self._stated.update(found)

    def expecting(self, outgoing: Outgoing) -> Outgoing:
        """A post with the store that it is meant for: that of the destination, if its own sequence does not say."""
        with self._mutex:
            if outgoing.store is not None:
                self._expected[outgoing.url] = outgoing.store
                return outgoing
            expected = self._expected.get(outgoing.url) if outgoing.purpose in _UNMARKED else None
        return outgoing if expected is None else replace(outgoing, store=expected)

    def needs_probe(self, outgoing: Outgoing, address: str) -> bool:
        """Whether it has to be asked which store is at an address, before a message is sent there.

        Only messages have content. The server checks what else is sent: its request names the store that it is for.
        """
        if outgoing.store is None or outgoing.purpose is not Purpose.MESSAGE:
            return False
        with self._mutex:
            stated = self._stated.get(address, _Nothing.UNHEARD)
        return stated is not _Nothing.STATES_NONE and stated != outgoing.store

    def probe(self, outgoing: Outgoing) -> HttpMessage:
        """The message that asks.

        :raises TransportError: WS-Security cannot be applied to it.
        """
        return self._engine.probe(outgoing)

    def check(
        self, outgoing: Outgoing, address: str, result: HttpMessage | Exception, *, probe: bool = False
    ) -> HttpMessage | Exception:
        """The end of an exchange with an address, or `OtherStore` in its place.

        :param probe: the exchange has only asked: an address of which another store is known has to state the right
            one now.
        """
        if isinstance(result, Exception):
            return result
        expected = outgoing.store
        with self._mutex:
            before = self._stated.get(address, _Nothing.UNHEARD)
            if result.store is not None:
                self._stated[address] = result.store
            elif before is _Nothing.UNHEARD and _answers(result):
                self._stated[address] = _Nothing.STATES_NONE
        found = result.store
        if found is None and probe and isinstance(before, str) and before != expected:
            found = before
        if found is None and result.status == MISDIRECTED:
            found = UNNAMED
        if expected is None or found is None:
            return result
        if found == expected:
            if isinstance(before, str) and before != found:
                self._helpers.run(partial(self._note, self._engine.store_answers, outgoing.url, address))
            return result
        error = OtherStore(address, expected, found)
        now = self._clock()
        with self._mutex:
            noted = self._notes.allow(f"{outgoing.url} {address}", now)
        if noted:
            self._helpers.run(partial(self._note, self._engine.store_refused, outgoing.url, error, now))
        return error

    @staticmethod
    def _note(note: Callable[..., None], *what: object) -> None:
        try:
            note(*what)
        except StorageError as error:
            log.info("which store answers could not be noted: %s", error)


def _answers(reply: HttpMessage) -> bool:
    """Whether a reply is from the endpoint, as far as it shows, and not the error page of a proxy."""
    return reply.status < 300 or "xml" in reply.content_type
