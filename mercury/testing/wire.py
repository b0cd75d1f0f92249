"""The network of a test: HTTP messages in a list, and what happens to them on their way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mercury.engine.exchange import Answer, Arrival, PendingResponse
from mercury.testing.clock import FakeClock
from mercury.testing.flights import Exchange, Flight, Reachable, name_of
from mercury.wire.envelope import HttpMessage

#: Turns at one moment after which it is said that there is no end.
TURNS = 2000


@dataclass(slots=True)
class _Rule:
    name: str
    act: Callable[[Flight], None]
    left: int

    def fits(self, name: str) -> bool:
        return self.left > 0 and (name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name)


@dataclass(slots=True)
class Parked:
    """A reply that is held back for a response."""

    process: Reachable
    waiting: PendingResponse
    flight: Flight


class Wire:
    """Carries HTTP messages between processes, in the order in which they were posted.

    `lose`, `repeat`, `hold` and `alter` say by name what happens to messages to come; `name_of` says which names there
    are, and ``*`` at the end of one stands for anything: ``message *``. The rule that was made first is used first, and
    each as many times as it says. `at_random` is for tests with many messages.

    Work is done by `run` and `advance` in the calling thread; no thread or socket takes part.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        #: By the host in URLs.
        self.processes: dict[str, Reachable] = {}
        #: What is on its way.
        self.flights: list[Flight] = []
        #: What `hold` took out of it.
        self.held: list[Flight] = []
        #: Replies that wait for a response.
        self.parked: list[Parked] = []
        #: Whether a server holds an exchange open for its response, or looks just once (HTTP-05).
        self.patient = True
        #: Names of everything that was posted or replied, in order, whatever happened to it then.
        self.seen: list[str] = []
        #: The same as (seconds since the clock's start, name).
        self.times: list[tuple[float, str]] = []
        self._rules: list[_Rule] = []
        self._by_chance: Callable[[Flight], Callable[[Flight], None] | None] = lambda _flight: None

    # --- what happens to messages ----------------------------------------------------------------------------------

    def lose(self, name: str, times: int = 1) -> None:
        """The next messages of this name do not arrive; who posted one learns that the exchange failed."""
        self._rules.append(_Rule(name, self._lost, times))

    def repeat(self, name: str, times: int = 1) -> None:
        """The next messages of this name arrive twice; the reply to the second one reaches nobody."""
        self._rules.append(_Rule(name, self._doubled, times))

    def hold(self, name: str, times: int = 1) -> None:
        """The next messages of this name wait for `release`: those behind them overtake them."""
        self._rules.append(_Rule(name, self.held.append, times))

    def release(self, *, backwards: bool = False) -> None:
        """What was held goes on its way, behind everything else.

        :param backwards: in reverse order.
        """
        held, self.held[:] = list(self.held), []
        self.flights += reversed(held) if backwards else held

    def alter(self, name: str, change: Callable[[HttpMessage], HttpMessage], times: int = 1) -> None:
        """The next messages of this name arrive as ``change`` makes them."""

        def altered(flight: Flight) -> None:
            flight.http = change(flight.http)
            self.flights.append(flight)

        self._rules.append(_Rule(name, altered, times))

    def at_random(self, seed: int, *, lose: float = 0.0, repeat: float = 0.0, overtake: float = 0.0) -> None:
        """From now on chance decides about each message for which there is no rule; the same seed decides the same.

        :param lose: share of messages that do not arrive, replies among them.
        :param repeat: share that arrives twice.
        :param overtake: share that is put before everything that is on its way already.
        """
        chance = Random(seed)  # noqa: S311  chance has to be replayed, not unpredictable

        def decide(_flight: Flight) -> Callable[[Flight], None] | None:
            number = chance.random()
            for share, act in ((lose, self._lost), (repeat, self._doubled), (overtake, self._overtaking)):
                if number < share:
                    return act
                number -= share
            return None

        self._by_chance = decide

    def forget_rules(self) -> None:
        """From now on everything arrives, once and in order; what is held stays held."""
        self._rules.clear()
        self._by_chance = lambda _flight: None

    def _lost(self, flight: Flight) -> None:
        if flight.exchange is not None:
            self._fail(flight.exchange, "lost")

    def _doubled(self, flight: Flight) -> None:
        self.flights += [flight, Flight(flight.http, flight.url, None, flight.is_reply, flight.name)]

    def _overtaking(self, flight: Flight) -> None:
        self.flights.insert(0, flight)

    def launch(self, flight: Flight) -> None:
        """Put a message on its way, or let happen to it what the rules say."""
        flight.name = name_of(flight.http)
        self.seen.append(flight.name)
        self.times.append((self.clock.elapsed, flight.name))
        for rule in self._rules:
            if rule.fits(flight.name):
                rule.left -= 1
                rule.act(flight)
                return
        (self._by_chance(flight) or self.flights.append)(flight)

    # --- time and work ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry on until nothing is left to do at this moment.

        :raises AssertionError: there is no end of it.
        """
        for _ in range(TURNS):
            worked = self.turn()
            if self.flights:
                self.carry()
            elif not worked and not self._unpark(final=True):
                return
        raise AssertionError(f"it never ends: ... {self.seen[-12:]}")

    def turn(self) -> bool:
        """One turn of every worker of every process; what they post is put on its way. Returns whether any worked."""
        worked = [process.turn() for process in list(self.processes.values())]
        return any(worked) | self._unpark(final=False)

    def carry(self) -> None:
        """Everything that is on its way now arrives."""
        flights, self.flights = self.flights, []
        for flight in flights:
            self.arrive(flight)

    def advance(self, seconds: float) -> None:
        """Let time pass; what becomes due on the way is done at its time.

        :raises AssertionError: at some moment there is no end of what is done.
        """
        clock = self.clock
        until = clock.now + seconds
        self.run()
        for _ in range(100_000):
            due = self.next_due()
            if due is None or due > until or clock.now >= until:
                break
            clock.now = min(until, max(due, clock.now + 0.001))
            self.run()
        clock.now = until
        self.run()

    def next_due(self) -> float | None:
        """When any process has something to do next; ``None`` = never."""
        times = [process.next_due() for process in self.processes.values() if process.up]
        return min((at for at in times if at is not None), default=None)

    # --- arriving --------------------------------------------------------------------------------------------------

    def arrive(self, flight: Flight) -> None:
        """A message has come to where it goes."""
        if flight.is_reply:
            self._arrive_back(flight)
            return
        host, _, path = flight.url.partition("://")[2].partition("/")
        process = self.processes.get(host)
        if process is None or not process.up:
            if flight.exchange is not None:
                self._fail(flight.exchange, "connection refused")
            return
        service = path.removeprefix("services/") if path.startswith("services/") else None
        answers = process.receive([Arrival(http=flight.http, service=service, url=flight.url, peer="peer")])
        if answers is None:
            if flight.exchange is not None:
                self._fail(flight.exchange, "the other side broke it off")
            return
        self._answered(process, flight, answers[0])

    def _answered(self, process: Reachable, flight: Flight, answer: Answer) -> None:
        process.post(list(answer.posts))
        process.replied(answer.http)
        if flight.exchange is None:
            return
        reply = Flight(answer.http, flight.url, flight.exchange, is_reply=True)
        if answer.waiting is None:
            self.launch(reply)
            return
        self.parked.append(Parked(process, answer.waiting, reply))
        self._unpark(final=not self.patient)

    def _unpark(self, *, final: bool) -> bool:
        moved = False
        for place in list(self.parked):
            response = place.process.respond(place.waiting)
            if place not in self.parked or (response is None and not final):
                continue
            self.parked.remove(place)
            moved = True
            if response is not None:
                place.flight.http = response
                place.process.replied(response)
            self.launch(place.flight)
        return moved

    def _arrive_back(self, flight: Flight) -> None:
        exchange = flight.exchange
        if exchange is None or exchange.over or exchange.process.engine is not exchange.engine:
            return
        exchange.over = True
        exchange.process.answered(exchange.outgoing, flight.http)

    def break_off(self, process: Reachable) -> None:
        """A process has died over the exchanges it held open."""
        for place in [place for place in self.parked if place.process is process]:
            self.parked.remove(place)
            if place.flight.exchange is not None:
                self._fail(place.flight.exchange, "the other side broke it off")

    def _fail(self, exchange: Exchange, why: str) -> None:
        if not exchange.over and exchange.process.engine is exchange.engine:
            exchange.over = True
            exchange.process.failed(exchange.outgoing, why)

    # --- looking ---------------------------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """How many messages of this name were posted or replied, those that were lost too."""
        return self.seen.count(name)

    def when(self, name: str) -> list[float]:
        """When messages of this name were posted or replied, in seconds since the clock's start."""
        return [at for at, each in self.times if each == name]
