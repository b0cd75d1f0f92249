"""What waits for a thread that posts: in lines that take turns, so that none waits behind another that cannot go on."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mercury.engine.exchange import Outgoing

Slot = tuple[str, str, int]


class WaitingLines:
    """Lines by who asked for what waits there (`Outgoing.owner`), and by where it goes (`Outgoing.error_name`).

    The owners take turns, and of one owner the endpoints do: many lines of one owner count as much as one of another.
    """

    def __init__(self) -> None:
        #: By owner and endpoint; the one that was served longest ago comes first.
        self._log_limiter: OrderedDict[str, OrderedDict[str, deque[Outgoing]]] = OrderedDict()
        #: How many lines there are by endpoint.
        self._names: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._log_limiter)

    def __contains__(self, name: str) -> bool:
        """Whether something waits that goes to an endpoint."""
        return name in self._names

    def put(self, outgoing: Outgoing) -> None:
        lines, name = self._log_limiter.setdefault(outgoing.owner, OrderedDict()), outgoing.error_name
        if name not in lines:
            lines[name] = deque()
            self._names[name] = self._names.get(name, 0) + 1
        lines[name].append(outgoing)

    def first(self) -> str | None:
        """The endpoint that has the next turn."""
        return next(iter(next(iter(self._log_limiter.values()))), None) if self._log_limiter else None

    def take(self, may: Callable[[str], bool] | None = None) -> Outgoing | None:
        """Take what comes next; ``None`` = nothing.

        :param may: whether something may go to an endpoint now; those that may not are passed over.
        """
        for owner, lines in self._log_limiter.items():
            for name in lines:
                if may is None or may(name):
                    return self._pop(owner, name)
        return None

    def take_of(self, owner: str) -> Outgoing:
        """Take what an owner has in the line that was served longest ago. It has something."""
        return self._pop(owner, next(iter(self._log_limiter[owner])))

    def move(self, name: str, to: WaitingLines) -> None:
        """Let all that goes to an endpoint wait in other lines, where nothing that goes there waits yet."""
        for owner in [owner for owner, lines in self._log_limiter.items() if name in lines]:
            to._log_limiter.setdefault(owner, OrderedDict())[name] = self._log_limiter[owner].pop(name)
            if not self._log_limiter[owner]:
                del self._log_limiter[owner]
        to._names[name] = self._names.pop(name)

    def counts(self) -> dict[str, int]:
        """How much waits, by owner."""
        return {owner: sum(map(len, lines.values())) for owner, lines in self._log_limiter.items()}

    def _pop(self, owner: str, name: str) -> Outgoing:
        lines = self._log_limiter[owner]
        found = lines[name].popleft()
        if lines[name]:
            lines.move_to_end(name)
        else:
            del lines[name]
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]
        if lines:
            self._log_limiter.move_to_end(owner)
        else:
            del self._log_limiter[owner]
        return found


class Kind(enum.Enum):
    """What waits for a server."""

    WELL = enum.auto()
    FAILING_SHARE = enum.auto()
    ANSWER = enum.auto()


@dataclass(slots=True, eq=False)
class Server:
    """What is being posted to one server, and what waits for that."""

    #: Of all that there is (`WHOLE`, `HELD`), what is in use here.
    in_use: int = 0
    #: Exchanges of answers; exchanges that were begun while their endpoint was in trouble; exchanges by endpoint.
    answering: int = 0
    trying: int = 0
    endpoints: dict[str, int] = field(default_factory=dict)
    #: What goes to endpoints whose last exchange failed waits apart: it has few exchanges, and the others do not wait
    #: for it.
    well: WaitingLines = field(default_factory=WaitingLines)
    failing: WaitingLines = field(default_factory=WaitingLines)
    answers: WaitingLines = field(default_factory=WaitingLines)
    #: How many answers wait.
    count: int = 0
    #: The three kinds take turns, too: the one that was served longest ago comes first.
    order: deque[Kind] = field(default_factory=lambda: deque(Kind))

    @property
    def waiting(self) -> bool:
        return bool(self.well or self.failing or self.answers)

    def sort(self, name: str, failing: bool) -> None:
        """Keep what goes to an endpoint where it belongs now."""
        if failing and name in self.well:
            self.well.move(name, self.failing)
        elif not failing and name in self.failing:
            self.failing.move(name, self.well)

    def forget(self) -> None:
        """Nothing waits any more."""
        self.well, self.failing, self.answers, self.count = WaitingLines(), WaitingLines(), WaitingLines(), 0


class WaitingAnswers:
    """Who has how many answers waiting, of all servers.

    :param most: answers that wait for one server, and for all.
    """

    def __init__(self, most: int, most_of_all: int) -> None:
        self._most, self._most_of_all = most, most_of_all
        self._count = 0
        #: By owner: which ones, the oldest first, and at which server.
        self._owners: dict[str, OrderedDict[Slot, str]] = {}

    def put(self, server: Server, name: str, outgoing: Outgoing) -> None:
        server.answers.put(outgoing)
        server.count += 1
        self._count += 1
        self._owners.setdefault(outgoing.owner, OrderedDict())[outgoing.slot] = name

    def took(self, server: Server, outgoing: Outgoing) -> None:
        """One of them waits no longer."""
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

    def loser(self, server: Server, name: str, owner: str) -> tuple[str, str] | None:
        """Who makes room for an answer of this owner when it is full: whose oldest answer, and at which server.

        It is who has most of them, as long as it keeps as many as the other one gets; or else the owner itself.

        :return: ``None`` = nobody does, and the owner has none itself.
        """
        crowded = server.count >= self._most
        counts = server.answers.counts() if crowded else {each: len(of) for each, of in self._owners.items()}
        most, own = max(counts, key=counts.__getitem__), counts.get(owner, 0)
        if counts[most] <= own + 1:
            most = owner
        if not counts.get(most, 0):
            return None
        return most, name if crowded else next(iter(self._owners[most].values()))
