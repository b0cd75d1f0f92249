"""The clock and the wire, and what happens to what is on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercury.engine.exchange import Answer, Arrival, Waiting
from mercury.simulation.checks import Checks
from mercury.wire.envelope import HttpMessage

from .flights import Exchange, Flight, name_of
from .words import EPOCH

if TYPE_CHECKING:
    from .node import Node


@dataclass(slots=True)
class _Rule:
    name: str
    act: Callable[[Flight], None]
    left: int


@dataclass(slots=True)
class Parked:
    """A reply that is held back for a response."""

    node: Node
    waiting: Waiting
    flight: Flight


class World:
    """Nodes, a clock and a wire."""

    def __init__(self) -> None:
        self.now = EPOCH
        self.nodes: dict[str, Node] = {}
        self.wire: list[Flight] = []
        #: Flights that `hold` took off the wire.
        self.held: list[Flight] = []
        #: Replies that wait for a response.
        self.parked: list[Parked] = []
        #: Whether a server holds an exchange open for its response, or looks just once (HTTP-05).
        self.patient = True
        #: Names of everything that was put on the wire, in order.
        self.seen: list[str] = []
        #: The same as (time since the beginning, name).
        self.times: list[tuple[float, str]] = []
        #: Is asked about each flight by its place, from 0; ``None`` = it flies. For tests of every single flight.
        self.fate: Callable[[int, Flight], str | None] | None = None
        self._rules: list[_Rule] = []

    # --- what happens to flights -----------------------------------------------------------------------------------

    def lose(self, name: str, times: int = 1) -> None:
        """The next flights of this name do not arrive. ``*`` at the end stands for anything."""
        self._rules.append(_Rule(name, self._lost, times))

    def twice(self, name: str, times: int = 1) -> None:
        """The next requests of this name arrive twice; the second answer reaches nobody."""
        self._rules.append(_Rule(name, self._doubled, times))

    def hold(self, name: str, times: int = 1) -> None:
        """The next flights of this name are held until `release`."""
        self._rules.append(_Rule(name, self.held.append, times))

    def alter(self, name: str, change: Callable[[HttpMessage], HttpMessage], times: int = 1) -> None:
        """The next flights of this name arrive changed."""

        def altered(flight: Flight) -> None:
            flight.http = change(flight.http)
            self.wire.append(flight)

        self._rules.append(_Rule(name, altered, times))

    def forget_rules(self) -> None:
        self._rules.clear()

    def release(self, *, backwards: bool = False) -> None:
        """What was held goes on its way."""
        held, self.held[:] = list(self.held), []
        self.wire += reversed(held) if backwards else held

    def _lost(self, flight: Flight) -> None:
        if flight.exchange is not None:
            self._fail(flight.exchange, "lost")

    def _doubled(self, flight: Flight) -> None:
        self.wire += [flight, Flight(flight.http, flight.url, None, flight.is_reply, flight.name)]

    def launch(self, flight: Flight) -> None:
        """Put a flight on the wire, or let happen to it what the rules say."""
        flight.name = name_of(flight.http)
        place = len(self.seen)
        self.seen.append(flight.name)
        self.times.append((round(self.now - EPOCH, 6), flight.name))
        fate = self.fate(place, flight) if self.fate is not None else None
        if fate is not None:
            {"lose": self._lost, "twice": self._doubled, "hold": self.held.append}[fate](flight)
            return
        for rule in self._rules:
            if rule.left and (
                rule.name == flight.name or (rule.name[-1] == "*" and flight.name.startswith(rule.name[:-1]))
            ):
                rule.left -= 1
                rule.act(flight)
                return
        self.wire.append(flight)

    # --- time and work ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry on until nothing is left to do at this moment."""
        for _ in range(2000):
            worked = self.turn()
            if self.wire:
                self.carry()
            elif not worked and not self._unpark(final=True):
                return
        raise AssertionError(f"it never ends: ... {self.seen[-12:]}")

    def turn(self) -> bool:
        """One turn of every worker of every node; what they post goes on the wire. Returns whether any worked."""
        worked = [node.turn() for node in list(self.nodes.values())]
        return any(worked) | self._unpark(final=False)

    def carry(self) -> None:
        """Everything that is on the wire now arrives."""
        flights, self.wire = self.wire, []
        for flight in flights:
            self.arrive(flight)

    def advance(self, seconds: float) -> None:
        """Let time pass; what becomes due on the way is done at its time."""
        until = self.now + seconds
        self.run()
        for _ in range(100_000):
            times = [node.next_due() for node in self.nodes.values() if node.up]
            due = min((at for at in times if at is not None), default=until)
            if due > until or self.now >= until:
                break
            self.now = min(until, max(due, self.now + 0.001))
            self.run()
        self.now = until
        self.run()

    # --- arriving --------------------------------------------------------------------------------------------------

    def arrive(self, flight: Flight) -> None:
        if flight.is_reply:
            self._arrive_back(flight)
            return
        host, _, path = flight.url.removeprefix("http://").partition("/")
        node = self.nodes.get(host)
        if node is None or not node.up:
            if flight.exchange is not None:
                self._fail(flight.exchange, "connection refused")
            return
        service = path.removeprefix("services/") if path.startswith("services/") else None
        answer = node.receive([Arrival(http=flight.http, service=service, url=flight.url, peer="peer")])
        if answer is None:
            if flight.exchange is not None:
                self._fail(flight.exchange, "the other side broke it off")
            return
        self._answered(node, flight, answer[0])

    def _answered(self, node: Node, flight: Flight, answer: Answer) -> None:
        node.post(list(answer.posts))
        node.checks.replied(node.looked, answer.http)
        if flight.exchange is None:
            return
        reply = Flight(answer.http, flight.url, flight.exchange, is_reply=True)
        if answer.waiting is None:
            self.launch(reply)
            return
        self.parked.append(Parked(node, answer.waiting, reply))
        self._unpark(final=not self.patient)

    def _unpark(self, *, final: bool) -> bool:
        moved = False
        for place in list(self.parked):
            response = place.node.respond(place.waiting)
            if place not in self.parked or (response is None and not final):
                continue
            self.parked.remove(place)
            moved = True
            if response is not None:
                place.flight.http = response
                place.node.checks.replied(place.node.looked, response)
            self.launch(place.flight)
        return moved

    def _arrive_back(self, flight: Flight) -> None:
        exchange = flight.exchange
        if exchange is None or exchange.over or exchange.node.engine is not exchange.engine:
            return
        exchange.over = True
        exchange.node.answered(exchange.outgoing, flight.http)

    def break_off(self, node: Node) -> None:
        """A node has died over the exchanges it held open."""
        for place in [place for place in self.parked if place.node is node]:
            self.parked.remove(place)
            if place.flight.exchange is not None:
                self._fail(place.flight.exchange, "the other side broke it off")

    def _fail(self, exchange: Exchange, why: str) -> None:
        if not exchange.over and exchange.node.engine is exchange.engine:
            exchange.over = True
            exchange.node.failed(exchange.outgoing, why)

    # --- looking ---------------------------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """How many flights of this name were put on the wire."""
        return self.seen.count(name)

    def when(self, name: str) -> list[float]:
        """At what times, in seconds since the beginning, flights of this name were put on the wire."""
        return [at for at, each in self.times if each == name]

    def violations(self) -> list[str]:
        return [text for node in self.nodes.values() for text in node.checks.violations]

    def unfinished(self) -> list[str]:
        """What a story that has come to its end may not leave behind."""
        probe = Checks()
        for node in self.nodes.values():
            probe.everything_ended(node.looked)
        return probe.violations

    def assert_ended(self) -> None:
        """Every sequence has ended well on both sides, nothing is left, and no rule was broken on the way."""
        assert self.unfinished() == []
        self.assert_sound()

    def assert_sound(self) -> None:
        """No rule was broken: nothing said before it was committed, no machine or lock misused."""
        assert self.violations() == []
