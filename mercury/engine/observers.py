"""Calls the observers with events after the commit.

Code that changes state in a transaction calls `Observers.emit` with that transaction. For an event that occurs once for
each message it calls `Observers.wants` first, so that no event is built without a subscriber.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from mercury.engine import event_log
from mercury.engine.events import EVENTS, Event
from mercury.errors import ConfigurationError
from mercury.storage.api import Transaction

log = logging.getLogger("mercury.events")

#: A function that is called with events. It must not block, because its caller is a worker thread.
Observer: TypeAlias = Callable[[Event], None]


@dataclass(slots=True, eq=False)
class _Subscription:
    observer: Callable[[Any], None]
    kinds: tuple[type[Event], ...]
    #: An error of it was logged.
    reported: bool = False

    def notify(self, event: Event) -> None:
        try:
            self.observer(event)
        except Exception:
            if not self.reported:
                self.reported = True
                text = "the observer %s failed with %s; its later errors are not logged"
                log.exception(text, _name(self.observer), type(event).__name__)


class Observers:
    """The observers of one engine. Thread-safe. One of the observers writes Mercury's own log lines."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: Replaced as a whole, so that it is read without the mutex. In the order of subscription.
        self._by_kind: dict[type[Event], tuple[_Subscription, ...]] = {}
        self.subscribe(event_log.write, *event_log.KINDS)

    def subscribe(self, observer: Callable[[Any], None], *kinds: type[Event]) -> Callable[[], None]:
        """Call an observer with the events of these kinds; without kinds, or with `Event`, with all.

        :returns: ends the subscription.
        :raises ConfigurationError: a kind is no kind of event.
        """
        subscription = _Subscription(observer, _concrete(kinds or (Event,)))
        with self._mutex:
            added = {kind: (*self._by_kind.get(kind, ()), subscription) for kind in subscription.kinds}
            self._by_kind = self._by_kind | added
        return partial(self._end, subscription)

    def _end(self, subscription: _Subscription) -> None:
        with self._mutex:
            left = {
                kind: tuple(each for each in those if each is not subscription) for kind, those in self._by_kind.items()
            }
            self._by_kind = {kind: those for kind, those in left.items() if those}

    def wants(self, kind: type[Event]) -> bool:
        """Whether an observer is subscribed to this kind."""
        return kind in self._by_kind

    def emit(self, tx: Transaction, event: Event) -> None:
        """Call the observers when ``tx`` has committed, in the thread that commits; never if it is rolled back."""
        if type(event) in self._by_kind:
            tx.after_commit(partial(self.emit_now, event))

    def emit_now(self, event: Event) -> None:
        """Call the observers immediately with an event that is committed already."""
        for subscription in self._by_kind.get(type(event), ()):
            subscription.notify(event)


def _concrete(kinds: tuple[type[Event], ...]) -> tuple[type[Event], ...]:
    """The kinds of events that these stand for.

    :raises ConfigurationError: one of them is no event.
    """
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigurationError(f"{kind!r} is no kind of event: see mercury.events.EVENTS")
    return tuple(each for each in EVENTS if issubclass(each, kinds))


def _name(observer: Callable[..., Any]) -> str:
    """An observer, for people."""
    name = getattr(observer, "__qualname__", None)
    return f"{observer.__module__}.{name}" if name is not None else repr(observer)
