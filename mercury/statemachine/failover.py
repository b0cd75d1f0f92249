"""Which of the addresses of one destination the next message is posted to. Pure: times and chance are arguments.

Times are those of a monotonic clock, in seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

#: Seconds after which an address that answered, but not for the application, is tried again at the latest. It may be a
#: standby, and take over at any time.
STANDBY_PAUSE = 0.5
#: Seconds between two looks for an address while there is none at all.
NOBODY_PAUSE = 0.5


class AddressState(enum.Enum):
    """What is known of an address."""

    #: Nothing was posted to it.
    UNTRIED = "untried"
    #: Messages are posted to it.
    IN_USE = "in use"
    #: Its last exchange worked, and another address is in use.
    SPARE = "spare"
    #: Its last exchange failed. It is tried again after a pause.
    FAILED = "failed"


class AddressEvent(enum.Enum):
    """What happens to an address."""

    #: An exchange with it worked, and no better address is in use.
    TAKEN = "taken"
    #: An exchange with it worked while a better address is in use.
    ANSWERED = "answered"
    #: An exchange with it failed.
    FAILED = "failed"
    #: Another address is in use from now on.
    LEFT = "left"


#: The next state.
ADDRESS_TABLE: Mapping[tuple[AddressState, AddressEvent], AddressState] = MappingProxyType(
    {
        (AddressState.UNTRIED, AddressEvent.TAKEN): AddressState.IN_USE,
        (AddressState.UNTRIED, AddressEvent.ANSWERED): AddressState.SPARE,
        (AddressState.UNTRIED, AddressEvent.FAILED): AddressState.FAILED,
        (AddressState.UNTRIED, AddressEvent.LEFT): AddressState.UNTRIED,
        (AddressState.IN_USE, AddressEvent.TAKEN): AddressState.IN_USE,
        (AddressState.IN_USE, AddressEvent.ANSWERED): AddressState.IN_USE,
        (AddressState.IN_USE, AddressEvent.FAILED): AddressState.FAILED,
        (AddressState.IN_USE, AddressEvent.LEFT): AddressState.SPARE,
        (AddressState.SPARE, AddressEvent.TAKEN): AddressState.IN_USE,
        (AddressState.SPARE, AddressEvent.ANSWERED): AddressState.SPARE,
        (AddressState.SPARE, AddressEvent.FAILED): AddressState.FAILED,
        (AddressState.SPARE, AddressEvent.LEFT): AddressState.SPARE,
        (AddressState.FAILED, AddressEvent.TAKEN): AddressState.IN_USE,
        (AddressState.FAILED, AddressEvent.ANSWERED): AddressState.SPARE,
        (AddressState.FAILED, AddressEvent.FAILED): AddressState.FAILED,
        (AddressState.FAILED, AddressEvent.LEFT): AddressState.FAILED,
    }
)


class Failure(enum.Enum):
    """How an exchange with an address failed."""

    #: It was not reached, or there was no complete reply.
    UNREACHED = "not reached"
    #: It answered that it does not serve now.
    REFUSED = "refused"
    #: It did not answer in time.
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SrvName:
    """A name in DNS whose SRV records say where the members of a destination are, and the rest of their URLs."""

    name: str
    scheme: str
    path: str
    #: The name server, ``host:port``; ``None`` = the host's.
    nameserver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedMembers:
    """Members that announce themselves in the local network, and the path of the service there."""

    #: ``zeroconf`` or ``multicast``.
    agent: str
    #: The service type without the last dot, ``_service._tcp.local``; or the multicast group, ``address:port``.
    name: str
    group: str
    path: str
    #: The IPv4 address of the interface that is used; ``None`` = the host's choice.
    interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """How the addresses of one destination are used. Times are seconds."""

    #: The pause before an address that failed is tried again, and the longest such pause.
    initial_delay: float = 0.01
    max_delay: float = 30.0
    #: What the pause is multiplied by after each failure; 1 = it stays the same.
    multiplier: float = 2.0
    #: How often all addresses are tried again for one post after none worked; -1 = as often as there is time for.
    max_attempts: int = -1
    #: The same until one address has worked.
    startup_max_attempts: int = -1
    #: Choose among the addresses by chance; otherwise in their order.
    randomize: bool = True
    #: The longest time that one post waits for an address that works; ``None`` = the default.
    timeout: float | None = None
    #: The longest time that one exchange with an address takes; ``None`` = the default.
    exchange_timeout: float | None = None
    #: A warning is logged when all addresses were tried so many times in vain; -1 = none.
    warn_after: int = 10
    #: The addresses that are used before others, and returned to; empty = all are equal.
    priority: frozenset[str] = frozenset()
    #: The destination is asked for its members, which replace the addresses; or the document at this URL is read.
    updates: bool = False
    update_url: str | None = None
    #: The addresses are those of these SRV records, in their order.
    update_srv: SrvName | None = None
    #: The addresses are those of the members that answer in the local network.
    update_announced: AnnouncedMembers | None = None
    #: A regular expression: members whose whole URL does not match are left out; empty = none is.
    members_filter: str = ""

    @property
    def asks(self) -> bool:
        """Whether the addresses may change."""
        looked_up = (self.update_url, self.update_srv, self.update_announced)
        return self.updates or any(each is not None for each in looked_up)


@dataclass(slots=True)
class Address:
    """One address of a destination."""

    url: str
    state: AddressState = AddressState.UNTRIED
    #: Failures since it last worked.
    failures: int = 0
    #: When the last failure was noted; an exchange that began earlier says nothing new.
    failed_at: float = float("-inf")
    #: When it is tried again.
    due: float = float("-inf")
    #: When an exchange with it last worked.
    worked_at: float = float("-inf")

    def on(self, event: AddressEvent) -> None:
        self.state = ADDRESS_TABLE[self.state, event]


@dataclass(frozen=True, slots=True)
class Until:
    """No address is tried before this time."""

    due: float


class AddressList:
    """The addresses of one destination. At most one is in use. Not thread-safe.

    An address that failed is tried again after a pause that grows with each failure, with random parts of it between
    1/2 and 1, so that the clients of a member that is back do not all come at once.
    """

    def __init__(self, urls: Sequence[str], options: FailoverOptions) -> None:
        self.options = options
        self._addresses = {url: Address(url) for url in urls}
        #: An address has worked.
        self.connected = False
        #: Failures since an address last worked.
        self._failures = 0
        #: When an address is chosen anew although one works.
        self._rebalanced_at = float("inf")

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(self._addresses.values())

    @property
    def current(self) -> str | None:
        """The address in use; ``None`` = none is."""
        return next((each.url for each in self._addresses.values() if each.state is AddressState.IN_USE), None)

    def choose(self, now: float, chance: float) -> str | Until:
        """The address for the next post, or when one is due.

        The address in use is chosen while it works, unless one with priority is due: then that one is tried, by one
        post.

        :param chance: a random number, 0 <= n < 1.
        """
        if now >= self._rebalanced_at:
            self._rebalance(now, chance)
        current = self.current
        ready = [each for each in self._addresses.values() if each.due <= now]
        first = [each for each in ready if each.url in self.options.priority]
        if current is not None:
            if current in self.options.priority or not first:
                return current
            return self._tried(first, now, chance)
        if not ready:
            return Until(min((each.due for each in self._addresses.values()), default=now + NOBODY_PAUSE))
        return self._tried(first or ready, now, chance)

    def worked(self, url: str, now: float) -> None:
        """An exchange with an address worked. It is in use from now on, unless one as good is already."""
        address = self._addresses.get(url)
        if address is None:
            return  # it was removed meanwhile
        address.failures, address.due, self._failures, self.connected = 0, float("-inf"), 0, True
        address.worked_at = max(address.worked_at, now)
        current, priority = self.current, self.options.priority
        if current is not None and current != url and not (url in priority and current not in priority):
            address.on(AddressEvent.ANSWERED)
            return
        for other in self._addresses.values():
            if other is not address:
                other.on(AddressEvent.LEFT)
        address.on(AddressEvent.TAKEN)

    def failed(self, url: str, began: float, now: float, chance: float, failure: Failure = Failure.UNREACHED) -> bool:
        """An exchange with an address failed.

        :param began: when it began. If the address failed since, this is the same failure.
        :return: whether it is time to warn that no address works.
        """
        address = self._addresses.get(url)
        if address is None or began < address.failed_at:
            return False
        address.on(AddressEvent.FAILED)
        address.failures += 1
        address.failed_at = now
        pause = self._pause(address, chance)
        if failure is Failure.REFUSED:
            pause = min(pause, STANDBY_PAUSE)
        elif failure is Failure.SILENT:
            pause = max(pause, now - began)  # another address may work long before this one is found silent again
        address.due = now + pause
        self._failures += 1
        rounds = self.options.warn_after * len(self._addresses)
        return rounds > 0 and self._failures % rounds == 0

    def is_silent(self, url: str, since: float) -> bool:
        """Whether no exchange with an address has worked since then."""
        address = self._addresses.get(url)
        return address is None or address.worked_at < since

    def gives_up(self, attempts: int) -> bool:
        """Whether a post that was tried so many times is given up."""
        options = self.options
        most = options.max_attempts if self.connected else options.startup_max_attempts
        return most >= 0 and attempts >= (most + 1) * len(self._addresses)

    def update(self, urls: Iterable[str], rebalanced_at: float | None = None) -> bool:
        """These are the addresses from now on. What is known of those that stay is kept. Returns whether it changes
        anything.

        :param rebalanced_at: when one is chosen anew if there is a new one; ``None`` = the one in use stays.
        """
        before = self._addresses
        self._addresses = {url: before.get(url) or Address(url) for url in urls}
        if rebalanced_at is not None and self._addresses.keys() - before.keys():
            self._rebalanced_at = rebalanced_at
        return self._addresses.keys() != before.keys()

    def _rebalance(self, now: float, chance: float) -> None:
        """Use another address by chance. It counts as in use before it has worked, so that late answers of the one
        before do not bring that back."""
        self._rebalanced_at = float("inf")
        ready = [each for each in self._addresses.values() if each.due <= now and not each.failures]
        if self.options.priority or not self.options.randomize or not ready:
            return
        chosen = ready[int(chance * len(ready))]
        for other in self._addresses.values():
            if other is not chosen:
                other.on(AddressEvent.LEFT)
        chosen.on(AddressEvent.TAKEN)

    def _pause(self, address: Address, chance: float) -> float:
        options = self.options
        try:
            pause = options.initial_delay * options.multiplier ** max(0, address.failures - 1)
        except OverflowError:
            pause = options.max_delay
        return min(pause, options.max_delay) * (1 + chance) / 2

    def _tried(self, among: Sequence[Address], now: float, chance: float) -> str:
        """One of these addresses. If it failed before, one post tries it, and others wait for the next pause."""
        chosen = among[int(chance * len(among))] if self.options.randomize else among[0]
        if chosen.failures or self.current is not None:
            chosen.due = now + self._pause(chosen, chance)
        return chosen.url
