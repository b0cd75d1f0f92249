"""Observers of events, and error callbacks, for the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from mercury.engine.events import BranchInDoubt, DeadLettered, Event, MessageRefused, SequenceFailed
from mercury.engine.observers import Observer, Observers

if TYPE_CHECKING:
    from mercury.storage.xa.recovery import InDoubtBranch

#: Called with failed sequences, refused messages and dead letters; see `Observable.on_error`.
ErrorCallback: TypeAlias = Callable[[SequenceFailed | MessageRefused | DeadLettered], None]

A = TypeVar("A", bound=Event)
B = TypeVar("B", bound=Event)
C = TypeVar("C", bound=Event)


class Observable:
    """The methods of `Mercury` for observers.

    :param observers: called with all events.
    """

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.observers = Observers()
        for observer in observers:
            self.observers.subscribe(observer)

    @overload
    def subscribe(self, observer: Callable[[A], None], kind: type[A], /) -> Callable[[], None]: ...

    @overload
    def subscribe(self, observer: Callable[[A | B], None], kind: type[A], second: type[B], /) -> Callable[[], None]: ...

    @overload
    def subscribe(
        self, observer: Callable[[A | B | C], None], kind: type[A], second: type[B], third: type[C], /
    ) -> Callable[[], None]: ...

    @overload
    def subscribe(self, observer: Callable[[Event], None], /, *kinds: type[Event]) -> Callable[[], None]: ...

    def subscribe(self, observer: Callable[[Any], None], /, *kinds: type[Event]) -> Callable[[], None]:
        """Call an observer with each event of these kinds (`mercury.events`); without kinds, with all.

        It is called after the commit of the event, in the thread of Mercury that has committed. Several threads may
        call it at the same time. It must not block: sending, receiving or handling waits for it. The first exception of
        an observer is logged with its name; exceptions do not affect the message or other observers.

        Each commit emits an event once, in the process that committed. If the process is killed between the commit and
        the call, the event is lost.

        :returns: ends the subscription.
        :raises ConfigurationError: a kind is not a class of events.
        """
        return self.observers.subscribe(observer, *kinds)

    def on_error(self, function: ErrorCallback) -> ErrorCallback:
        """Call a function with failed sequences, refused messages and dead letters; a decorator.

        It is an observer like those of `subscribe`.
        """
        self.subscribe(function, SequenceFailed, MessageRefused, DeadLettered)
        return function

    def emit_in_doubt(self, branch: InDoubtBranch, now: float) -> None:
        """Emit that recovery has found a branch in doubt."""
        event = BranchInDoubt(at=now, gid=branch.gid, resource=branch.resource, since=branch.since, why=branch.why)
        self.observers.emit_now(event)
