"""Queues of waiting posts that take turns: no post waits behind one to an endpoint that does not answer."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mercury.engine.exchange import Outgoing
from mercury.engine.runtime.exchange_limit import ExchangeLimit

Slot = tuple[str, str, int]


class PostQueues:
    """Queues of posts by owner (`Outgoing.owner`) and endpoint (`Outgoing.error_name`).

    The owners take turns, and so do the endpoints of one owner: an owner with many queues gets no more than an owner
    with one.
    """

    def __init__(self) -> None:
        #: By owner and endpoint; the queue served longest ago comes first.
        self._queues: OrderedDict[str, OrderedDict[str, deque[Outgoing]]] = OrderedDict()
        #: The number of queues by endpoint.
        self._names: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, name: str) -> bool:
        """Whether posts to an endpoint wait."""
        return name in self._names

    def put(self, outgoing: Outgoing) -> None:
        queues, name = self._queues.setdefault(outgoing.owner, OrderedDict()), outgoing.error_name
        if name not in queues:
            queues[name] = deque()
            self._names[name] = self._names.get(name, 0) + 1
        queues[name].append(outgoing)

    def first(self, has_room: Callable[[str], bool]) -> str | None:
        """The endpoint that has the next turn; ``None`` = no owner of a waiting post has room.

        :param has_room: whether an owner may have another exchange.
        """
        return next((next(iter(queues)) for owner, queues in self._queues.items() if has_room(owner)), None)

    def take(self, has_room: Callable[[str], bool], may: Callable[[Outgoing], bool]) -> Outgoing | None:
        """Take what comes next; ``None`` = nothing.

        :param has_room: whether an owner may have another exchange; the others are passed over.
        :param may: whether the first post to an endpoint may be made now; otherwise the endpoint is passed over.
        """
        for owner, queues in self._queues.items():
            if not has_room(owner):
                continue
            for name, posts in queues.items():
                if may(posts[0]):
                    return self._pop(owner, name)
        return None

    def take_of(self, owner: str) -> Outgoing:
        """Take a post of an owner from its queue served longest ago. The owner must have one."""
        return self._pop(owner, next(iter(self._queues[owner])))

    def move(self, name: str, to: PostQueues) -> None:
        """Move all posts to an endpoint to other queues, which must have none to it."""
        for owner in [owner for owner, queues in self._queues.items() if name in queues]:
            to._queues.setdefault(owner, OrderedDict())[name] = self._queues[owner].pop(name)
            if not self._queues[owner]:
                del self._queues[owner]
        to._names[name] = self._names.pop(name)

    def counts(self) -> dict[str, int]:
        """The numbers of waiting posts, by owner."""
        return {owner: sum(map(len, queues.values())) for owner, queues in self._queues.items()}

    def _pop(self, owner: str, name: str) -> Outgoing:
        queues = self._queues[owner]
        found = queues[name].popleft()
        if queues[name]:
            queues.move_to_end(name)
        else:
            del queues[name]
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]
        if queues:
            self._queues.move_to_end(owner)
        else:
            del self._queues[owner]
        return found


class Kind(enum.Enum):
    """The kinds of posts to a server."""

    HEALTHY = enum.auto()
    FAILING_SHARE = enum.auto()
    ANSWER = enum.auto()


@dataclass(slots=True, eq=False)
class Lane:
    """The open exchanges with one server that have a limit together."""

    limit: ExchangeLimit
    open: int = 0

    def has_room(self) -> bool:
        """Whether another one may be open. If not, the limit notes that a post waits."""
        if self.open < self.limit.limit:
            return True
        self.limit.reached()
        return False


@dataclass(slots=True, eq=False)
class Begun:
    """An exchange that may begin, and what it counts for until it ends."""

    outgoing: Outgoing
    #: Of the capacity of the pool.
    weight: int
    #: The exchanges of its server that it shares a limit with.
    lane: Lane
    #: It began while its endpoint failed.
    failing: bool
    #: When it began, by the clock.
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange that has ended."""

    begun: Begun
    #: Its reply has yet to be stored: see `SenderPool.stored`.
    queued_reply: bool
    #: The server was not reached, or refused the post as too much: it gets fewer exchanges.
    overloaded: bool = False
    #: The server is Mercury, which stores together what arrives together.
    together: bool = False


@dataclass(slots=True, eq=False)
class Server:
    """The open exchanges with one server, and the posts that wait for it."""

    #: Exchanges that the server answers at once, and those that it may hold open for a response.
    answered: Lane
    held: Lane
    #: The capacity in use (`Begun.weight`).
    in_use: int = 0
    #: Open exchanges: those of answers; those begun while their endpoint failed; all by endpoint.
    answering: int = 0
    trying: int = 0
    endpoints: dict[str, int] = field(default_factory=dict)
    #: Posts to endpoints whose last exchange failed wait separately: they have few exchanges, and delay no others.
    healthy: PostQueues = field(default_factory=PostQueues)
    failing: PostQueues = field(default_factory=PostQueues)
    answers: PostQueues = field(default_factory=PostQueues)
    #: The number of waiting answers, and of waiting posts that may be held.
    count: int = 0
    waiting_held: int = 0
    #: The three kinds take turns: the one served longest ago comes first.
    order: deque[Kind] = field(default_factory=lambda: deque(Kind))

    @property
    def waiting(self) -> bool:
        return bool(self.healthy or self.failing or self.answers)

    def has_room(self) -> bool:
        """Whether a waiting post may begin, as far as the limits tell without a look at it."""
        held = self.waiting_held > 0 and self.held.has_room()
        return self.answered.has_room() or held

    def part(self, of: int) -> int:
        """A part of the exchanges of the server that are answered at once, at least one."""
        return max(1, self.answered.limit.limit // of)

    def sort(self, name: str, failing: bool) -> None:
        """Move the posts to an endpoint to the queues of its current kind."""
        if failing and name in self.healthy:
            self.healthy.move(name, self.failing)
        elif not failing and name in self.failing:
            self.failing.move(name, self.healthy)

    def forget(self) -> None:
        """Drop all waiting posts."""
        self.healthy, self.failing, self.answers = PostQueues(), PostQueues(), PostQueues()
        self.count = self.waiting_held = 0


class WaitingAnswers:
    """The waiting answers of each owner, at all servers.

    :param most: the most waiting answers for one server, and for all.
    """

    def __init__(self, most: int, most_of_all: int) -> None:
        self._most, self._most_of_all = most, most_of_all
        self._count = 0
        #: By owner: its answers, the oldest first, each with its server.
        self._owners: dict[str, OrderedDict[Slot, str]] = {}

    def put(self, server: Server, name: str, outgoing: Outgoing) -> None:
        server.answers.put(outgoing)
        server.count += 1
        self._count += 1
        self._owners.setdefault(outgoing.owner, OrderedDict())[outgoing.slot] = name

    def remove(self, server: Server, outgoing: Outgoing) -> None:
        """Remove an answer that no longer waits."""
        server.count -= 1
        self._count -= 1
        of_owner = self._owners[outgoing.owner]
        del of_owner[outgoing.slot]
        if not of_owner:
            del self._owners[outgoing.owner]

    def clear(self) -> None:
        self._count = 0
        self._owners.clear()

    def is_full(self, server: Server) -> bool:
        return server.count >= self._most or self._count >= self._most_of_all

    def drop_candidate(self, server: Server, name: str, owner: str) -> tuple[str, str] | None:
        """Choose the oldest answer of an owner to drop for one of ``owner``. Returns the owner and the server of that
        answer.

        It is the owner with most answers, if it still has at least as many as ``owner`` afterwards, otherwise
        ``owner``.

        :return: ``None`` = no answer is dropped, and ``owner`` has none.
        """
        crowded = server.count >= self._most
        counts = server.answers.counts() if crowded else {each: len(of) for each, of in self._owners.items()}
        most, own = max(counts, key=counts.__getitem__), counts.get(owner, 0)
        if counts[most] <= own + 1:
            most = owner
        if not counts.get(most, 0):
            return None
        return most, name if crowded else next(iter(self._owners[most].values()))
