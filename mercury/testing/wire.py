"""The network of a test: a list of HTTP messages in transit, and rules that lose, repeat, hold or alter them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from mercury.engine.exchange import Answer, Arrival, PendingResponse
from mercury.testing.clock import FakeClock
from mercury.testing.flights import Exchange, Flight, Reachable, name_of
from mercury.wire.envelope import HttpMessage

#: The most turns without time passing; after them `Wire.run` raises, because the work has no end.
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
    """An exchange that is held open for its response."""

    process: Reachable
    waiting: tuple[PendingResponse, ...]
    flight: Flight
    #: The request.
    arrival: Arrival


class Wire:
    """Transports HTTP messages between processes, in the order in which they were posted.

    `lose`, `repeat`, `hold` and `alter` make rules for future messages with a name. `name_of` lists the names; ``*`` at
    the end of a name matches any text: ``message *``. The oldest rule that matches applies, as many times as it says.
    `at_random` is for tests with many messages.

    `run` and `advance` do all work in the calling thread, without sockets.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        #: The processes by the host name in their URLs.
        self.processes: dict[str, Reachable] = {}
        #: The messages in transit.
        self.flights: list[Flight] = []
        #: The messages that `hold` has taken out of transit.
        self.held: list[Flight] = []
        #: Exchanges that are held open for their responses.
        self.parked: list[Parked] = []
        #: Whether a server holds an exchange open for its response, or answers at once if there is none (HTTP-05).
        self.patient = True
        #: The names of all messages that were posted or replied, in order, including lost ones.
        self.seen: list[str] = []
        #: The same with times: (seconds since the clock's start, name).
        self.times: list[tuple[float, str]] = []
        self._rules: list[_Rule] = []
        self._by_chance: Callable[[Flight], Callable[[Flight], None] | None] = lambda _flight: None

    # --- rules -----------------------------------------------------------------------------------------------------

    def lose(self, name: str, times: int = 1) -> None:
        """Lose the next messages of this name; their exchanges fail."""
        self._rules.append(_Rule(name, self._lost, times))

    def repeat(self, name: str, times: int = 1) -> None:
        """Deliver the next messages of this name twice; the reply to the second copy is discarded."""
        self._rules.append(_Rule(name, self._doubled, times))

    def hold(self, name: str, times: int = 1) -> None:
        """Hold the next messages of this name until `release`, so that later ones overtake them."""
        self._rules.append(_Rule(name, self.held.append, times))

    def release(self, *, backwards: bool = False) -> None:
        """Put the held messages into transit, after all others.

        :param backwards: in reverse order.
        """
        held, self.held[:] = list(self.held), []
        self.flights += reversed(held) if backwards else held

    def alter(self, name: str, change: Callable[[HttpMessage], HttpMessage], times: int = 1) -> None:
        """Replace the next messages of this name by the result of ``change``."""

        def altered(flight: Flight) -> None:
            flight.http = change(flight.http)
            self.flights.append(flight)

        self._rules.append(_Rule(name, altered, times))

    def at_random(self, seed: int, *, lose: float = 0.0, repeat: float = 0.0, overtake: float = 0.0) -> None:
        """From now on lose, repeat or reorder messages without a rule at random; the same seed gives the same choices.

        :param lose: the share of messages, requests and replies, that are lost.
        :param repeat: the share that is delivered twice.
        :param overtake: the share that is put before all messages in transit.
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
        """Remove all rules: from now on every message arrives once and in order. Held messages stay held."""
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
        """Put a message into transit, or apply the first matching rule to it."""
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
        """Work until no message is in transit and no work is due now.

        :raises AssertionError: the work has no end (`TURNS`).
        """
        for _ in range(TURNS):
            worked = self.turn()
            if self.flights:
                self.carry()
            elif not worked and not self._unpark(final=True):
                return
        raise AssertionError(f"the work at this moment has no end: ... {self.seen[-12:]}")

    def turn(self) -> bool:
        """Run once every worker of every process, and put their messages into transit. Returns whether any worked."""
        worked = [process.turn() for process in list(self.processes.values())]
        return any(worked) | self._unpark(final=False)

    def carry(self) -> None:
        """Deliver all messages that are in transit now."""
        flights, self.flights = self.flights, []
        for flight in flights:
            self.arrive(flight)

    def advance(self, seconds: float) -> None:
        """Let time pass, and do work that becomes due at its time.

        :raises AssertionError: the work of one moment has no end (`TURNS`).
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
        """The time of the next due work of any process, in seconds since the epoch; ``None`` = there is none."""
        times = [process.next_due() for process in self.processes.values() if process.up]
        return min((at for at in times if at is not None), default=None)

    # --- delivery --------------------------------------------------------------------------------------------------

    def arrive(self, flight: Flight) -> None:
        """Deliver a message to its process."""
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
        arrival = Arrival(http=flight.http, service=service, url=flight.url, peer="peer")
        if process.engine.is_secured(service):
            arrival = replace(arrival, envelope=process.engine.decode(flight.http, service))
        answers = process.receive([arrival])
        if answers is None:
            if flight.exchange is not None:
                self._fail(flight.exchange, "the other side closed the connection")
            return
        self._answered(process, flight, answers[0], arrival)

    def _answered(self, process: Reachable, flight: Flight, answer: Answer, arrival: Arrival) -> None:
        process.post(list(answer.posts))
        process.replied(answer.http)
        if flight.exchange is None:
            return
        reply = Flight(
            process.engine.secured_reply(answer.http, arrival.service, arrival.verified),
            flight.url,
            flight.exchange,
            is_reply=True,
        )
        if not answer.waiting:
            self.launch(reply)
            return
        self.parked.append(Parked(process, answer.waiting, reply, arrival))
        self._unpark(final=not self.patient)

    def _unpark(self, *, final: bool) -> bool:
        moved = False
        for place in list(self.parked):
            response = place.process.respond(place.waiting, partly=final)
            if place not in self.parked or (response is None and not final):
                continue
            self.parked.remove(place)
            moved = True
            if response is not None:
                place.flight.http = place.process.engine.secured_reply(
                    response, place.arrival.service, place.arrival.verified
                )
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
        """Fail the exchanges that a process held open when it crashed."""
        for place in [place for place in self.parked if place.process is process]:
            self.parked.remove(place)
            if place.flight.exchange is not None:
                self._fail(place.flight.exchange, "the other side closed the connection")

    def _fail(self, exchange: Exchange, why: str) -> None:
        if not exchange.over and exchange.process.engine is exchange.engine:
            exchange.over = True
            exchange.process.failed(exchange.outgoing, why)

    # --- queries ---------------------------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """The number of messages of this name that were posted or replied, including lost ones."""
        return self.seen.count(name)

    def when(self, name: str) -> list[float]:
        """The times, in seconds since the clock's start, when messages of this name were posted or replied."""
        return [at for at, each in self.times if each == name]
