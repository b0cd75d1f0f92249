"""Messages as an operator sees them: pages, one message in full, and where a message is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.operations.timelines import Happening, of_message
from mercury.storage.audit import AuditFilter
from mercury.storage.letters import DeadLetter, Direction, LetterFilter
from mercury.storage.records import InboundMessage, OutboundMessage
from mercury.storage.searching import MessageFilter, Page, Settled
from mercury.storage.sql.overview import StoreOverview
from mercury.storage.sql.reads import letters, messages, operators, settled
from mercury.storage.sql.store import SqlStore
from mercury.storage.waiting import WaitingFilter, WaitingMessage

#: The most places of each kind that a search for one message returns.
MOST_PLACES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeMessage:
    """A waiting message with its body."""

    seen: WaitingMessage
    message: OutboundMessage | InboundMessage
    timeline: tuple[Happening, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the messages with a MessageID or a correlation are."""

    waiting: tuple[WaitingMessage, ...] = ()
    #: Messages that are acknowledged, and answered if they were requests, until their retention is over.
    settled: tuple[Settled, ...] = ()
    letters: tuple[DeadLetter, ...] = ()


class Messages:
    """The waiting messages of a store in a database.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def page(
        self, direction: Direction, which: MessageFilter, after: str | None = None, limit: int = 50
    ) -> Page[WaitingMessage]:
        """Waiting messages of one direction that match a filter, in the order of insertion; those of one sequence or
        key by number.

        :param after: `Page.after` of the page before.
        :raises UnknownPlace: ``after`` is not from a page.
        :raises StorageError: the store failed.
        """
        read = messages.outbound_page if direction is Direction.OUTBOUND else messages.inbound_page
        with self._store.transaction() as tx:
            return read(tx, which, after, limit)

    def one(self, direction: Direction, position: int) -> WholeMessage | None:
        """One waiting message in full; ``None`` = it does not wait any more.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            looking, which = StoreOverview(tx), WaitingFilter(position=position)
            message: OutboundMessage | InboundMessage | None
            if direction is Direction.OUTBOUND:
                found, message = looking.outbound(which, 1), looking.whole_outbound(position)
            else:
                found, message = looking.inbound(which, 1), looking.whole_inbound(position)
            if not found or message is None:
                return None
            actions = operators.audit(tx, AuditFilter(target=found[0].id), None, MOST_PLACES).items
        return WholeMessage(seen=found[0], message=message, timeline=of_message(found[0], message, actions))

    def settled(self, which: MessageFilter, after: str | None = None, limit: int = 50) -> Page[Settled]:
        """Messages that are done and are remembered, because they had a correlation: the newest first.

        :param which: its endpoint, key, sequence and times count; the times are those at which a message was done.
        :param after: `Page.after` of the page before.
        :raises UnknownPlace: ``after`` is not from a page.
        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return settled.settled_page(tx, which, after, limit)

    def places(self, *, message_id: str | None = None, correlation: str | None = None) -> Places:
        """Where the messages with a MessageID, or with a correlation, are. Dead letters are searched among the oldest.

        :raises StorageError: the store failed.
        """
        which = MessageFilter(message_id=message_id, correlation=correlation)
        dead = LetterFilter(message_id=message_id, correlation=correlation)
        with self._store.transaction() as tx:
            sent = messages.outbound_page(tx, which, None, MOST_PLACES).items
            received = messages.inbound_page(tx, which, None, MOST_PLACES).items
            done = settled.settled(tx, message_id, correlation, MOST_PLACES)
            found = letters.page(tx, dead, None, MOST_PLACES).items
        return Places(waiting=(*sent, *received), settled=tuple(done), letters=found)
