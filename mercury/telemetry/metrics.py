"""All metrics of a process, for exporters: `Metrics.collect` reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mercury.storage.gauges import Gauges
from mercury.storage.letters import Direction
from mercury.telemetry import instruments as of
from mercury.telemetry.instruments import INSTRUMENTS, RESPONSES, Instrument, Kind
from mercury.telemetry.labels import largest
from mercury.telemetry.reasons import reason_of
from mercury.telemetry.recorder import Recorder
from mercury.telemetry.store_gauges import StoreGauges
from mercury.telemetry.values import Distribution, Labels

if TYPE_CHECKING:
    from mercury.storage.xa.recovery import InDoubt


class ProcessSource(Protocol):
    """The state of the process, for its gauges."""

    def running(self) -> bool:
        """Whether all threads run."""

    def in_doubt(self) -> InDoubt | None:
        """The branches in doubt as of the last run of recovery; ``None`` = the process has no databases that take part
        in two-phase commits."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of one series."""

    instrument: Instrument
    labels: Labels
    value: float | Distribution


class Metrics:
    """The metrics of one process.

    :param most: the limit on the destinations of a gauge.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        recorder: Recorder,
        store: StoreGauges,
        process: ProcessSource,
        most: int,
        clock: Callable[[], float],
    ) -> None:
        self.recorder = recorder
        self._store, self._process, self._most, self._clock = store, process, most, clock

    def collect(self) -> Iterator[Sample]:
        """All series, in the order of `INSTRUMENTS`. May query the store, and so may block."""
        gauges = self.gauges()
        for instrument in INSTRUMENTS:
            match instrument.kind:
                case Kind.COUNTER:
                    for labels, count in self.recorder.counters[instrument.name].read():
                        yield Sample(instrument, labels, count)
                case Kind.HISTOGRAM:
                    for labels, found in self.recorder.histograms[instrument.name].read():
                        yield Sample(instrument, labels, found)
                case Kind.GAUGE:
                    for labels, value in gauges.get(instrument.name, {}).items():
                        yield Sample(instrument, labels, value)

    def gauges(self) -> Mapping[str, Mapping[Labels, float]]:
        """All gauges, by name. May query the store, and so may block."""
        observed = self._store.read()
        found: dict[str, Mapping[Labels, float]] = {
            of.RUNNING.name: {(): float(self._process.running())},
            of.STORE_UP.name: {(): float(observed.up)},
            of.GAUGES_HERE.name: {(): float(observed.gauges is not None)},
        }
        in_doubt = self._process.in_doubt()
        if in_doubt is not None:
            found[of.IN_DOUBT.name] = {(): float(len(in_doubt))}
            found[of.IN_DOUBT_AGE.name] = {(): in_doubt.oldest(self._clock())}
        if observed.gauges is not None:
            found |= _of_store(observed.gauges, self._most, self._clock())
        return found

    def stop(self) -> None:
        """Let another process read the store's gauges."""
        self._store.stop()


def _of_store(gauges: Gauges, most: int, now: float) -> dict[str, Mapping[Labels, float]]:
    waiting: dict[Labels, float] = {}
    for state in {state for state, _ in gauges.waiting}:
        counts = ((name or RESPONSES, count) for (each, name), count in gauges.waiting.items() if each is state)
        for name, count in largest(counts, most).items():
            waiting[state.value, name] = count
    letters: dict[Labels, float] = {}
    for (direction, text), count in gauges.dead_letters.items():
        labels = (direction.value, reason_of(text).value)
        letters[labels] = letters.get(labels, 0) + count
    numbers = {
        of.OLDEST_UNACKNOWLEDGED: _age(gauges.oldest_unacknowledged, now),
        of.OLDEST_UNDELIVERED: _age(gauges.oldest_undelivered, now),
        of.GAPS: gauges.gaps,
        of.LETTERS_UNCOUNTED: gauges.letters_uncounted,
        of.UNFINISHED: gauges.decisions,
        of.UNFINISHED_AGE: _age(gauges.oldest_decision, now),
        of.CLAIMS: sum(gauges.claims),
        of.CLAIMS_MOST: max(gauges.claims, default=0),
        of.NODES: len(gauges.claims),
    }
    return {
        of.WAITING_MESSAGES.name: waiting,
        of.UNCOUNTED.name: {(each.value,): float(gauges.uncounted.get(each, 0)) for each in Direction},
        of.OPEN_SEQUENCES.name: {
            ("source",): float(gauges.open_sources),
            ("destination",): float(gauges.open_destinations),
        },
        of.DEAD_LETTERS.name: letters,
        **{instrument.name: {(): float(number)} for instrument, number in numbers.items()},
    }


def _age(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)
